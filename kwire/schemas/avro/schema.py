"""`AvroSchema`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from kwire.schemas.avro import compatibility
from kwire.schemas.avro.model import Named, Record
from kwire.schemas.avro.parsing import parse_types
from kwire.schemas.avro.rendering import canonical
from kwire.schemas.avro.values import Values
from kwire.schemas.errors import SchemaError
from kwire.schemas.json_text import compact
from kwire.schemas.limits import bounded
from kwire.schemas.schema import AVRO, Incompatibility, Resolved, Schema


class AvroSchema(Schema):
    """A schema of Avro. Types of schemas that it refers to are named in its text, not repeated. ``strict``: as for a
    schema that is new (`parse_types`). `SchemaError`."""

    type = AVRO

    def __init__(self, text: str, resolved: Sequence[Resolved] = (), *, strict: bool = True) -> None:
        self.root, others = parse_types(text, [each.text for each in resolved], strict=strict)
        self._elsewhere = {name for each in others for name in names(each)}
        super().__init__(self._rendered(normalized=False))

    @bounded
    def _rendered(self, *, normalized: bool) -> str:
        return compact(canonical(self.root, normalized=normalized, known=set(self._elsewhere)))

    def normalized(self) -> str:
        """Full names, and properties in alphabetical order."""
        return self._rendered(normalized=True)

    def incompatibilities(self, writer: Schema) -> list[Incompatibility]:
        """By the rules of Apache Avro's Java library."""
        assert isinstance(writer, AvroSchema)
        return compatibility.incompatibilities(self.root, writer.root)

    @cached_property
    def _values(self) -> Values:
        return Values(self.root)

    def decode(self, body: bytes) -> Any:
        """The value of bytes. `DecodeError`."""
        return self._values.decode(body)

    def raw_values(self) -> Values:
        """What decodes values without logical types. `DecodeError`."""
        return Values(self.root, raw=True)

    def encode(self, value: Any) -> bytes:
        """The bytes of a value. `DecodeError`."""
        return self._values.encode(value)


def names(type: Any, found: set[str] | None = None) -> set[str]:
    """The full names of all named types in a type."""
    found = set() if found is None else found
    if isinstance(type, Named):
        if type.full_name in found:
            return found
        found.add(type.full_name)
    inside = [each.type for each in type.fields] if isinstance(type, Record) else getattr(type, "branches", None)
    for each in inside if inside is not None else [type.items] if hasattr(type, "items") else []:
        names(each, found)
    return found


__all__ = ["AvroSchema", "SchemaError", "names"]
