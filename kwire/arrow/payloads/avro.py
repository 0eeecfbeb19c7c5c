"""`AvroShape`: an Avro schema as an Arrow type.

| Avro | Arrow, and SQL |
| --- | --- |
| record, array, map | struct, list, map; a record without fields is JSON |
| union of null and a type | that type |
| union of several types | a struct with a field for each of them, all but one null |
| enum | string |
| bytes, fixed | binary; with ``decimal`` a decimal, beyond 38 digits its text |
| ``date``, ``time-*``; ``timestamp-*``; ``local-timestamp-*`` | date, time; timestamp with a zone; without one |
| ``uuid`` | UUID |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kwire.arrow.payloads.logical import logical
from kwire.arrow.payloads.projection import projected
from kwire.arrow.payloads.shapes import NoShape, Read, Shape, field, json_field, struct, uuid_field
from kwire.arrow.payloads.unions import labels
from kwire.schemas import Schema
from kwire.schemas.avro.model import AvroType, Collection, Enumeration, Fixed, Record, Union
from kwire.schemas.avro.schema import AvroSchema
from kwire.schemas.avro.values import is_cyclic
from kwire.schemas.errors import DecodeError
from kwire.schemas.limits import Budget

if TYPE_CHECKING:
    import pyarrow as pa

FIELDS_MAX: Final = 10_000
"""Fields of a column, those within others included."""
DIGITS_MAX: Final = 38


class AvroShape(Shape):
    """The values of a reader's schema. `NoShape`."""

    def __init__(self, schema: AvroSchema) -> None:
        if is_cyclic(schema.root):
            raise NoShape("a type contains itself")
        super().__init__(_Fields().field("", schema.root))
        self._root = schema.root

    def read(self, writer: Schema) -> Read:
        """What reads bodies of a schema, which need not be the reader's."""
        if not isinstance(writer, AvroSchema):
            raise DecodeError(f"the value has a schema of {writer.type}, the column one of Avro")
        decode = writer.raw_values().decode
        convert = projected(writer.root, self._root)
        if convert is None:
            return decode
        return lambda body: convert(decode(body))


class _Fields:
    """Makes fields of types, up to `FIELDS_MAX`."""

    def __init__(self) -> None:
        self._budget = Budget(FIELDS_MAX, "fields")

    def field(self, name: str, type: AvroType) -> pa.Field:
        """A field of a type. `NoShape`."""
        self._budget.take()
        if isinstance(type, Union):
            return self._union(name, type)
        if isinstance(type, Record):
            if not type.fields:
                return json_field(name)
            return field(name, struct([self.field(each.name, each.type) for each in type.fields]))
        return self._collection(name, type) if isinstance(type, Collection) else _scalar(name, type)

    def _union(self, name: str, type: Union) -> pa.Field:
        found = labels(type)
        if not found:
            return _scalar(name, AvroType("null", {}))
        if len(found) == 1:
            return self.field(name, found[0].type)
        return field(name, struct([self.field(each.label, each.type) for each in found]))

    def _collection(self, name: str, type: Collection) -> pa.Field:
        import pyarrow as pa

        if type.kind == "array":
            return field(name, pa.list_(self.field("element", type.items)))
        return field(name, pa.map_(pa.string(), self.field("value", type.items)))


def _scalar(name: str, type: AvroType) -> pa.Field:
    meaning = logical(type)
    if meaning is None:
        return field(name, _plain(type))
    if meaning.name == "uuid":
        return uuid_field(name)
    return field(name, _typed(meaning.name, meaning.precision, meaning.scale))


def _plain(type: AvroType) -> pa.DataType:
    import pyarrow as pa

    if isinstance(type, Enumeration):
        return pa.string()
    if isinstance(type, Fixed):
        return pa.binary()
    return {
        "null": pa.string,
        "boolean": pa.bool_,
        "int": pa.int32,
        "long": pa.int64,
        "float": pa.float32,
        "double": pa.float64,
        "bytes": pa.binary,
        "string": pa.string,
    }[type.kind]()


def _typed(name: str, precision: int, scale: int) -> Any:
    import pyarrow as pa

    if name == "decimal":
        return pa.decimal128(precision, scale) if precision <= DIGITS_MAX else pa.string()
    if name == "date":
        return pa.date32()
    if name.startswith("time-"):
        return pa.time64("us")
    return pa.timestamp("us", None if name.startswith("local-") else "UTC")
