"""Sources and sinks of Spark and of kwire in batch queries, through PySpark: the same results from both brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from compat_tests.clients.pyspark.frames import (
    FIRST_MS,
    PARTITIONS,
    RECORDS,
    Frames,
    expected,
    produce_in_transactions,
    values,
)
from compat_tests.names import Names
from harness.processes.brokers import Broker, wait_until

pytestmark = pytest.mark.java


def test_batch_read_with_headers_null_keys_and_values(frames: Frames, filled: str) -> None:
    rows = frames.read(filled, includeHeaders="true").orderBy("timestamp").collect()
    assert len(rows) == RECORDS
    for number, row in enumerate(rows):
        assert (row.partition, row.offset, row.topic) == (number % PARTITIONS, number // PARTITIONS, filled)
        assert row.key == (None if number % 7 == 0 else f"k{number % 10}".encode())
        assert row.value == (None if number % 11 == 0 else f"v{number}".encode())
        assert [(h.key, h.value) for h in row.headers] == [("number", str(number).encode()), ("empty", None)]
        assert int(row.timestamp.timestamp() * 1000) == FIRST_MS + number * 1000
        assert row.timestampType == 0


def test_timestamps_of_all_partitions_take_the_first_record_not_before_them(frames: Frames, filled: str) -> None:
    start, end = FIRST_MS + 200 * 1000 - 500, FIRST_MS + 250 * 1000
    assert values(frames.read(filled, startingTimestamp=start)) == expected(range(200, RECORDS))
    assert values(frames.read(filled, startingTimestamp=start, endingTimestamp=end)) == expected(range(200, 250))


def test_timestamps_by_partition(frames: Frames, filled: str) -> None:
    def at(*numbers: int) -> str:
        return json.dumps({filled: {str(index): FIRST_MS + number * 1000 for index, number in enumerate(numbers)}})

    frame = frames.read(filled, startingOffsetsByTimestamp=at(0, 100, 200), endingOffsetsByTimestamp=at(30, 130, 230))
    wanted = [number for number in range(RECORDS) if (number % 3) * 100 <= number < (number % 3) * 100 + 30]
    assert values(frame) == sorted((None if number % 11 == 0 else f"v{number}" for number in wanted), key=str)


def test_timestamp_behind_the_last_record_fails_or_reads_nothing_as_asked(frames: Frames, filled: str) -> None:
    late = FIRST_MS + (RECORDS + 1000) * 1000
    with pytest.raises(PySparkException, match="offset"):
        frames.read(filled, startingTimestamp=late).collect()
    latest = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert frames.read(filled, **latest).collect() == []


def test_starting_and_ending_offsets_by_partition(frames: Frames, filled: str) -> None:
    frame = frames.read(
        filled,
        startingOffsets=f'{{"{filled}":{{"0":10,"1":-2,"2":7}}}}',
        endingOffsets=f'{{"{filled}":{{"0":20,"1":5,"2":7}}}}',
    )
    got = sorted((row.partition, row.offset) for row in frame.collect())
    assert got == [(0, offset) for offset in range(10, 20)] + [(1, offset) for offset in range(5)]


def test_assign_reads_only_the_named_partitions(frames: Frames, filled: str) -> None:
    frame = frames.read(assign=json.dumps({filled: [0, 2]}))
    assert {row.partition for row in frame.select("partition").collect()} == {0, 2}
    assert values(frame) == sorted(
        (None if number % 11 == 0 else f"v{number}" for number in range(RECORDS) if number % 3 != 1), key=str
    )


def test_subscribe_pattern_sees_every_matching_topic(
    frames: Frames, filled: str, make_topic: Callable[..., str]
) -> None:
    other = make_topic(1, name=f"{filled}-other")
    assert values(frames.read(subscribePattern=f"{filled}.*")) == expected(range(RECORDS))
    frames.write(frames.read(filled).select("value"), other)
    assert values(frames.read(subscribePattern=f"{filled}.*")) == sorted(2 * expected(range(RECORDS)), key=str)


def test_min_partitions_divides_the_read_without_loss(frames: Frames, filled: str) -> None:
    frame = frames.read(filled, minPartitions=9)
    assert frame.rdd.getNumPartitions() == 9
    assert values(frame) == expected(range(RECORDS))


def test_a_frame_that_is_used_again_shows_new_records(frames: Frames, filled: str) -> None:
    """From PySpark 4.1 on kwire's source is planned once for each frame, but its tasks ask for the ends."""
    frame = frames.read(filled)
    assert frame.count() == RECORDS
    frames.write(frames.texts(["late"]), filled)
    assert frame.count() == RECORDS + 1


