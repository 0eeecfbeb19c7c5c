"""Spark's values as fastavro takes them: rows by the names of their fields, a union's struct as the one type it has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kwire.arrow.payloads.logical import logical
from kwire.arrow.payloads.shapes import Convert, NoShape
from kwire.arrow.payloads.unions import labels
from kwire.schemas.avro.model import AvroType, Collection, Named, Record, Union
from kwire.schemas.avro.values import is_cyclic
from kwire.schemas.errors import DecodeError

_MILLIS_US: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def plain_values(type: AvroType) -> Convert:
    """What makes values of Spark's those of a type. `NoShape` for a type that Spark cannot have."""
    if is_cyclic(type):
        raise NoShape("a type contains itself")
    return _converter(type)


def _converter(type: AvroType) -> Convert:
    if isinstance(type, Union):
        return _union(type)
    if isinstance(type, Record):
        return _record(type)
    if isinstance(type, Collection):
        inside = _converter(type.items)
        if type.kind == "array":
            return lambda values: [inside(each) for each in values]
        return lambda values: {name: inside(each) for name, each in values.items()}
    return _scalar(type)


def _union(type: Union) -> Convert:
    nullable = any(each.kind == "null" for each in type.branches)
    found = [(each.label, each.type, _converter(each.type)) for each in labels(type)]

    def convert(value: Any) -> Any:
        if value is None:
            if not nullable:
                raise DecodeError("null is no value of the union")
            return None
        if len(found) == 1:
            return found[0][2](value)
        fields = _fields(value)
        given = [each for each in found if fields.get(each[0]) is not None]
        if len(given) > 1:
            raise DecodeError(f"a union has one value, not those of {', '.join(each[0] for each in given)}")
        if not given:
            return convert(None)
        label, branch, inside = given[0]
        made = inside(fields[label])
        return (branch.full_name, made) if isinstance(branch, Named) else made

    return convert


def _record(type: Record) -> Convert:
    inside = {each.name: _converter(each.type) for each in type.fields}

    def convert(value: Any) -> dict[str, Any]:
        fields = _fields(value) if inside else {}
        return {name: convert(fields[name]) for name, convert in inside.items() if name in fields}

    return convert


def _fields(value: Any) -> Mapping[str, Any]:
    """A row's fields."""
    if isinstance(value, Mapping):
        return value
    names = getattr(value, "__fields__", None)
    if names is None:
        raise DecodeError("a struct was expected")
    return dict(zip(names, value, strict=True))


def _scalar(type: AvroType) -> Convert:
    meaning = logical(type)
    if meaning is None:
        return bytes if type.kind in ("bytes", "fixed") else _same
    if meaning.name == "uuid" and type.kind == "fixed":
        from uuid import UUID

        return lambda value: UUID(value).bytes
    if meaning.name == "time-millis":
        return lambda value: value // _MILLIS_US
    if meaning.name == "timestamp-nanos":
        return lambda value: _nanoseconds(_instant(value))
    if meaning.name == "local-timestamp-nanos":
        return lambda value: _nanoseconds(value.replace(tzinfo=UTC))
    return _instant if meaning.name.startswith("timestamp-") else _same


def _same(value: Any) -> Any:
    return value


def _instant(value: datetime) -> datetime:
    """With a zone: Spark gives functions in Python the local time."""
    return value.astimezone(UTC)


def _nanoseconds(value: datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND * 1000
