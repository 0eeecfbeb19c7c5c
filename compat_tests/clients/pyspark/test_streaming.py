"""Structured streaming from and to a broker, through PySpark: the same results on both brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException

from compat_tests.clients.pyspark.frames import (
    PARTITIONS,
    RECORDS,
    Frames,
    expected,
    forget_last_commit,
    produce,
    produce_in_transactions,
    values,
)
from compat_tests.names import Names
from examples.spark_orders.pipeline import started
from harness.processes.brokers import Broker, wait_until

pytestmark = pytest.mark.java


def test_bounded_batches_go_on_from_their_checkpoint(
    frames: Frames, broker: Broker, filled: str, new_name: Names
) -> None:
    target = new_name("copy")

    def copy_available() -> list[int]:
        frame = frames.read_stream(filled, maxOffsetsPerTrigger=120)
        return frames.run_available(frame.select("key", "value"), "copy", target)

    sizes = copy_available()
    assert sum(sizes) == RECORDS
    if frames.source == "kafka" or pyspark.__version__ >= "4.2":
        assert max(sizes) <= 120
    else:
        assert sizes == [RECORDS], "before 4.2 PySpark's API knows no limits for Trigger.AvailableNow"
    produce(broker, filled, [f"late{number}" for number in range(50)])
    assert sum(copy_available()) == 50, "only what came after the checkpoint"
    assert values(frames.read(target)) == values(frames.read(filled))


def test_transactional_input_comes_out_exactly_once(
    frames: Frames, broker: Broker, make_topic: Callable[..., str], new_name: Names
) -> None:
    """Committed transactions read with read_committed, in bounded batches, into a topic and into Parquet."""
    topic, target = make_topic(PARTITIONS), new_name("copy")
    committed = produce_in_transactions(broker, topic, new_name("tx"))
    for checkpoint, sink in (("topic", target), ("files", None)):
        settings = {"maxOffsetsPerTrigger": 30, "kafka.isolation.level": "read_committed"}
        frame = frames.read_stream(topic, **settings).select("value")
        assert sum(frames.run_available(frame, checkpoint, sink)) == len(committed)
        assert frames.run_available(frame, checkpoint, sink) == [], "nothing new, nothing twice"
    assert values(frames.read(target)) == committed
    assert frames.parquet("files") == committed


def test_assign_and_offsets_by_partition(frames: Frames, filled: str) -> None:
    start = {"assign": json.dumps({filled: [0, 1]}), "startingOffsets": f'{{"{filled}":{{"0":90,"1":-1}}}}'}
    frames.run_available(frames.read_stream(**start).select("value"), "assigned")
    wanted = [number for number in range(RECORDS) if number % 3 == 0 and number // 3 >= 90]
    assert frames.parquet("assigned") == sorted((None if n % 11 == 0 else f"v{n}" for n in wanted), key=str)


def test_pattern_takes_in_topics_and_partitions_made_meanwhile(
    frames: Frames, broker: Broker, filled: str, make_topic: Callable[..., str], admin: Any
) -> None:
    """While one query runs, a matching topic and more partitions are created."""
    from confluent_kafka.admin import NewPartitions

    settings: dict[str, Any] = {
        "subscribePattern": f"{filled}.*",
        "kafka.metadata.max.age.ms": "100",
        "minPartitions": 4,
    }
    frame = frames.read_stream(**settings).select("value")
    query = started(frames.write_stream(frame, "pattern").trigger(processingTime="200 milliseconds"))
    try:
        wait_until(lambda: _rows(query) >= RECORDS, 90, "the records that were there")
        produce(broker, make_topic(2, name=f"{filled}-more"), [f"more{number}" for number in range(20)])
        admin.create_partitions([NewPartitions(filled, PARTITIONS + 1)])[filled].result(30)
        wait_until(lambda: len(admin.list_topics(filled).topics[filled].partitions) > PARTITIONS, 30, "the partition")
        produce(broker, filled, ["new partition"] * 50, partition=PARTITIONS)
        wait_until(lambda: _rows(query) >= RECORDS + 70, 90, "the records of new topics and partitions")
    finally:
        query.stop()
    assert query.exception() is None
    wanted = [*expected(range(RECORDS)), *(f"more{number}" for number in range(20)), *["new partition"] * 50]
    assert frames.parquet("pattern") == sorted(wanted, key=str)


def test_lost_records_fail_the_query_unless_loss_is_allowed(
    frames: Frames, broker: Broker, filled: str, admin: Any
) -> None:
    from confluent_kafka import TopicPartition

    strict = frames.read_stream(filled, failOnDataLoss="true").select("value")
    assert sum(frames.run_available(strict, "loss")) == RECORDS
    produce(broker, filled, [f"late{number}" for number in range(40)], partition=0)
    for future in admin.delete_records([TopicPartition(filled, 0, RECORDS // PARTITIONS + 25)]).values():
        future.result(30)
    with pytest.raises(PySparkException, match="Some data may have been lost"):
        frames.run_available(strict, "loss")
    frames.run_available(frames.read_stream(filled, failOnDataLoss="false").select("value"), "loss")
    assert frames.parquet("loss") == sorted([*expected(range(RECORDS)), *(f"late{n}" for n in range(25, 40))], key=str)


@pytest.mark.long_on_kafka
def test_a_query_of_sparks_own_source_goes_on_with_format_kwire(
    spark: Any, broker: Broker, tmp_path: Path, filled: str, new_name: Names
) -> None:
    """From its checkpoint, with the batch that Spark had not put behind it when it ended; or from the offsets in it,
    with a new checkpoint."""
    target = new_name("copy")
    connector, kwire = (Frames(spark, broker.bootstrap, tmp_path, source=each) for each in ("kafka", "kwire"))

    def copy(frames: Frames, checkpoint: str, to: str | None, **options: Any) -> list[int]:
        return frames.run_available(frames.read_stream(filled, **options).select("value"), checkpoint, to)

    *_, last = sizes = copy(connector, "query", target, maxOffsetsPerTrigger=120)
    assert sum(sizes) == RECORDS > last
    (*_, log) = sorted((tmp_path / "query" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    offsets = log.read_text().splitlines()[-1]
    produce(broker, filled, [f"late{number}" for number in range(50)])
    assert copy(kwire, "offsets", None, startingOffsets=offsets) == [50]
    assert kwire.parquet("offsets") == sorted(f"late{number}" for number in range(50))

    forget_last_commit(tmp_path / "query")
    assert copy(kwire, "query", target) == [last, 50]
    assert copy(kwire, "query", target) == []
    written, wanted = values(kwire.read(target)), values(kwire.read(filled))
    assert len(written) == len(wanted) + last, "the connector's sink writes a batch again that comes again"
    assert set(written) == set(wanted)


def _rows(query: Any) -> int:
    error = query.exception()
    assert error is None, error
    return sum(progress["numInputRows"] for progress in query.recentProgress)
