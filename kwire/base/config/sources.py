"""Where properties come from: a `.properties` text and the environment. Names and texts only; no meaning."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kwire.base.config.errors import ConfigError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_LINE_ENDS = re.compile(r"\r\n|\r|\n")

# Names in the environment of Kafka's images and scripts that set up the JVM or the image, not the broker.
_NOT_PROPERTIES = re.compile(
    r"KAFKA_(VERSION|SCALA_VERSION|HOME|OPTS|HEAP_OPTS|GC_LOG_OPTS|JVM_PERFORMANCE_OPTS|DEBUG|MODE|CREATE_TOPICS"
    r"|.*_OPTS|.*_HOME|JMX_.*|LOG4J_.*|TOOLS_LOG4J_.*|GCLOG_.*|JAVA_.*|DEBUG_.*|CLUSTER_ID|LOGS_DIR)"
)


def parse_properties(text: str) -> dict[str, str]:
    r"""The names and values of a Java `.properties` text: ``#`` and ``!`` comments, ``=``, ``:`` or blanks between
    name and value, lines continued by ``\``, escapes including ``\uXXXX``; a name given twice has its last value.

    Raises `ConfigError` for a broken ``\u`` escape, as Java does.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        name, value = _split(line)
        properties[_unescape(name)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending: str | None = None
    for natural in _LINE_ENDS.split(text):
        line = natural.lstrip(_BLANKS)
        if not pending and line[:1] in ("#", "!"):
            pending = None
            continue
        line = (pending or "") + line
        pending = line[:-1] if _is_continued(line) else None
        if pending is None and line:
            lines.append(line)
    return [*lines, pending] if pending else lines


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    index = 0
    while index < len(line) and line[index] not in "=: \t\f":
        index += 2 if line[index] == "\\" else 1
    name, rest = line[:index], line[index:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return name, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    index = 0
    while index < len(text):
        character = text[index]
        index += 1
        if character != "\\" or index == len(text):
            parts.append("" if character == "\\" else character)
            continue
        character = text[index]
        index += 1
        if character == "u":
            parts.append(_unicode_escape(text[index : index + 4]))
            index += 4
        else:
            parts.append(_ESCAPES.get(character, character))
    # Characters beyond the basic plane are written as two escapes (UTF-16 surrogates).
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode_escape(digits: str) -> str:
    if not re.fullmatch("[0-9a-fA-F]{4}", digits):
        raise ConfigError("\\u" + digits, None, "must be followed by four hexadecimal digits")
    return chr(int(digits, 16))


def environment_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties in an environment, with the mapping of Kafka's official image: ``KAFKA_`` before the name,
    ``_`` stands for ``.``, ``__`` for ``_`` and ``___`` for ``-``; what sets up a JVM or the image is left out.

    ``KAFKA_CLUSTER_ID`` is no property: `kwire start` reads it.
    """
    return {
        _property_name(variable[6:]): environment[variable]
        for variable in sorted(environment)
        if variable.startswith("KAFKA_") and len(variable) > 6 and not _NOT_PROPERTIES.fullmatch(variable)
    }


def _property_name(variable: str) -> str:
    """``LOG__X_Y`` -> ``log_x.y``: the longest run of underscores is replaced first."""
    return re.sub(r"_{1,3}", lambda run: {1: ".", 2: "_", 3: "-"}[len(run[0])], variable.lower())
