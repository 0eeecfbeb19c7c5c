"""Log lines on standard error: structlog's processors behind loggers whose levels can change at run time.

``get_logger("kwire.log").info("segment rolled", topic=topic, offset=offset)``: the event in plain words, its data as
fields. On a terminal a line is readable text, otherwise one JSON object. A disabled call costs one comparison, and
structlog is imported when the first line is written. Loggers form a tree as in Kafka: a logger without a level of its
own takes the level of the nearest logger above it, with ``root`` at the top. IncrementalAlterConfigs on a BROKER_LOGGER
calls `set_level` and `unset_level`.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Final, TextIO

ROOT: Final = "root"

TRACE: Final = 5
DEBUG: Final = 10
INFO: Final = 20
WARN: Final = 30
ERROR: Final = 40
FATAL: Final = 50

LEVELS: Final = {"TRACE": TRACE, "DEBUG": DEBUG, "INFO": INFO, "WARN": WARN, "ERROR": ERROR, "FATAL": FATAL}
"""Kafka's level names (`LogLevelConfig`), from the most verbose to the least; the numbers are those of Python."""

_NAMES: Final = {number: name for name, number in LEVELS.items()}
_CONTROL_CHARACTERS: Final = {code: f"\\x{code:02x}" for code in [*range(32), 127, *range(128, 160)]} | {
    10: "\\n",
    13: "\\r",
    9: "\\t",
}


class Logger:
    """Writes lines under one name. Get it with `get_logger`; ``level`` is kept up to date by this module."""

    __slots__ = ("level", "name")

    def __init__(self, name: str, level: int) -> None:
        self.name = name
        self.level = level

    def trace(self, event: str, /, **fields: Any) -> None:
        """Every step, with the data itself."""
        if self.level <= TRACE:
            _write("TRACE", self.name, event, fields)

    def debug(self, event: str, /, **fields: Any) -> None:
        """What explains a broker's decisions."""
        if self.level <= DEBUG:
            _write("DEBUG", self.name, event, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        """Ordinary events that operators want to know."""
        if self.level <= INFO:
            _write("INFO", self.name, event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        """A problem that the broker can work around."""
        if self.level <= WARN:
            _write("WARN", self.name, event, fields)

    def error(self, event: str, /, **fields: Any) -> None:
        """A failure. ``exc_info=True`` or an exception adds the traceback."""
        if self.level <= ERROR:
            _write("ERROR", self.name, event, fields)

    def fatal(self, event: str, /, **fields: Any) -> None:
        """The broker cannot go on."""
        if self.level <= FATAL:
            _write("FATAL", self.name, event, fields)

    def exception(self, event: str, /, **fields: Any) -> None:
        """`error` with the traceback of the exception that is being handled."""
        if self.level <= ERROR:
            _write("ERROR", self.name, event, {"exc_info": True, **fields})


BROKER_VARIABLE: Final = "KWIRE_LOG_BROKER"
"""The environment variable whose value each line gets as the field ``broker``: several brokers write to one stream."""

_loggers: dict[str, Logger] = {ROOT: Logger(ROOT, INFO)}
_own_levels: dict[str, int] = {ROOT: INFO}
_stream: TextIO | None = None
_as_json: bool | None = None
_processors: list[Any] | None = None
_origin: dict[str, Any] = {"broker": int(os.environ[BROKER_VARIABLE])} if BROKER_VARIABLE in os.environ else {}


def get_logger(name: str) -> Logger:
    """The logger of a name (a module's: ``kwire.log``); the same object every time."""
    logger = _loggers.get(name)
    if logger is None:
        logger = _loggers[name] = Logger(name, _effective_level(name))
    return logger


def configure(*, level: str | None = None, stream: TextIO | None = None, as_json: bool | None = None) -> None:
    """Set the root level, the stream (``None``: standard error) and the form (``None``: JSON unless a terminal)."""
    global _stream, _as_json, _processors
    _stream, _as_json, _processors = stream, as_json, None
    if level is not None:
        set_level(ROOT, level)


def set_level(name: str, level: str) -> None:
    """Set the level of a logger, known or not, and of those below it. KeyError if it is not one of `LEVELS`."""
    _own_levels[name] = LEVELS[level]
    _spread_levels()


def unset_level(name: str) -> None:
    """Let a logger take the level of the logger above it again. `ROOT` goes back to INFO."""
    _own_levels.pop(name, None)
    _own_levels.setdefault(ROOT, INFO)
    _spread_levels()


def levels() -> dict[str, str]:
    """All loggers and the names of the levels they have, sorted."""
    return {name: _NAMES[_loggers[name].level] for name in sorted(_loggers)}


def is_known(name: str) -> bool:
    """Whether there is such a logger (or one below it)."""
    return name in _loggers or any(other.startswith(name + ".") for other in _loggers)


def _spread_levels() -> None:
    for name, logger in _loggers.items():
        logger.level = _effective_level(name)


def _effective_level(name: str) -> int:
    while name:
        level = _own_levels.get(name)
        if level is not None:
            return level
        name = name.rpartition(".")[0]
    return _own_levels[ROOT]


def _write(level: str, name: str, event: str, fields: dict[str, Any]) -> None:
    line: Any = {**_origin, **fields, "event": event, "level": level, "logger": name}
    stream = _stream or sys.stderr
    try:
        for processor in _processors or _build_processors():
            line = processor(None, level, line)
    except OSError:
        line = repr(line)  # no file descriptors are left, not even to import structlog for this line
    try:
        stream.write(line + "\n")
        stream.flush()
    except (OSError, ValueError):
        return  # standard error is closed or is not read: the broker keeps running


def _build_processors() -> list[Any]:
    global _processors  # noqa: PLW0603
    structlog = _import_structlog()
    stream = _stream or sys.stderr
    is_terminal = not stream.closed and stream.isatty()
    as_json = not is_terminal if _as_json is None else _as_json
    if as_json:
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        colors = is_terminal and "NO_COLOR" not in os.environ
        rendering = [
            _escape_fields,
            structlog.dev.ConsoleRenderer(
                colors=colors, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
            ),
        ]
    _processors = [_add_time, *rendering]
    return _processors


def _import_structlog() -> Any:
    """Import structlog without `rich`, which it would load wherever that is installed, to render tracebacks: 70 ms and
    10 MB. structlog works without it."""
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
        import structlog.dev
        import structlog.processors
    finally:
        if hidden:
            del sys.modules["rich"]
    return structlog


def _add_time(_logger: Any, _method: str, line: dict[str, Any]) -> dict[str, Any]:
    now_s, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s))
    return {"timestamp": f"{stamp}.{milliseconds:03d}Z", **line}


def _escape_fields(_logger: Any, _method: str, line: dict[str, Any]) -> dict[str, Any]:
    """Escape control characters: a client chooses its id, and must not be able to forge log lines with it."""
    return {
        key: value.translate(_CONTROL_CHARACTERS) if isinstance(value, str) else value for key, value in line.items()
    }
