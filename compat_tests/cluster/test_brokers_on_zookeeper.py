"""Three kwire brokers on ZooKeeper: acknowledged records survive the loss of a broker, or of ZooKeeper."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from compat_tests.topics import create_topic
from harness.processes.brokers import KwireBroker, wait_until
from harness.processes.proxy import Proxy
from harness.processes.zookeeper import ZooKeeper

pytestmark = pytest.mark.java

SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "15000",
}


class Cluster:
    """Three brokers of one cluster. ``connect``: one `zookeeper.connect` for all, or one for each node id."""

    def __init__(self, home: Path, connect: str | dict[int, str], timeout_ms: int) -> None:
        self.brokers = {}
        for node_id in (1, 2, 3):
            own = {
                "node.id": str(node_id),
                "zookeeper.connect": connect if isinstance(connect, str) else connect[node_id],
                "zookeeper.session.timeout.ms": str(timeout_ms),
                **SETTINGS,
            }
            broker = self.brokers[node_id] = KwireBroker(home / f"broker-{node_id}", own)
            broker.choose_ports()

    def start(self) -> None:
        for broker in self.brokers.values():
            broker.start()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers.values())

    def partition(self, topic: str, ask: Iterable[int] = (1, 2, 3)) -> tuple[int, list[int]]:
        """The leader and the in-sync replicas in the metadata of the brokers ``ask``."""
        servers = ",".join(self.brokers[node_id].bootstrap for node_id in ask)
        found = AdminClient({"bootstrap.servers": servers}).list_topics(topic, timeout=20).topics[topic]
        partition = found.partitions[0]
        return partition.leader, sorted(partition.isrs)

    def await_partition(
        self, topic: str, what: str, condition: Callable[[int, list[int]], bool], ask: Iterable[int] = (1, 2, 3)
    ) -> tuple[int, list[int]]:
        """Wait until leader and in-sync replicas meet a condition; returns them."""
        wait_until(lambda: condition(*self.partition(topic, ask)), 60, what, interval_s=0.3)
        return self.partition(topic, ask)


MakeCluster = Callable[..., Cluster]


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    """``make_cluster(zookeeper.connect, session timeout in ms)``: three started brokers."""
    made = []

    def make(connect: str | dict[int, str], timeout_ms: int = 9000) -> Cluster:
        cluster = Cluster(tmp_path, connect, timeout_ms)
        made.append(cluster)
        cluster.start()
        return cluster

    yield make
    for cluster in made:
        for broker in cluster.brokers.values():
            broker.kill()


class Load:
    """A producer with acks=all in a thread. ``acknowledged``: the numbers whose records were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "delivery.timeout.ms": 120000,
                "retry.backoff.ms": 50,
                "socket.timeout.ms": 10000,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(120) == 0

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            with contextlib.suppress(BufferError):
                self._producer.produce(self._topic, str(number).encode(), on_delivery=self._delivered)
                number += 1
            self._producer.poll(0.01)

    def _delivered(self, error: object, message: Message[bytes, bytes]) -> None:
        if error is None:
            self.acknowledged.append(int(message.value() or b""))
        else:
            self.failed.append(str(error))

    def await_more(self, count: int, timeout_s: float = 60.0) -> float:
        """Wait for ``count`` more acknowledgements; returns the seconds it took."""
        begun_s, target = time.monotonic(), len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= target, timeout_s, f"{count} more acknowledgements")
        return time.monotonic() - begun_s


def read_all(bootstrap: str, topic: str, at_least: int) -> list[int]:
    """The numbers in a topic, in the order of the log; at least so many, then until no more arrive."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    numbers: list[int] = []
    try:
        deadline_s = time.monotonic() + 60
        quiet = 0
        while (len(numbers) < at_least or quiet < 5) and time.monotonic() < deadline_s:
            message = consumer.poll(0.2)
            if message is None:
                quiet += 1
            elif message.error() is None:
                numbers.append(int(message.value() or b""))
                quiet = 0
    finally:
        consumer.close()
    return numbers


def create(cluster: Cluster, topic: str) -> None:
    """Create a topic of one partition with three replicas, and wait until they are in sync."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    create_topic(admin, NewTopic(topic, 1, 3))
    cluster.await_partition(topic, "three replicas in sync", lambda leader, isr: leader > 0 and isr == [1, 2, 3])


def test_a_killed_leader_has_a_successor_and_nothing_is_lost(make_cluster: MakeCluster, connect: str) -> None:
    cluster = make_cluster(connect, 6000)
    create(cluster, "t")
    first, _ = cluster.partition("t")
    with Load(cluster.bootstrap, "t") as load:
        load.await_more(200)
        cluster.brokers[first].kill()
        gap_s = load.await_more(200)
        second, isr = cluster.await_partition("t", "another leader", lambda leader, isr: leader not in (-1, first))
        assert first not in isr
        cluster.brokers[first].start()
        cluster.await_partition("t", "the killed one in sync again", lambda _, isr: isr == [1, 2, 3])
        load.await_more(100)
    print(json.dumps({"gap_s": round(gap_s, 2), "session_timeout_s": 6, "acknowledged": len(load.acknowledged)}))
    assert not load.failed
    numbers = read_all(cluster.bootstrap, "t", len(load.acknowledged))
    assert numbers == sorted(set(numbers))
    assert set(load.acknowledged) <= set(numbers)
    assert second != first


