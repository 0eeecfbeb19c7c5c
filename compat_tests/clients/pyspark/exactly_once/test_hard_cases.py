"""The hard cases of writing exactly once, each with a real Spark; `tests/spark/test_sink_commits.py` has those that
need none: a driver that dies at any request, two runs at a time, attempts that did not win.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException

from campaigns.pipelines import exactly_once
from compat_tests.clients.pyspark.frames import PARTITIONS, RECORDS, Frames, produce, values
from compat_tests.names import Names
from harness.paths import ROOT
from harness.processes.brokers import KINDS, Broker, make_broker, wait_until
from harness.processes.ports import free_port
from kwire.cli.connection.cluster import Cluster
from kwire.spark.sink.marks import Marks
from kwire.spark.sink.options import SinkOptions
from kwire.spark.sink.running import run_at

pytestmark = [pytest.mark.java, pytest.mark.timeout(1500)]

EXPIRING: Final = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}


@pytest.fixture
def frames(spark: Any, broker: Broker, tmp_path: Path) -> Frames:
    return Frames(spark, broker.bootstrap, tmp_path, source="kwire", sink="kwire")


def forget_last_commit(checkpoint: Path) -> None:
    """What is left when the driver dies between the sink's commit and that of Spark."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


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
        return writer.trigger(processingTime="100 milliseconds").start()

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
    query = frames.write_stream(rows, "copy", "target").option("sinkId", "lasting").trigger(availableNow=True).start()
    assert query.awaitTermination(120), query.status
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def mark(broker: Broker) -> Any:
    """The mark that is an offset of the sink's group."""
    options = SinkOptions.parse({"kafka.bootstrap.servers": broker.bootstrap, "topic": "target", "sinkId": "lasting"})

    async def last(cluster: Cluster) -> Any:
        return await Marks(cluster, options, "lasting").last()

    return run_at(options, last)


class Standalone:
    """A Spark cluster of a master and two workers, each on an address of its own: Spark runs the second attempt of a
    task on another host."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self._program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.port = free_port()
        self.master = f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._run("master", "Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        for number in (2, 3):
            host = f"127.0.0.{number}"
            words = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            self._run(f"worker-{number}", "Worker", *words, "--work-dir", str(self._folder / host), self.master)
        log = self._folder / "master.log"
        wait_until(lambda: log.read_text().count("Registering worker") == 2, 120, "two workers")

    def stop(self) -> None:
        for each in self._processes:
            os.killpg(each.pid, signal.SIGKILL)
            each.wait()

    def _run(self, name: str, kind: str, *words: str) -> None:
        command = [self._program, f"org.apache.spark.deploy.{kind.lower()}.{kind}", *words]
        environment = {**os.environ, "SPARK_LOCAL_DIRS": str(self._folder), "SPARK_DAEMON_MEMORY": "256m"}
        with open(self._folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, env=environment, start_new_session=True
            )
        self._processes.append(process)


def test_speculation_writes_no_row_twice(broker: Broker, make_topic: Callable[..., str], tmp_path: Path) -> None:
    """A task hangs in its first attempt, on one worker; Spark runs it again on the other, and that one counts."""
    if broker.kind != "kwire":
        pytest.skip("what Spark does does not depend on the broker")
    target, cluster = make_topic(PARTITIONS), Standalone(tmp_path)
    try:
        cluster.start()
        arguments = [broker.bootstrap, target, cluster.master, str(tmp_path)]
        command = [sys.executable, "-m", "compat_tests.clients.pyspark.exactly_once.speculating_job", *arguments]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
    finally:
        cluster.stop()
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["40", "40"], "rows, and different ones"
    assert {each.name for each in (tmp_path / "attempts").iterdir()} == {"0", "1"}, "there was a second attempt"


def test_kills_of_driver_executor_and_broker(capsys: pytest.CaptureFixture[str]) -> None:
    """A small run of the campaign, which audits the copy with `kwire audit`."""
    assert exactly_once.main(["--records", "6000", "--kills", "4", "--seed", "3"]) == 0, capsys.readouterr().out
