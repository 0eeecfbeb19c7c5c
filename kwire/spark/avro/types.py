"""Spark's types of Arrow fields, and values that Arrow takes as Spark's Python functions return them.

Spark has no UUID, JSON and time of a day (before 4.1): they are strings, and microseconds since midnight.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kwire.arrow.payloads.shapes import Convert, is_uuid

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 # of timestamps without a zone
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def spark_type(field: pa.Field) -> DataType:
    """Spark's type of a field."""
    import pyarrow as pa
    from pyspark.sql import types

    kind = field.type
    if is_uuid(field) or pa.types.is_string(kind):
        return types.StringType()
    if pa.types.is_struct(kind):
        return types.StructType([types.StructField(each.name, spark_type(each)) for each in kind])
    if pa.types.is_map(kind):
        return types.MapType(spark_type(kind.key_field), spark_type(kind.item_field))
    if pa.types.is_list(kind):
        return types.ArrayType(spark_type(kind.value_field))
    if pa.types.is_decimal(kind):
        return types.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return types.TimestampNTZType() if kind.tz is None else types.TimestampType()
    if pa.types.is_binary(kind):
        return types.BinaryType()
    return {
        pa.bool_(): types.BooleanType,
        pa.int32(): types.IntegerType,
        pa.int64(): types.LongType,
        pa.float32(): types.FloatType,
        pa.float64(): types.DoubleType,
        pa.date32(): types.DateType,
        pa.time64("us"): types.LongType,
    }[kind]()


def python_values(field: pa.Field) -> Convert | None:
    """What makes values that Arrow takes for a field those that Spark takes; None if they stay. Null is none of
    them."""
    import pyarrow as pa

    kind = field.type
    if is_uuid(field):
        return _uuid
    if pa.types.is_timestamp(kind):
        return _local_time if kind.tz is None else _instant
    if pa.types.is_date(kind):
        return _date
    if pa.types.is_list(kind):
        return _of_list(python_values(kind.value_field))
    if pa.types.is_map(kind):
        return _of_map(python_values(kind.item_field))
    if pa.types.is_struct(kind):
        inside = [(each.name, found) for each in kind if (found := python_values(each)) is not None]
        return _of_struct(inside) if inside else None
    return None


def _uuid(value: bytes) -> str:
    return str(UUID(bytes=value))


def _instant(microseconds: int) -> datetime:
    return _EPOCH_UTC + timedelta(microseconds=microseconds)


def _local_time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _date(days: int) -> date:
    return date.fromordinal(_EPOCH_DAY + days)


def _of_list(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [None if each is None else convert(each) for each in values]


def _of_map(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: {name: None if each is None else convert(each) for name, each in values.items()}


def _of_struct(fields: list[tuple[str, Convert]]) -> Convert:
    def convert_struct(value: dict[str, Any]) -> dict[str, Any]:
        new = dict(value)
        for name, convert in fields:
            if new.get(name) is not None:
                new[name] = convert(new[name])
        return new

    return convert_struct
