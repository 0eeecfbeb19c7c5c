"""Messages as the page gets them: JSON as `kwire consume -o jsonl` writes it, with contents cut to a bound."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

from kwire.cli.records.columns import Columns

SHOWN_BYTES_MAX: Final = 64 * 1024
"""Bytes of a key, a value or a header in a list of messages."""
WHOLE_BYTES_MAX: Final = 10 * 1024 * 1024
"""Bytes of each in a message by itself."""
HEADERS_MAX: Final = 100

Message = dict[str, Any]


def messages(columns: Columns, bytes_max: int = SHOWN_BYTES_MAX) -> Iterator[Message]:
    """The records of a batch. ``size``: bytes of key, value and headers; ``truncated``: something is left out."""
    for index in range(len(columns)):
        yield message(columns, index, bytes_max)


def message(columns: Columns, index: int, bytes_max: int = SHOWN_BYTES_MAX) -> Message:
    """One record of a batch."""
    key, value = columns.keys[index], columns.values[index]
    headers = columns.headers.get(index, ())
    contents = [key, value, *(content for _, content in headers)]
    longest = max(len(each or b"") for each in contents)
    return {
        "topic": columns.topic,
        "partition": columns.partition,
        "offset": columns.offsets[index],
        "timestamp": columns.timestamps[index],
        "key": content_json(key, bytes_max),
        "value": content_json(value, bytes_max),
        "headers": [
            {"key": _name(name), "value": content_json(content, bytes_max)} for name, content in headers[:HEADERS_MAX]
        ],
        "size": sum(len(each or b"") for each in contents) + sum(len(name) for name, _ in headers),
        "truncated": longest > bytes_max or len(headers) > HEADERS_MAX,
    }


def _name(name: str) -> str:
    """A header's name; what is not UTF-8 in it is replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def content_json(content: bytes | None, bytes_max: int = SHOWN_BYTES_MAX) -> Any:
    """Content in JSON: a string if it is UTF-8, otherwise base64; None for null. What is cut ends with a character."""
    if content is None:
        return None
    shown = content
    if len(content) > bytes_max:
        shown = content[:bytes_max]
        end = bytes_max
        while end > bytes_max - 4 and content[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        try:
            return content[:end].decode()
        except UnicodeDecodeError:
            return {"base64": b64encode(shown).decode()}
    try:
        return shown.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(shown).decode()}
