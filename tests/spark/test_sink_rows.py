from __future__ import annotations

import random

import pyarrow as pa
import pytest

from kwire.cli.records.writing.encoding import Rows
from kwire.spark.sink.errors import SinkError
from kwire.spark.sink.rows import added, check_columns, digest, records

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ({"key": "binary", "topic": "string"}, None, "column value is missing"),
        ({"value": "binary"}, None, "column topic is missing: set the option topic"),
        ({"value": "int", "topic": "string"}, None, "column value has type int: it must be string or binary"),
        ({"value": "binary", "topic": "binary"}, None, "column topic has type binary: it must be string"),
        ({"value": "binary", "key": "bigint"}, "t", "column key has type bigint"),
        ({"value": "binary", "partition": "bigint"}, "t", "column partition has type bigint: it must be int"),
        ({"value": "binary", "headers": "array<string>"}, "t", "column headers has type array<string>"),
    ],
)
def test_columns_that_make_no_record_are_named(columns: dict[str, str], topic: str | None, message: str) -> None:
    with pytest.raises(SinkError, match=message):
        check_columns(columns, topic)


def test_columns_that_make_records_may_have_others_beside_them() -> None:
    check_columns({"value": "string", "timestamp": "timestamp", "key": "binary"}, "t")


def test_rows_go_to_the_topics_that_they_name_unless_the_option_names_one() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["a", "b", "a"],
            "value": pa.array(["1", "2", None], pa.string()),
            "key": pa.array([b"x", None, b"z"], pa.binary()),
            "partition": pa.array([0, None, 2], pa.int32()),
            "headers": pa.array([[{"key": "h", "value": b"v"}], None, []], HEADERS),
        }
    )
    found = dict(records(batch, None))
    assert found["a"].rows.values == [b"1", None]
    assert found["a"].rows.keys == [b"x", b"z"]
    assert found["a"].partitions == [0, 2]
    assert found["a"].rows.headers == [[("h", b"v")], []]
    assert found["b"].partitions == [None]
    ((topic, all_rows),) = records(batch, "c")
    assert topic == "c"
    assert all_rows.rows.values == [b"1", b"2", None]


def test_a_row_without_a_topic_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"topic": pa.array([None], pa.string()), "value": [b"x"]})
    with pytest.raises(SinkError, match="null topic"):
        list(records(batch, None))


def test_a_digest_does_not_depend_on_order_or_parts_but_on_every_byte() -> None:
    rows = Rows([f"value {number}".encode() for number in range(50)], [b"%d" % number for number in range(50)])
    order = list(range(50))
    random.Random(1).shuffle(order)
    parts = added(digest(rows.between(0, 20)), digest(rows.between(20, None)))
    assert digest(rows) == digest(rows.take(order)) == parts
    changed = [*rows.values[:-1], b"value 49!"]
    assert digest(Rows(changed, rows.keys)) != digest(rows)
    assert digest(Rows(rows.values, [*[b"%d" % number for number in range(49)], b"x"])) != digest(rows)
