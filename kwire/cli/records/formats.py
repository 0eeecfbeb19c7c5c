"""Format strings of ``kwire consume``: ``%k %v\\n`` and the like.

``%t`` topic, ``%p`` partition, ``%o`` offset, ``%k`` key, ``%v`` value, ``%h`` headers, ``%T`` timestamp, ``%K`` and
``%V`` the lengths of key and value in bytes (-1 for null), ``%%`` a percent sign. ``%s`` and ``%S`` are kcat's letters
for ``%v`` and ``%V``. A key, a value or headers may be followed by ``{hex}``, ``{base64}`` or ``{json}``, a timestamp
by ``{iso}``. Null is written as nothing, unless as JSON.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from kwire.cli.records.columns import Columns
from kwire.cli.records.escapes import unescaped

Formatter = Callable[[Columns], bytes]
_Field = Callable[[Columns], Sequence[bytes]]
_Column = Sequence[bytes | None]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VERB: Final = re.compile(r"%(.?)(?:\{([^}]*)\})?", re.DOTALL)


def compile_format(text: str) -> Formatter:
    """The function that writes records as a format string says. ValueError with the reason if it is wrong."""
    fields: list[_Field | bytes] = []
    position = 0
    for match in _VERB.finditer(text):
        _add_literal(fields, unescaped(text[position : match.start()]))
        verb, modifier = match[1], match[2]
        if verb == "%":
            _add_literal(fields, b"%" + _modifier_text(modifier))
        else:
            fields.append(_field(verb, modifier))
        position = match.end()
    _add_literal(fields, unescaped(text[position:]))
    return _joined(fields)


def _modifier_text(modifier: str | None) -> bytes:
    """What follows a percent sign is no modifier."""
    return b"" if modifier is None else unescaped("{" + modifier + "}")


def _add_literal(fields: list[_Field | bytes], literal: bytes) -> None:
    if not literal:
        return
    if fields and isinstance(last := fields[-1], bytes):
        fields[-1] = last + literal
    else:
        fields.append(literal)


def _joined(fields: Sequence[_Field | bytes]) -> Formatter:
    width = len(fields)
    if width == 2 and not isinstance(field := fields[0], bytes) and isinstance(end := fields[1], bytes):
        # The form of most: one field and the end of the line.
        return lambda columns: end.join([*field(columns), b""])

    def write(columns: Columns) -> bytes:
        count = len(columns)
        parts: list[bytes] = [b""] * (count * width)
        for index, field in enumerate(fields):
            parts[index::width] = [field] * count if isinstance(field, bytes) else field(columns)
        return b"".join(parts)

    return write


def _field(verb: str, modifier: str | None) -> _Field:
    if not verb:
        raise ValueError("a format ends with a single %; %% is a percent sign")
    modifiers = _FIELDS.get(verb)
    if modifiers is None:
        raise ValueError(f"%{verb} is none of the verbs {' '.join('%' + each for each in _FIELDS)}")
    field = modifiers.get(modifier or "")
    if field is None:
        known = ", ".join("{" + each + "}" for each in modifiers if each)
        reason = f"the modifier is none of {known}" if known else "this verb has no modifiers"
        raise ValueError(f"%{verb}{{{modifier}}}: {reason}")
    return field


def _topic(columns: Columns) -> Sequence[bytes]:
    return [columns.topic.encode()] * len(columns)


def _partition(columns: Columns) -> Sequence[bytes]:
    return [b"%d" % columns.partition] * len(columns)


def _offset(columns: Columns) -> Sequence[bytes]:
    return list(map(b"%d".__mod__, columns.offsets))


def _timestamp(columns: Columns) -> Sequence[bytes]:
    return list(map(b"%d".__mod__, columns.timestamps))


def _iso_timestamp(columns: Columns) -> Sequence[bytes]:
    return [iso_text(timestamp).encode() for timestamp in columns.timestamps]


def iso_text(timestamp_ms: int) -> str:
    """A time in UTC with milliseconds; nothing for -1, which is no time."""
    if timestamp_ms < 0:
        return ""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _raw(column: _Column) -> Sequence[bytes]:
    return [content or b"" for content in column] if None in column else column  # type: ignore[return-value]


def _hex(column: _Column) -> Sequence[bytes]:
    return [content.hex().encode() for content in _raw(column)]


def _base64(column: _Column) -> Sequence[bytes]:
    return [b64encode(content) for content in _raw(column)]


def _json(column: _Column) -> Sequence[bytes]:
    from kwire.cli.records.json_lines import json_texts

    return [text.encode() for text in json_texts(column)]


def _length(column: _Column) -> Sequence[bytes]:
    return [b"-1" if content is None else b"%d" % len(content) for content in column]


def _of_key(write: Callable[[_Column], Sequence[bytes]]) -> _Field:
    return lambda columns: write(columns.keys)


def _of_value(write: Callable[[_Column], Sequence[bytes]]) -> _Field:
    return lambda columns: write(columns.values)


def _headers(write: Callable[[_Column], Sequence[bytes]]) -> _Field:
    """Headers as kcat has them: ``name=value`` with commas between them."""

    def field(columns: Columns) -> Sequence[bytes]:
        texts = [b""] * len(columns)
        for index, headers in columns.headers.items():
            pairs = zip([name for name, _ in headers], write([value for _, value in headers]), strict=True)
            texts[index] = b",".join(name.encode("utf-8", "surrogateescape") + b"=" + value for name, value in pairs)
        return texts

    return field


def _json_headers(columns: Columns) -> Sequence[bytes]:
    from kwire.cli.records.json_lines import header_texts

    return [text.encode() for text in header_texts(columns)]


_MODIFIERS: Final = {"": _raw, "hex": _hex, "base64": _base64, "json": _json}
_KEY: Final = {name: _of_key(write) for name, write in _MODIFIERS.items()}
_VALUE: Final = {name: _of_value(write) for name, write in _MODIFIERS.items()}
_FIELDS: Final[dict[str, dict[str, _Field]]] = {
    "t": {"": _topic},
    "p": {"": _partition},
    "o": {"": _offset},
    "k": _KEY,
    "v": _VALUE,
    "s": _VALUE,
    "h": {name: _headers(write) for name, write in _MODIFIERS.items() if name != "json"} | {"json": _json_headers},
    "T": {"": _timestamp, "iso": _iso_timestamp},
    "K": {"": _of_key(_length)},
    "V": {"": _of_value(_length)},
    "S": {"": _of_value(_length)},
}
"""Verb -> modifier -> what writes it."""
