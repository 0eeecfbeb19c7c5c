"""`JsonSchemaShape`: a JSON Schema as an Arrow type.

| JSON Schema | Arrow, and SQL |
| --- | --- |
| object with ``properties`` | struct; what has no property of its own is left out |
| object with ``additionalProperties`` alone | map of strings |
| array with one schema of items | list |
| ``integer``, ``number``, ``boolean``, ``string`` | int64, double, boolean, string |
| ``format``: ``date-time``, ``date``, ``uuid`` | timestamp, date, UUID |
| null and one type (a type array, oneOf, anyOf) | that type |
| allOf of objects | one struct |
| all else, and a type within itself | JSON |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.arrow.payloads.shapes import Convert, NoShape, Read, Shape, field, json_field, struct, uuid_bytes, uuid_field
from kwire.schemas import Schema
from kwire.schemas.errors import DecodeError, SchemaError
from kwire.schemas.json_schema import kinds
from kwire.schemas.json_schema.kinds import Node
from kwire.schemas.json_schema.schema import JsonSchema
from kwire.schemas.json_text import compact
from kwire.schemas.limits import Budget

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS_MAX: Final = 10_000
"""Fields of a column, those within others included."""
_INT64: Final = (-(2**63), 2**63 - 1)


class _Made(NamedTuple):
    """A field, what makes values fit it, and for an object that of its properties."""

    field: pa.Field
    convert: Convert
    properties: Mapping[str, _Made] | None = None


class JsonSchemaShape(Shape):
    """The values of a schema. They are not checked against what it says beside types."""

    def __init__(self, schema: JsonSchema) -> None:
        made = _Fields().made("", schema.root)
        super().__init__(made.field)
        self._convert = made.convert

    def read(self, writer: Schema) -> Read:
        """What reads bodies of a schema; which one does not matter, because the names stand in the values."""
        if not isinstance(writer, JsonSchema):
            raise DecodeError(f"the value has a schema of {writer.type}, the column one of JSON")
        convert = _optional(self._convert)

        def read(body: bytes) -> Any:
            try:
                return convert(json.loads(body))
            except (ValueError, RecursionError) as error:
                raise DecodeError(f"the value is not JSON: {error}") from None

        return read


class _Fields:
    """Makes fields of pieces of a schema, up to `FIELDS_MAX`."""

    def __init__(self) -> None:
        self._budget = Budget(FIELDS_MAX, "fields")
        self._open: dict[int, Any] = {}
        """The pieces that are being read: what is in one of them again is JSON."""

    def made(self, name: str, node: Node) -> _Made:
        """A field of a piece. `NoShape`."""
        self._budget.take()
        try:
            found = kinds.shape(node)
        except SchemaError:
            return _json(name)
        here = id(found.node.value)
        if here in self._open:
            return _json(name)
        self._open[here] = found.node.value
        made = self._of_kind(name, found)
        del self._open[here]
        return made

    def _of_kind(self, name: str, found: kinds.Shape) -> _Made:
        if found.kind == kinds.OBJECT:
            return self._object(name, found.node)
        if found.kind == kinds.ARRAY:
            return self._array(name, found.node)
        if found.kind == kinds.COMBINED:
            return self._combined(name, found)
        return _scalar(name, found.kind, found.node.value)

    def _object(self, name: str, node: Node) -> _Made:
        properties = {each: self.made(each, piece) for each, piece in node.children("properties").items()}
        if properties:
            return _struct(name, properties)
        values = node.child("additionalProperties")
        if values is None or not isinstance(values.value, dict) or not values.value:
            return _json(name)
        return _map(name, self.made("value", values))

    def _array(self, name: str, node: Node) -> _Made:
        items = node.child("items")
        if items is None or items.value is False or "prefixItems" in node.value:
            return _json(name)
        return _list(name, self.made("element", items))

    def _combined(self, name: str, found: kinds.Shape) -> _Made:
        parts = [each for each in found.parts if not _is_null(each)]
        made = [self.made(name, each) for each in parts]
        if len(made) == 1:
            return made[0]
        if found.criterion == "allOf" and made and all(each.properties for each in made):
            merged: dict[str, _Made] = {}
            for each in made:
                merged.update(each.properties or {})
            return _struct(name, merged)
        return _json(name)


def _is_null(node: Node) -> bool:
    try:
        found = kinds.shape(node)
    except SchemaError:
        return False
    return found.kind == kinds.NULL or (found.kind == kinds.ENUM and found.node.value["enum"] == [None])


def _scalar(name: str, kind: str, value: Any) -> _Made:
    import pyarrow as pa

    if kind in (kinds.ENUM, kinds.CONST):
        return _choice(name, value.get("enum") if kind == kinds.ENUM else [value.get("const")])
    if kind == kinds.NUMBER:
        if value.get("type") == "integer":
            return _Made(field(name, pa.int64()), _integer)
        return _Made(field(name, pa.float64()), _number)
    if kind == kinds.BOOLEAN:
        return _Made(field(name, pa.bool_()), _boolean)
    if kind == kinds.NULL:
        return _Made(field(name, pa.string()), _nothing)
    if kind == kinds.STRING:
        return _string(name, value.get("format"))
    return _json(name)


def _choice(name: str, values: Any) -> _Made:
    import pyarrow as pa

    types = {type(each) for each in values if each is not None} if isinstance(values, list) else set()
    if types == {str}:
        return _Made(field(name, pa.string()), _text)
    return _Made(field(name, pa.int64()), _integer) if types == {int} else _json(name)


def _string(name: str, form: Any) -> _Made:
    import pyarrow as pa

    if form == "date-time":
        return _Made(field(name, pa.timestamp("us", "UTC")), _instant)
    if form == "date":
        return _Made(field(name, pa.date32()), _date)
    if form == "uuid":
        return _Made(uuid_field(name), uuid_bytes)
    return _Made(field(name, pa.string()), _text)


def _json(name: str) -> _Made:
    return _Made(json_field(name), compact)


def _struct(name: str, properties: Mapping[str, _Made]) -> _Made:
    converts = {each: _optional(made.convert) for each, made in properties.items()}

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _misfit("an object", value)
        return {name: convert(value.get(name)) for name, convert in converts.items()}

    try:
        type_ = struct([made.field.with_name(each) for each, made in properties.items()])
    except NoShape:
        return _json(name)
    return _Made(field(name, type_), convert, properties)


def _map(name: str, values: _Made) -> _Made:
    import pyarrow as pa

    inside = _optional(values.convert)

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _misfit("an object", value)
        return {name: inside(each) for name, each in value.items()}

    return _Made(field(name, pa.map_(pa.string(), values.field)), convert)


def _list(name: str, items: _Made) -> _Made:
    import pyarrow as pa

    inside = _optional(items.convert)

    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _misfit("an array", value)
        return [inside(each) for each in value]

    return _Made(field(name, pa.list_(items.field)), convert)


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _misfit(wanted: str, value: Any) -> DecodeError:
    shown = compact(value)
    return DecodeError(f"{wanted} was expected, not {shown if len(shown) <= 50 else shown[:49] + '…'}")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _misfit("a string", value)
    return value


def _integer(value: Any) -> int:
    number = int(value) if type(value) is float and value.is_integer() else value
    if type(number) is not int or not _INT64[0] <= number <= _INT64[1]:
        raise _misfit("an integer of 64 bits", value)
    return number


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise _misfit("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise _misfit("a number", value) from None


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _misfit("true or false", value)
    return value


def _nothing(value: Any) -> None:
    raise _misfit("null", value)


def _instant(value: Any) -> datetime:
    try:
        found = datetime.fromisoformat(_text(value))
    except ValueError:
        raise _misfit("a date and time", value) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _date(value: Any) -> date:
    try:
        return date.fromisoformat(_text(value))
    except ValueError:
        raise _misfit("a date", value) from None
