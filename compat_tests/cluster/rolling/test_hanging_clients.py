"""A client that does not end: what the loads make of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.rolling import load as loads
from compat_tests.cluster.rolling.load import Load, hanging
from harness.inspection import hanging as inspection
from harness.processes.kwire_cluster import KwireCluster
from harness.wire_client import WireClient
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic


class ConsumerThatHangs(Load):
    """A producer that ends, and a consumer that waits for something that does not come."""

    name = "hangs"

    def __init__(self) -> None:
        super().__init__("", consumers=1)
        self.release = threading.Event()

    def _produce(self) -> None:
        pass

    def _consume(self) -> None:
        self.release.wait()


class ConsumerThatMayHang(ConsumerThatHangs):
    """The same, of a library that does so."""

    hangs_by_itself = True


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KwireCluster]:
    cluster = KwireCluster(tmp_path_factory.mktemp("cluster"), count=1)
    cluster.start()
    yield cluster
    cluster.kill()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And no gdb, which takes seconds."""
    monkeypatch.setattr(inspection, "OWED_S", 0.5)
    monkeypatch.setattr(loads, "DRAIN_S", 0.1)
    monkeypatch.setattr(loads, "REPORTS", tmp_path)
    monkeypatch.setenv("PATH", "")


def stopped(load: ConsumerThatHangs) -> ConsumerThatHangs:
    load.start()
    load.stop()
    load.release.set()
    return load


def test_a_client_that_hangs_is_a_problem_and_told_where(cluster: KwireCluster, tmp_path: Path) -> None:
    load = stopped(ConsumerThatHangs())
    assert hanging(cluster, [load]) == ["hangs: 1 hang"]
    (report,) = tmp_path.glob("hanging-hangs-*.txt")
    assert "self.release.wait()" in report.read_text()


def test_one_of_a_library_that_hangs_by_itself_is_none_while_nothing_is_owed(cluster: KwireCluster) -> None:
    assert hanging(cluster, [stopped(ConsumerThatMayHang())]) == []


def test_it_is_one_while_a_broker_owes_a_response(cluster: KwireCluster) -> None:
    topic = CreatableTopic(name="quiet", num_partitions=1, replication_factor=1)
    fetched = FetchTopic(topic="quiet", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    with WireClient(cluster.bootstrap) as client:
        assert client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5).topics[0].error_code == 0
        client.send(FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=[fetched]), 11)
        first, second = hanging(cluster, [stopped(ConsumerThatMayHang())])
        assert first == "hangs: 1 hang"
        assert "owes a response: Fetch 11" in second
