"""Keys and values by the schemas of a cluster's registry, as JSON, and which schema each of them has.

Schemas are fetched and values decoded in a thread: neither a slow registry nor a large batch holds up other requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.extras import missing
from kwire.cli.connection.errors import CommandError
from kwire.cli.records.columns import Columns
from kwire.cli.schemas.client import URL, RegistryClient
from kwire.console.records.messages import SHOWN_BYTES_MAX, Message, message

if TYPE_CHECKING:
    from kwire.cli.schemas.lookup import SchemaLookup

_MAGIC: Final = 0
_HEADER_BYTES: Final = 5

Notes = Mapping[int, Mapping[str, Any]]
"""By offset, what a message has besides its contents: ``key_schema`` and ``value_schema``, and its own ``size``."""


class Decoded(NamedTuple):
    """Records with JSON for what could be decoded."""

    columns: Columns
    notes: Notes


class Decoder:
    """Decodes by one registry."""

    def __init__(self, lookup: SchemaLookup) -> None:
        self._lookup = lookup

    async def decoded(self, columns: Columns) -> Decoded:
        """The records of a batch. What cannot be decoded stays, and its note says why. `CommandError` if the registry
        does not answer."""
        if not any(map(_is_framed, columns.keys)) and not any(map(_is_framed, columns.values)):
            return Decoded(columns, {})
        return await asyncio.to_thread(self._decoded, columns)

    def _decoded(self, columns: Columns) -> Decoded:
        keys, values = list(columns.keys), list(columns.values)
        notes: dict[int, dict[str, Any]] = {}
        for name, contents in (("key", keys), ("value", values)):
            for index, content in enumerate(contents):
                if content is not None and _is_framed(content):
                    contents[index], note = self._one(content, f"{columns.topic}-{name}")
                    notes.setdefault(columns.offsets[index], {})[f"{name}_schema"] = note
        for index, offset in enumerate(columns.offsets):
            if offset in notes:
                notes[offset]["size"] = message(columns, index, 0)["size"]
        return Decoded(replace(columns, keys=keys, values=values), notes)

    def _one(self, content: bytes, subject: str) -> tuple[bytes, dict[str, Any]]:
        """JSON, and the schema that it has; content that cannot be decoded as it is, and why."""
        from kwire.schemas import DecodeError, SchemaError, decoded_text

        id = int.from_bytes(content[1:_HEADER_BYTES], "big")
        try:
            text = decoded_text(content, self._lookup.schema).encode("utf-8", "replace")
        except (DecodeError, SchemaError) as error:
            return content, {"id": id, "error": str(error)}
        versions = self._lookup.versions(id)
        here = next((each for each in versions if each.subject == subject), versions[0] if versions else None)
        return text, {
            "id": id,
            "type": self._lookup.schema(id).type,
            "subject": here and here.subject,
            "version": here and here.version,
        }


def decoder_of(properties: Mapping[str, str], timeout_s: float) -> Decoder | None:
    """What decodes by the registry that client properties name (``schema.registry.url``); None if they name none, or
    libraries are missing. `CommandError` for a URL that is none."""
    if not properties.get(URL) or missing("registry") is not None:
        return None
    from kwire.cli.schemas.lookup import SchemaLookup

    return Decoder(SchemaLookup(RegistryClient(None, properties, timeout_s)))


async def shown(decoder: Decoder | None, columns: Columns, bytes_max: int = SHOWN_BYTES_MAX) -> list[Message]:
    """The messages of a batch. If the registry does not answer they are as they are, and their notes say so."""
    if decoder is None:
        return list(noted(columns, {}, bytes_max))
    try:
        found, notes = await decoder.decoded(columns)
    except CommandError as error:
        return list(noted(columns, _failures(columns, str(error)), bytes_max))
    return list(noted(found, notes, bytes_max))


def noted(columns: Columns, notes: Notes, bytes_max: int = SHOWN_BYTES_MAX) -> Iterator[Message]:
    """Messages with their notes."""
    for index, offset in enumerate(columns.offsets):
        yield {**message(columns, index, bytes_max), **notes.get(offset, {})}


def _failures(columns: Columns, reason: str) -> Notes:
    notes: dict[int, dict[str, Any]] = {}
    for name, contents in (("key", columns.keys), ("value", columns.values)):
        for offset, content in zip(columns.offsets, contents, strict=True):
            if content is not None and _is_framed(content):
                id = int.from_bytes(content[1:_HEADER_BYTES], "big")
                notes.setdefault(offset, {})[f"{name}_schema"] = {"id": id, "error": reason}
    return notes


def _is_framed(content: bytes | None) -> bool:
    """As `kwire.schemas.wire` says, without importing it: most consoles have no registry."""
    return content is not None and len(content) >= _HEADER_BYTES and content[0] == _MAGIC
