"""The columns of the source: those of Spark's Kafka source, of which a query's schema may name some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kwire.spark.source.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS: Final = "headers"
_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def all_columns(*, headers: bool) -> StructType:
    """All columns, those of Spark's Kafka source; ``headers``: with that of the headers."""
    return StructType([StructField(name, kind) for name, kind in _TYPES.items() if headers or name != HEADERS])


def named_in(schema: StructType) -> tuple[str, ...]:
    """The columns that a schema names, in its order. `SourceError` for one that there is not, or of another type."""
    for field in schema.fields:
        wanted = _TYPES.get(field.name)
        if wanted is None:
            raise SourceError(f"the schema names the column {field.name}: there are {', '.join(_TYPES)}")
        if field.dataType != wanted:
            kind = wanted.simpleString()
            raise SourceError(f"the schema says {field.name} {field.dataType.simpleString()}: its type is {kind}")
    return tuple(schema.names)


def only(batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
    """The columns of an Arrow batch that are wanted; without names all of them."""
    return batch.select(list(names)) if names and tuple(batch.schema.names) != names else batch
