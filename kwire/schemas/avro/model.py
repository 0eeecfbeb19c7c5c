"""The types of an Avro schema, as objects: named types are one object wherever they are used, so they may be cyclic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NO_DEFAULT: Final = object()
"""The default of a field that has none; None is Avro's null."""


class AvroType:
    """Any type. ``kind``: Avro's name of it, such as ``record``; ``properties``: attributes that Avro does not know,
    and those of logical types."""

    def __init__(self, kind: str, properties: Mapping[str, Any]) -> None:
        self.kind = kind
        self.properties = properties


class Named(AvroType):
    """A type with a name: record, enum or fixed. ``namespace``: "" for none; ``aliases``: full names."""

    def __init__(
        self,
        kind: str,
        name: str,
        namespace: str,
        doc: str | None,
        aliases: Sequence[str],
        properties: Mapping[str, Any],
    ) -> None:
        super().__init__(kind, properties)
        self.name = name
        self.namespace = namespace
        self.doc = doc
        self.aliases = aliases

    @property
    def full_name(self) -> str:
        """The name with its namespace."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class Field:
    """A field of a record. ``default``: as JSON has it, or `NO_DEFAULT`."""

    def __init__(
        self,
        name: str,
        type: AvroType,
        doc: str | None,
        default: Any,
        order: str,
        aliases: Sequence[str],
        properties: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.type = type
        self.doc = doc
        self.default = default
        self.order = order
        self.aliases = aliases
        self.properties = properties


class Record(Named):
    """A record, or an error of a protocol. Its fields come once they have been parsed: they may contain it."""

    def __init__(
        self,
        kind: str,
        name: str,
        namespace: str,
        doc: str | None,
        aliases: Sequence[str],
        properties: Mapping[str, Any],
    ) -> None:
        super().__init__(kind, name, namespace, doc, aliases, properties)
        self.fields: list[Field] = []
        self.by_name: dict[str, Field] = {}

    def add(self, field: Field) -> None:
        """Add a field."""
        self.fields.append(field)
        self.by_name[field.name] = field


class Enumeration(Named):
    """An enum. ``default``: a symbol, or None."""

    def __init__(
        self,
        name: str,
        namespace: str,
        doc: str | None,
        aliases: Sequence[str],
        properties: Mapping[str, Any],
        symbols: Sequence[str],
        default: str | None,
    ) -> None:
        super().__init__("enum", name, namespace, doc, aliases, properties)
        self.symbols = symbols
        self.default = default


class Fixed(Named):
    """A number of bytes."""

    def __init__(
        self,
        name: str,
        namespace: str,
        doc: str | None,
        aliases: Sequence[str],
        properties: Mapping[str, Any],
        size: int,
    ) -> None:
        super().__init__("fixed", name, namespace, doc, aliases, properties)
        self.size = size


class Collection(AvroType):
    """An array or a map, with the type of what is in it."""

    def __init__(self, kind: str, items: AvroType, properties: Mapping[str, Any]) -> None:
        super().__init__(kind, properties)
        self.items = items


class Union(AvroType):
    """One of several types."""

    def __init__(self, branches: Sequence[AvroType]) -> None:
        super().__init__("union", {})
        self.branches = branches
