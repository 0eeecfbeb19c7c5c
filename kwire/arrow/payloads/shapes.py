"""`Shape`: what a column has whose values follow a schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kwire.schemas import DecodeError, Schema, jsonable
from kwire.schemas.json_text import compact

if TYPE_CHECKING:
    import pyarrow as pa

Convert = Callable[[Any], Any]
"""A decoded value becomes one that Arrow takes."""
Read = Callable[[bytes], Any]
"""The body of a payload becomes a value that Arrow takes. `DecodeError`."""

_EXTENSION: Final = "ARROW:extension:name"
_JSON: Final = {_EXTENSION: "arrow.json", "ARROW:extension:metadata": ""}
_UUID: Final = {_EXTENSION: "arrow.uuid", "ARROW:extension:metadata": ""}
UUID_BYTES: Final = 16


class NoShape(Exception):
    """A schema whose values no Arrow type can hold. The message says why."""


class Shape(ABC):
    """A column's field, without its name, and how values get its type."""

    def __init__(self, field: pa.Field) -> None:
        self.field = field

    @abstractmethod
    def read(self, writer: Schema) -> Read:
        """What reads bodies that were written with a schema. `DecodeError` if none of them can fit."""


class JsonShape(Shape):
    """Any values of any schema, as JSON."""

    def __init__(self) -> None:
        super().__init__(json_field(""))

    def read(self, writer: Schema) -> Read:
        """What reads bodies of a schema."""

        def read(body: bytes) -> str:
            return compact(jsonable(writer.decode(body)))

        return read


def json_field(name: str) -> pa.Field:
    """A field of JSON."""
    import pyarrow as pa

    return pa.field(name, pa.string(), metadata=_JSON)


def uuid_field(name: str) -> pa.Field:
    """A field of UUIDs."""
    import pyarrow as pa

    return pa.field(name, pa.binary(UUID_BYTES), metadata=_UUID)


def is_uuid(field: pa.Field) -> bool:
    """Whether a field is one of UUIDs."""
    return bool(field.metadata) and field.metadata.get(_EXTENSION.encode()) == _UUID[_EXTENSION].encode()


def field(name: str, type: pa.DataType) -> pa.Field:
    """A field of any other type."""
    import pyarrow as pa

    return pa.field(name, type)


def struct(fields: list[pa.Field]) -> pa.DataType:
    """A struct. `NoShape` for names that SQL cannot tell apart, and for none."""
    import pyarrow as pa

    names = {each.name.lower() for each in fields}
    if not fields or "" in names:
        raise NoShape("a type has no fields, or one without a name")
    if len(names) < len(fields):
        raise NoShape("names of fields differ in upper and lower case only")
    return pa.struct(fields)


def uuid_bytes(text: Any) -> bytes:
    """The bytes of a UUID's text. `DecodeError`."""
    try:
        found = bytes.fromhex(text.replace("-", ""))
    except (ValueError, AttributeError):
        found = b""
    if len(found) != UUID_BYTES:
        raise DecodeError(f"{str(text)[:50]!r} is no UUID")
    return found
