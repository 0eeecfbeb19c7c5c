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
    """Decodes and encodes values of one type. ``raw``: without logical types, as the numbers, strings and bytes that
    they are made of; of a union's named types (records, enums, fixed) the full name and the value, as a tuple."""

    def __init__(self, type: AvroType, *, raw: bool = False) -> None:
        try:
            import fastavro
        except ImportError:
            raise DecodeError(needed("registry")) from None
        self._parsed = fastavro.parse_schema(canonical(type, properties=not raw))
        self._options = {"return_named_type": True} if raw else {}
        self._read: Callable[..., Any] = fastavro.schemaless_reader
        if is_cyclic(type):
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
            value = self._read(source, self._parsed, None, **self._options)
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


def is_cyclic(type: AvroType) -> bool:
    """Whether a type contains itself, or one that does."""
    return _is_cyclic(type, set(), set())


def _is_cyclic(type: AvroType, above: set[int], done: set[int]) -> bool:
    if isinstance(type, Record):
        if id(type) in above:
            return True
        if id(type) in done:
            return False
        inside = above | {id(type)}
        found = any(_is_cyclic(each.type, inside, done) for each in type.fields)
        done.add(id(type))
        return found
    if isinstance(type, Collection):
        return _is_cyclic(type.items, above, done)
    return isinstance(type, Union) and any(_is_cyclic(each, above, done) for each in type.branches)


def _has_empty_items(type: AvroType, seen: set[int] | None = None) -> bool:
    """Whether there is an array of values that may take no bytes."""
    seen = set() if seen is None else seen
    if id(type) in seen:
        return False
    seen.add(id(type))
    if isinstance(type, Collection):
        return (type.kind == "array" and _may_be_empty(type.items, {})) or _has_empty_items(type.items, seen)
    if isinstance(type, Record):
        return any(_has_empty_items(each.type, seen) for each in type.fields)
    return isinstance(type, Union) and any(_has_empty_items(each, seen) for each in type.branches)


def _may_be_empty(type: AvroType, known: dict[int, bool]) -> bool:
    if isinstance(type, Record):
        if id(type) not in known:
            known[id(type)] = False  # while its fields are looked at
            known[id(type)] = all(_may_be_empty(each.type, known) for each in type.fields)
        return known[id(type)]
    if isinstance(type, Fixed):
        return type.size == 0
    return type.kind == "null" and not isinstance(type, Enumeration)
