"""The hard cases of writing exactly once, each with a real Spark; `tests/spark/test_sink_commits.py` has those that
need none: a driver that dies at any request, two runs at a time, attempts that did not win.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException

from campaigns.pipelines import exactly_once
from compat_tests.clients.pyspark.exactly_once import speculating_job
from compat_tests.clients.pyspark.exactly_once.standalone import HOSTS, hosts_of_tasks, run_program, running_cluster
from compat_tests.clients.pyspark.frames import PARTITIONS, RECORDS, Frames, forget_last_commit, produce, values
from compat_tests.names import Names
from examples.spark_orders.pipeline import started
from harness.processes.brokers import KINDS, Broker, make_broker, wait_until
from kwire.cli.connection.cluster import Cluster
from kwire.spark.sink.marks import Marks
from kwire.spark.sink.options import SinkOptions
from kwire.spark.sink.running import run_at

pytestmark = [pytest.mark.java, pytest.mark.long_on_kafka, pytest.mark.timeout(1500)]

EXPIRING: Final = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}


@pytest.fixture
def frames(spark: Any, broker: Broker, tmp_path: Path) -> Frames:
    return Frames(spark, broker.bootstrap, tmp_path, source="kwire", sink="kwire")


@contextmanager
def configured(spark: Any, settings: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def test_a_rerun_under_adaptive_execution_with_other_shuffle_partitions(
    spark: Any, frames: Frames, filled: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    target = make_topic(PARTITIONS)
    for adaptive, partitions in (("false", "2"), ("true", "7"), ("true", "3"), ("false", "5")):
        settings = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.shuffle.partitions": partitions}
        with configured(spark, settings):
            rows = frames.read_stream(filled).select("key", "value")
            assert sum(frames.run_available(rows.repartition("value"), "copy", target)) == RECORDS
        forget_last_commit(tmp_path / "copy")
    assert values(frames.read(target)) == values(frames.read(filled))


def test_a_rerun_in_another_order(frames: Frames, filled: str, make_topic: Callable[..., str], tmp_path: Path) -> None:
    """Each run gives the rows to other tasks, and so in another order: by random numbers that do not repeat."""
    from pyspark.sql.functions import rand

    target = make_topic(PARTITIONS)
    for run in range(4):
        rows = frames.read_stream(filled).select("key", "value").repartition(1 + run % 3, rand())
        assert sum(frames.run_available(rows, "copy", target)) == RECORDS
        forget_last_commit(tmp_path / "copy")
    assert values(frames.read(target)) == values(frames.read(filled))


def test_two_queries_with_one_identity_are_refused_by_name(
    frames: Frames, broker: Broker, filled: str, make_topic: Callable[..., str], new_name: Names
) -> None:
    target, sink = make_topic(PARTITIONS), new_name("sink")

    def start(checkpoint: str) -> Any:
        rows = frames.read_stream(filled).select("value")
        writer = frames.write_stream(rows, checkpoint, target).option("sinkId", sink)
        return started(writer.trigger(processingTime="100 milliseconds"))

    first = start("first")
    try:
        wait_until(lambda: first.lastProgress and first.lastProgress["numInputRows"], 120, "the first batch")
        second = start("second")
        with pytest.raises(
            PySparkException, match=f"sink '{sink}' belongs to query {first.id}.*two queries have one sinkId"
        ):
            second.awaitTermination(120)
        produce(broker, filled, ["later"])
        wait_until(lambda: len(values(frames.read(target))) == RECORDS + 1, 120, "the first query's next batch")
    finally:
        first.stop()
    assert values(frames.read(target)) == values(frames.read(filled))


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_the_mark_outlives_offsets_and_transactional_ids_by_time(spark: Any, tmp_path: Path) -> None:
    """On both brokers at once: a minute is the shortest retention of offsets."""
    brokers = [make_broker(kind, tmp_path / kind, EXPIRING) for kind in KINDS]
    try:
        copies = []
        for each in brokers:
            each.start()
            folder = tmp_path / f"work-{each.kind}"
            frames = Frames(spark, each.bootstrap, folder, source="kwire", sink="kwire")
            frames.write(frames.texts(["a", "b", "c"]), "source")
            copies.append((frames, folder / "copy"))
            assert copied(frames) == [3]
        for each in brokers:
            wait_until(lambda each=each: mark(each) is None, 300, f"the offset expired on {each.kind}", 1)  # type: ignore[misc]
        for frames, checkpoint in copies:
            forget_last_commit(checkpoint)
            assert copied(frames) == [3]  # Spark has made it again
            assert values(frames.read("target")) == ["a", "b", "c"]
            shutil.rmtree(checkpoint)
            with pytest.raises(PySparkException, match="the checkpoint was deleted"):
                copied(frames)
    finally:
        for each in brokers:
            each.kill()


def copied(frames: Frames) -> list[int]:
    rows = frames.read_stream("source").select("value").repartition(2)
    writer = frames.write_stream(rows, "copy", "target").option("sinkId", "lasting")
    query = started(writer.trigger(availableNow=True))
    assert query.awaitTermination(120), query.status
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def mark(broker: Broker) -> Any:
    """The mark that is an offset of the sink's group."""
    options = SinkOptions.parse({"kafka.bootstrap.servers": broker.bootstrap, "topic": "target", "sinkId": "lasting"})

    async def last(cluster: Cluster) -> Any:
        return await Marks(cluster, options, "lasting").last()

    return run_at(options, last)


def test_on_two_workers_speculation_writes_no_row_twice(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """A task hangs in its first attempt, on one worker; Spark runs it again on the other, and that one counts.
    Executors on both read and write, for a batch query and for a streaming one."""
    if broker.kind != "kwire":
        pytest.skip("what Spark does does not depend on the broker")
    target = make_topic(PARTITIONS)
    with running_cluster(tmp_path) as cluster:
        arguments = [broker.bootstrap, target, cluster.master, str(tmp_path)]
        printed = run_program(speculating_job.__name__, *arguments, folder=tmp_path)
    *counts, run = printed.split()
    assert counts == ["40", "40"], "rows, and different ones"
    (events,) = (tmp_path / "events").iterdir()
    hosts = hosts_of_tasks(events.read_text().splitlines())
    assert hosts["batch"] == hosts[run] == {*HOSTS}
    assert {each.name for each in (tmp_path / "attempts").iterdir()} == {"0", "1"}, "there was a second attempt"


def test_kills_of_driver_executor_and_broker(capsys: pytest.CaptureFixture[str]) -> None:
    """A small run of the campaign, which audits the copy with `kwire audit`."""
    status = exactly_once.main(["--records", "4500", "--kills", "3", "--seed", "3"])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert "killed: {'broker': 1, 'driver': 1, 'executor': 1}" in printed
