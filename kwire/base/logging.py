"""Log lines on standard error: structlog's processors behind loggers whose levels can be changed while running.

``get_logger("kwire.log").info("segment rolled", topic=topic, offset=offset)``: an event in plain words, facts as
fields. On a terminal a line is for people, otherwise it is one JSON object. A disabled call costs one comparison;
structlog itself is imported with the first line that is written. Loggers form Kafka's tree: a logger without a level
of its own has that of the nearest name above it, ``root`` at the top; `set_level` and `unset_level` are what
IncrementalAlterConfigs on a BROKER_LOGGER does.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Final, TextIO

ROOT: Final = "root"

# Kafka's level names (`LogLevelConfig`), from the chattiest to the most silent.
LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
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
        """What only somebody who follows every step wants to see."""
        if self.level <= 5:
            _write("TRACE", self.name, event, fields)

    def debug(self, event: str, /, **fields: Any) -> None:
        """What helps to understand one broker's decisions."""
        if self.level <= 10:
            _write("DEBUG", self.name, event, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        """What an operator wants to know of an ordinary day."""
        if self.level <= 20:
            _write("INFO", self.name, event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        """Something is wrong that the broker can live with."""
        if self.level <= 30:
            _write("WARN", self.name, event, fields)

    def error(self, event: str, /, **fields: Any) -> None:
        """Something failed. ``exc_info=True`` or an exception adds the traceback."""
        if self.level <= 40:
            _write("ERROR", self.name, event, fields)

    def fatal(self, event: str, /, **fields: Any) -> None:
        """The broker cannot go on."""
        if self.level <= 50:
            _write("FATAL", self.name, event, fields)

    def exception(self, event: str, /, **fields: Any) -> None:
        """`error` with the traceback of the exception that is being handled."""
        if self.level <= 40:
            _write("ERROR", self.name, event, {"exc_info": True, **fields})


_loggers: dict[str, Logger] = {ROOT: Logger(ROOT, LEVELS["INFO"])}
_own_levels: dict[str, int] = {ROOT: LEVELS["INFO"]}
_stream: TextIO | None = None
_as_json: bool | None = None
_processors: list[Any] | None = None


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
    """Give a logger (known or not) and those below it this level, one of `LEVELS`; KeyError for any other."""
    _own_levels[name] = LEVELS[level]
    _spread_levels()


def unset_level(name: str) -> None:
    """Let a logger take its level from above again. `ROOT` goes back to INFO."""
    _own_levels.pop(name, None)
    _own_levels.setdefault(ROOT, LEVELS["INFO"])
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
    line: Any = {**fields, "event": event, "level": level, "logger": name}
    stream = _stream or sys.stderr
    try:
        for processor in _processors or _build_processors():
            line = processor(None, level, line)
    except OSError:
        line = repr(line)  # the first line of all says that there are no descriptors left, not even to import with
    try:
        stream.write(line + "\n")
        stream.flush()
    except (OSError, ValueError):
        return  # standard error is closed or its reader is gone: a broker does not end for that


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
    """structlog loads all of `rich` where that happens to be installed, for pictures of tracebacks that nobody asked
    for: 70 ms and 10 MB. It takes no for an answer."""
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
    """A client chooses its own id: it must not be able to write lines of its own."""
    return {
        key: value.translate(_CONTROL_CHARACTERS) if isinstance(value, str) else value for key, value in line.items()
    }