def test_offsets_that_are_gone_fail_unless_loss_is_allowed(
    frames: Frames, broker: Broker, filled: str, admin: Any
) -> None:
    from confluent_kafka import TopicPartition

    gone = {"startingOffsets": f'{{"{filled}":{{"0":0,"1":0,"2":0}}}}'}
    for future in admin.delete_records([TopicPartition(filled, 0, 50)]).values():
        future.result(30)
    with pytest.raises((Py4JJavaError, PySparkException), match="Some data may have been lost"):
        frames.read(filled, failOnDataLoss="true", **gone).collect()
    kept = [number for number in range(RECORDS) if number % 3 or number // 3 >= 50]
    got = values(frames.read(filled, failOnDataLoss="false", **gone))
    assert got == sorted((None if number % 11 == 0 else f"v{number}" for number in kept), key=str)


def test_read_committed_leaves_out_what_was_aborted(
    frames: Frames, broker: Broker, make_topic: Callable[..., str], new_name: Names
) -> None:
    topic = make_topic(PARTITIONS)
    committed = produce_in_transactions(broker, topic, new_name("tx"))
    assert values(frames.read(topic, **{"kafka.isolation.level": "read_committed"})) == committed
    assert len(values(frames.read(topic))) == 100


def test_sink_writes_keys_values_partitions_and_headers(frames: Frames, filled: str, make_topic: Any) -> None:
    target = make_topic(PARTITIONS)
    copied = frames.read(filled, includeHeaders="true").select("key", "value", "headers", "partition")
    frames.write(copied, target, includeHeaders="true")

    def contents(topic: str) -> list[tuple[Any, ...]]:
        rows = frames.read(topic, includeHeaders="true").collect()
        return sorted(((row.headers[0].value, row.key, row.value, row.partition) for row in rows), key=str)

    assert contents(target) == contents(filled)


def test_sink_takes_each_row_to_the_topic_that_it_names(frames: Frames, filled: str, make_topic: Any) -> None:
    topics = [make_topic(), make_topic()]
    frame = frames.read(filled).selectExpr(f"if(partition = 0, '{topics[0]}', '{topics[1]}') AS topic", "value")
    frame.write.format(frames.sink).mode("append").option("kafka.bootstrap.servers", frames.bootstrap).save()
    assert (frames.read(topics[0]).count(), frames.read(topics[1]).count()) == (RECORDS // 3, 2 * RECORDS // 3)


def test_a_schema_names_the_columns_that_are_read(spark: Any, broker: Broker, filled: str) -> None:
    reader = spark.read.format("kwire").option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", filled)
    frame = reader.schema("offset bigint, value binary").load()
    assert frame.columns == ["offset", "value"]
    assert values(frame) == expected(range(RECORDS))
    assert frame.agg({"offset": "max"}).collect()[0][0] == RECORDS // PARTITIONS - 1
    with pytest.raises(PySparkException, match="the schema says value string: its type is binary"):
        reader.schema("value string").load().collect()


# -- the option path: the data directories of running brokers ----------------------------------------------------


def files(spark: Any, broker: Broker, topic: str, **options: str) -> Any:
    given = {"path": str(broker.data_dir), "subscribe": topic, "includeHeaders": "true", **options}
    return spark.read.format("kwire").options(**given).load()


def test_the_files_of_a_broker_have_what_it_serves(spark: Any, broker: Broker, filled: str, tmp_path: Path) -> None:
    wait_until(lambda: files(spark, broker, filled).count() == RECORDS, 60, "a checkpoint of high watermarks", 0.5)
    found = files(spark, broker, filled)
    served = Frames(spark, broker.bootstrap, tmp_path).read(filled, includeHeaders=True)
    assert sorted(found.collect(), key=str) == sorted(served.collect(), key=str)


def test_files_read_committed(spark: Any, broker: Broker, make_topic: Callable[..., str], new_name: Names) -> None:
    topic = make_topic(PARTITIONS)
    committed = produce_in_transactions(broker, topic, new_name("tx"))

    def found() -> Any:
        return files(spark, broker, topic, **{"kafka.isolation.level": "read_committed"})

    wait_until(lambda: found().count() == len(committed), 60, "a checkpoint of the high watermarks", 0.5)
    assert values(found()) == committed
    assert files(spark, broker, topic).count() == 100


def test_a_stream_from_files_is_refused(spark: Any, broker: Broker) -> None:
    stream = spark.readStream.format("kwire").option("path", str(broker.data_dir)).load()
    with pytest.raises(PySparkException, match="option path is for batch queries"):
        stream.writeStream.format("noop").option("checkpointLocation", f"{broker.home}/files").start().awaitTermination(
            60
        )
