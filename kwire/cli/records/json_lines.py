"""Records as JSON Lines: ``topic, partition, offset, timestamp, key, value, headers``.

Bytes that are UTF-8 are a string, others ``{"base64": …}``, and null is null. What `json_lines` writes, `parse_line`
reads.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from kwire.cli.records.columns import Columns
from kwire.codec.records import RecordHeader

_FIELDS: Final = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})
_NO_HEADERS: Final = "[]"


def json_lines(columns: Columns) -> bytes:
    """A line for each record."""
    return ("\n".join(json_objects(columns)) + "\n").encode() if len(columns) else b""


def json_objects(columns: Columns) -> list[str]:
    """A JSON object for each record, each on one line."""
    topic = encode_basestring(columns.topic).replace("%", "%%")
    template = (
        f'{{"topic": {topic}, "partition": {columns.partition}, "offset": %d, "timestamp": %d, '
        '"key": %s, "value": %s, "headers": %s}'
    )
    keys, values, headers = json_texts(columns.keys), json_texts(columns.values), header_texts(columns)
    rows = zip(columns.offsets, columns.timestamps, keys, values, headers, strict=True)
    return list(map(template.__mod__, rows))


def json_texts(column: Sequence[bytes | None]) -> Sequence[str]:
    """Each of a column's contents as JSON."""
    try:
        return list(map(encode_basestring, map(bytes.decode, column)))  # type: ignore[arg-type]
    except (UnicodeDecodeError, TypeError):  # null, or not UTF-8
        return list(map(_json_text, column))


def _json_text(content: bytes | None) -> str:
    if content is None:
        return "null"
    try:
        return encode_basestring(content.decode())
    except UnicodeDecodeError:
        return f'{{"base64": "{b64encode(content).decode()}"}}'


def header_texts(columns: Columns) -> Sequence[str]:
    """Each record's headers as JSON: an array of objects with ``key`` and ``value``."""
    texts = [_NO_HEADERS] * len(columns)
    for index, headers in columns.headers.items():
        names = json_texts([name.encode("utf-8", "surrogateescape") for name, _ in headers])
        values = json_texts([value for _, value in headers])
        pairs = (f'{{"key": {name}, "value": {value}}}' for name, value in zip(names, values, strict=True))
        texts[index] = f"[{', '.join(pairs)}]"
    return texts


class Parsed(NamedTuple):
    """A record to produce. ``timestamp``: milliseconds since the epoch; None for the time when it is sent."""

    key: bytes | None
    value: bytes | None
    headers: list[RecordHeader]
    timestamp: int | None
    partition: int | None


def parse_line(line: bytes) -> Parsed:
    """The record of one line. ValueError with what is wrong."""
    try:
        content = json.loads(line)
    except ValueError as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError("is not a JSON object")
    if unknown := content.keys() - _FIELDS:
        raise ValueError(
            f"has the field {json.dumps(min(unknown))}; those of a record are {', '.join(sorted(_FIELDS))}"
        )
    if "value" not in content:
        raise ValueError('has no "value" (null is one)')
    return Parsed(
        _bytes("key", content.get("key")),
        _bytes("value", content["value"]),
        _headers(content.get("headers")),
        _number("timestamp", content.get("timestamp"), 2**63),
        _number("partition", content.get("partition"), 2**31),
    )


def _bytes(field: str, content: Any) -> bytes | None:
    """The bytes of a key or value: a string's UTF-8, what base64 stands for, or the JSON of anything else."""
    if content is None:
        return None
    if isinstance(content, str):
        try:
            return content.encode()
        except UnicodeEncodeError:
            raise ValueError(f"has a {field} with half a surrogate pair") from None
    if isinstance(content, dict) and content.keys() == {"base64"}:
        try:
            return b64decode(content["base64"], validate=True)
        except (ValueError, TypeError):
            raise ValueError(f"has a {field} whose base64 cannot be decoded") from None
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _headers(content: Any) -> list[RecordHeader]:
    if content is None:
        return []
    if not isinstance(content, list):
        raise ValueError("has headers that are not an array of objects with key and value")
    return [_header(each) for each in content]


def _header(content: Any) -> RecordHeader:
    if not isinstance(content, dict) or not content.keys() <= {"key", "value"} or content.get("key") is None:
        raise ValueError("has headers that are not an array of objects with key and value")
    name = _bytes("header", content["key"]) or b""
    return name.decode("utf-8", "surrogateescape"), _bytes("header", content.get("value"))


def _number(field: str, content: Any, limit: int) -> int | None:
    if content is None:
        return None
    if not isinstance(content, int) or isinstance(content, bool) or not -1 <= content < limit:
        raise ValueError(f"has a {field} that is not a number")
    return content if content >= 0 else None
