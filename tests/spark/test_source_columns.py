"""The columns of the source: all, or those that a query's schema names."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from kwire.spark.datasource import KwireDataSource
from kwire.spark.source.columns import all_columns, named_in, only
from kwire.spark.source.errors import SourceError
from kwire.spark.source.files_reader import FilesReader
from kwire.spark.source.options import SourceOptions

KAFKA = "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def test_without_a_schema_the_columns_are_those_of_sparks_kafka_source() -> None:
    assert KwireDataSource(options=GIVEN).schema().simpleString() == KAFKA
    with_headers = KwireDataSource(options={**GIVEN, "includeHeaders": "TRUE"}).schema()
    assert with_headers.simpleString() == f"{KAFKA[:-1]},headers:array<struct<key:string,value:binary>>>"


def test_a_schema_names_columns_in_its_order() -> None:
    assert named_in(all_columns(headers=False)) == tuple(all_columns(headers=False).names)
    schema = StructType([StructField("offset", LongType()), StructField("value", BinaryType(), nullable=False)])
    assert named_in(schema) == ("offset", "value")


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("Value", BinaryType()), "the schema names the column Value: there are key, value, topic, "),
        (StructField("value", StringType()), "the schema says value string: its type is binary"),
        (StructField("headers", ArrayType(StringType())), "the schema says headers array<string>: its type"),
    ],
)
def test_other_columns_and_types_are_refused(field: StructField, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        KwireDataSource(options=GIVEN).reader(StructType([field]))
    with pytest.raises(SourceError, match=message):
        KwireDataSource(options=GIVEN).streamReader(StructType([field]))


def test_what_no_column_shows_is_not_copied() -> None:
    options = SourceOptions.parse(GIVEN, streaming=False)
    assert options.reading.keys and options.reading.values and not options.reading.headers
    fewer = options._replace(columns=("headers", "offset")).reading
    assert (fewer.keys, fewer.values, fewer.headers) == (False, False, True)
    assert SourceOptions.parse({**GIVEN, "includeHeaders": "true"}, streaming=False).reading.headers


def test_an_arrow_batch_has_the_columns_that_are_wanted() -> None:
    batch = pa.RecordBatch.from_pydict({"key": [1], "value": [2], "offset": [3]})
    assert only(batch, ()) is batch
    assert only(batch, ("key", "value", "offset")) is batch
    assert only(batch, ("offset", "key")).to_pydict() == {"offset": [3], "key": [1]}


def test_a_reader_of_files_takes_columns() -> None:
    reader = FilesReader({"path": "/data", "subscribe": "orders"}, ("value",))
    assert reader._options.columns == ("value",)