def test_a_host_that_refuses_connections_is_not_waited_for(make_cluster: MakeCluster, connect: str) -> None:
    cluster = make_cluster(connect, 30000)
    create(cluster, "t")
    first, _ = cluster.partition("t")
    with Load(cluster.bootstrap, "t") as load:
        load.await_more(100)
        cluster.brokers[first].kill()
        gap_s = load.await_more(100)
        assert gap_s < 25, "it waited for the end of the session, which is 30 s"
        cluster.brokers[first].start()
        cluster.await_partition("t", "the killed one in sync again", lambda _, isr: isr == [1, 2, 3])
    print(json.dumps({"gap_s": round(gap_s, 2), "session_timeout_s": 30}))
    numbers = read_all(cluster.bootstrap, "t", len(load.acknowledged))
    assert numbers == sorted(set(numbers))
    assert set(load.acknowledged) <= set(numbers)


def test_without_zookeeper_for_a_while_everything_goes_on_and_nothing_changes(
    make_cluster: MakeCluster, own_zookeeper: ZooKeeper
) -> None:
    cluster = make_cluster(own_zookeeper.address, 40000)
    create(cluster, "t")
    before = cluster.partition("t")
    with Load(cluster.bootstrap, "t") as load:
        load.await_more(100)
        own_zookeeper.stop()
        stopped_s = time.monotonic()
        while time.monotonic() - stopped_s < 5:
            load.await_more(20)
            assert cluster.partition("t") == before
        own_zookeeper.start()
        load.await_more(100)
        wait_until(
            lambda: all("is reachable again" in broker.log_text() for broker in cluster.brokers.values()),
            30,
            "ZooKeeper reached again by all",
        )
        assert cluster.partition("t") == before
        follower = next(each for each in (1, 2, 3) if each != before[0])
        os.kill(cluster.brokers[follower].pid, signal.SIGSTOP)  # the ISR can change again now
        cluster.await_partition("t", "the ISR without the paused", lambda _, isr: follower not in isr)
        os.kill(cluster.brokers[follower].pid, signal.SIGCONT)
        cluster.await_partition("t", "all in sync", lambda _, isr: isr == [1, 2, 3])
    assert not load.failed
    numbers = read_all(cluster.bootstrap, "t", len(load.acknowledged))
    assert numbers == sorted(set(numbers))
    assert set(load.acknowledged) <= set(numbers)


@pytest.mark.parametrize("trouble", ["paused", "cut off", "expelled"])
def test_a_leader_that_loses_its_session_under_load_comes_back_and_nothing_is_lost(
    make_cluster: MakeCluster, shared_zookeeper: ZooKeeper, chroot: str, trouble: str
) -> None:
    proxies = {node_id: Proxy(shared_zookeeper.port) for node_id in (1, 2, 3)}
    cluster = make_cluster({node_id: proxy.address + chroot for node_id, proxy in proxies.items()}, 6000)
    create(cluster, "t")
    first, _ = cluster.partition("t")
    leader, others = cluster.brokers[first], [each for each in (1, 2, 3) if each != first]
    with Load(cluster.bootstrap, "t") as load:
        load.await_more(100)
        if trouble == "paused":
            os.kill(leader.pid, signal.SIGSTOP)
        elif trouble == "cut off":
            proxies[first].refuse()
        else:
            expel(shared_zookeeper.address, chroot, first)
        cluster.await_partition("t", "another leader", lambda leader, _: leader in others, ask=others)
        load.await_more(100)
        if trouble == "paused":
            os.kill(leader.pid, signal.SIGCONT)
        elif trouble == "cut off":
            wait_until(lambda: "session lost" in leader.log_text(), 30, "the leader notices")
            proxies[first].accept()
        cluster.await_partition("t", "all in sync again", lambda _, isr: isr == [1, 2, 3], ask=others)
        load.await_more(100)
    assert not load.failed
    numbers = read_all(cluster.bootstrap, "t", len(load.acknowledged))
    assert numbers == sorted(set(numbers))
    assert set(load.acknowledged) <= set(numbers)
    assert "back in the cluster" in leader.log_text()
    for proxy in proxies.values():
        proxy.refuse()


def expel(address: str, chroot: str, node_id: int) -> None:
    """Remove a broker's session from ZooKeeper, as its expiry would."""
    client = KazooClient(hosts=address)
    client.start()
    try:
        for name in client.get_children(f"{chroot}/kwire/sessions"):
            path = f"{chroot}/kwire/sessions/{name}"
            if client.get(path)[0] == f"broker {node_id}".encode():
                client.delete(path)
    finally:
        client.stop()
        client.close()
