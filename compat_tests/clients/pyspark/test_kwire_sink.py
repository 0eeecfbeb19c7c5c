"""``format("kwire")`` as a sink, on both brokers: each batch once, also when Spark makes it again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from compat_tests.clients.pyspark.frames import PARTITIONS, RECORDS, Frames, forget_last_commit, produce, values
from compat_tests.names import Names
from harness.processes.brokers import Broker

pytestmark = pytest.mark.java


@pytest.fixture
def frames(spark: Any, broker: Broker, tmp_path: Path) -> Frames:
    return Frames(spark, broker.bootstrap, tmp_path, sink="kwire")


def rows(frame: Any) -> list[tuple[Any, ...]]:
    fields = frame.selectExpr("topic", "partition", "key", "value", "headers").collect()
    return sorted(((*each[:2], each[2], each[3], each[4]) for each in fields), key=str)


def test_a_batch_query_writes_what_sparks_own_sink_writes(
    spark: Any, broker: Broker, tmp_path: Path, filled: str, make_topic: Callable[..., str], frames: Frames
) -> None:
    """Keys, nulls, headers and partitions, to the topic of each row."""
    found = []
    for sink in ("kafka", "kwire"):
        writer = Frames(spark, broker.bootstrap, tmp_path, sink=sink)
        targets = [make_topic(PARTITIONS), make_topic(PARTITIONS)]
        source = frames.read(filled, includeHeaders=True).selectExpr(
            f"if(partition = 0, '{targets[0]}', '{targets[1]}') as topic",
            "key", "value", "headers", "if(partition = 0, 2, partition) as partition",
        )  # fmt: skip
        source.write.format(sink).mode("append").option("kafka.bootstrap.servers", broker.bootstrap).save()
        written = [rows(frames.read(each, includeHeaders=True)) for each in targets]
        found.append([[row[1:] for row in each] for each in written])
        keyed = make_topic(PARTITIONS)
        with_keys = frames.read(filled).where("key is not null").select("key", "value")
        writer.write(with_keys, keyed)
        found[-1].append([row[1:] for row in rows(frames.read(keyed, includeHeaders=True))])
    assert found[0] == found[1]
    assert sum(map(len, found[1][:2])) == RECORDS


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("key", {"topic": "t"}, "column value is missing"),
        ("value", {}, "column topic is missing: set the option topic"),
        ("offset as value", {"topic": "t"}, "column value has type bigint"),
        ("value", {"topic": "t", "kafka.acks": "1"}, "option kafka.acks cannot be set: it is always all"),
    ],
)
def test_what_cannot_be_written_is_refused_by_name(
    frames: Frames, broker: Broker, filled: str, columns: str, options: dict[str, str], message: str
) -> None:
    frame = frames.read(filled).selectExpr(columns)
    writer = frame.write.format("kwire").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    with pytest.raises(PySparkException, match=message):
        writer.options(**options).save()


def test_each_batch_is_written_once_when_spark_makes_it_again(
    frames: Frames, broker: Broker, tmp_path: Path, filled: str, make_topic: Callable[..., str], spark: Any
) -> None:
    """As after a driver that died between the sink's commit and its own: the batch comes again, with its rows on other
    tasks, in another order."""
    target = make_topic(PARTITIONS)

    def copy(tasks: int) -> list[int]:
        frame = frames.read_stream(filled, maxOffsetsPerTrigger=100).select("key", "value")
        return frames.run_available(frame.repartition(tasks), "copy", target)

    assert sum(copy(1)) == RECORDS
    for tasks in (4, 2):
        forget_last_commit(tmp_path / "copy")
        assert copy(tasks), "Spark has made the batch again"
    assert values(frames.read(target)) == values(frames.read(filled))
    produce(broker, filled, ["late"])
    copy(3)
    assert values(frames.read(target)) == values(frames.read(filled))


def test_a_deleted_and_a_copied_checkpoint_are_refused_by_name(
    frames: Frames, tmp_path: Path, filled: str, make_topic: Callable[..., str]
) -> None:
    target = make_topic(PARTITIONS)

    def copy(checkpoint: str) -> list[int]:
        return frames.run_available(frames.read_stream(filled).select("value"), checkpoint, target)

    assert sum(copy("first")) == RECORDS
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    shutil.rmtree(tmp_path / "second" / "commits")  # as one that was taken a moment before
    shutil.rmtree(tmp_path / "second" / "offsets")
    with pytest.raises(PySparkException, match=f"as sink '{tmp_path}/first', and now comes as '{tmp_path}/second'"):
        copy("second")
    shutil.rmtree(tmp_path / "first")
    with pytest.raises(PySparkException, match="the checkpoint was deleted, or two queries have one sinkId"):
        copy("first")
    assert values(frames.read(target)) == values(frames.read(filled))


def test_passwords_are_not_in_plans(frames: Frames, filled: str, new_name: Names, capsys: Any) -> None:
    frame = frames.read(filled).select("value")
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.delivery.timeout.ms": "1000", "topic": new_name("t")}
    secret = {"kafka.sasl.jaas.config": 'x required username="u" password="planted-secret";'}
    with pytest.raises(PySparkException) as refused:
        frame.write.format("kwire").mode("append").options(**options, **secret).save()
    assert "planted-secret" not in str(refused.value) + "".join(capsys.readouterr())
