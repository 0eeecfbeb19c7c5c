"""Values by fastavro, and what keeps hostile bytes from harming the process that decodes them.

fastavro's compiled decoder recurses on the C stack, where bytes of a cyclic type can nest without end (measured:
100,000 levels end the process), so those types take its decoder in Python, whose recursion is bounded. An array of
values that take no bytes (null) could have 2^63 elements in a few bytes: arrays of such types are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from kwire.base.extras import needed
from kwire.schemas.avro.model import AvroType, Collection, Enumeration, Fixed, Record, Union
from kwire.schemas.avro.rendering import canonical
from kwire.schemas.errors import DecodeError


class Values:
    """Decodes and encodes values of one type."""

    def __init__(self, type: AvroType) -> None:
        try:
            import fastavro
        except ImportError:
            raise DecodeError(needed("registry")) from None
        self._parsed = fastavro.parse_schema(canonical(type))
        self._read: Callable[..., Any] = fastavro.schemaless_reader
        if _is_cyclic(type, set()):
            from fastavro import _read_py

            self._read = _read_py.schemaless_reader
        self._write = fastavro.schemaless_writer
        self._refusal = "an array of values that take no bytes is not decoded" if _has_empty_items(type) else None

    def decode(self, body: bytes) -> Any:
        """The value of bytes. `DecodeError`."""
        if self._refusal is not None:
            raise DecodeError(self._refusal)
        source = BytesIO(body)
        try:
            value = self._read(source, self._parsed, None)
        except RecursionError:
            raise DecodeError("the value is nested too deeply") from None
        except Exception as error:  # whatever fastavro meets in bytes that are none of this type
            raise DecodeError(f"the bytes do not fit the Avro schema ({type(error).__name__}: {error})") from None
        if source.tell() != len(body):
            raise DecodeError(f"{len(body) - source.tell()} bytes follow the Avro value")
        return value

    def encode(self, value: Any) -> bytes:
        """The bytes of a value. `DecodeError`."""
        target = BytesIO()
        try:
            self._write(target, self._parsed, value)
        except RecursionError:
            raise DecodeError("the value is nested too deeply") from None
        except Exception as error:  # fastavro has no exception of its own for a value that does not fit
            raise DecodeError(f"the value does not fit the Avro schema ({error})") from None
        return target.getvalue()


def _is_cyclic(type: AvroType, above: set[int]) -> bool:
    """Whether a type contains itself."""
    if isinstance(type, Record):
        if id(type) in above:
            return True
        inside = above | {id(type)}
        return any(_is_cyclic(each.type, inside) for each in type.fields)
    if isinstance(type, Collection):
        return _is_cyclic(type.items, above)
    return isinstance(type, Union) and any(_is_cyclic(each, above) for each in type.branches)


def _has_empty_items(type: AvroType, seen: set[int] | None = None) -> bool:
    """Whether there is an array of values that may take no bytes."""
    seen = set() if seen is None else seen
    if id(type) in seen:
        return False
    seen.add(id(type))
    if isinstance(type, Collection):
        return (type.kind == "array" and _may_be_empty(type.items, set())) or _has_empty_items(type.items, seen)
    if isinstance(type, Record):
        return any(_has_empty_items(each.type, seen) for each in type.fields)
    return isinstance(type, Union) and any(_has_empty_items(each, seen) for each in type.branches)


def _may_be_empty(type: AvroType, above: set[int]) -> bool:
    if isinstance(type, Record):
        if id(type) in above:
            return False
        return all(_may_be_empty(each.type, above | {id(type)}) for each in type.fields)
    if isinstance(type, Fixed):
        return type.size == 0
    return type.kind == "null" and not isinstance(type, Enumeration)
