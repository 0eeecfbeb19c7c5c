"""Three brokers of one cluster: kwire on the embedded store, kwire on ZooKeeper, or Apache Kafka.

Here: starting, stopping and killing them, topics with three replicas, who leads what, processor time and memory of all.
What lives elsewhere: one broker's process and its settings (`tools.benchmark.targets`, `harness.processes.brokers`).
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness.processes.brokers import free_port, wait_until
from harness.processes.zookeeper import ZooKeeper
from harness.wire_client import WireClient
from kwire.codec.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from tools.benchmark.targets import SETTINGS, Kafka, Kwire, Target

EMBEDDED = "kwire"
ZOOKEEPER = "kwire-zookeeper"
KAFKA = "kafka"
TITLES = {EMBEDDED: "kwire", ZOOKEEPER: "kwire, ZooKeeper", KAFKA: "Kafka"}
NODES = (1, 2, 3)
WAIT_S = 240.0
STOP_S = 180.0
METADATA_VERSION = 12

CLUSTER_SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
}

DEFAULTS: dict[str, str] = {}
SHORT = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "zookeeper.session.timeout.ms": "1000",
}
SHORT_QUORUM = {
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "500",
}
"""What else Apache Kafka needs to notice as soon that its controller is gone."""

_TIMEOUTS = ("broker.session.timeout.ms", "broker.heartbeat.interval.ms")


class KwireNode(Kwire):
    """One broker of a kwire cluster."""

    def prepare(self) -> None:
        """Nothing has to be made."""


class KafkaNode(Kafka):
    """One broker of an Apache Kafka cluster, which is also one of its three controllers."""

    controller_ports: Mapping[int, int] = {}

    def prepare(self) -> None:
        """Write the properties, and format the directory."""
        properties = self.home / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        if not self._is_formatted():
            self._format(properties)

    def _properties(self) -> dict[str, str]:
        own = self.controller_ports[int(self.settings["node.id"])]
        voters = ",".join(f"{node}@{self.host}:{port}" for node, port in self.controller_ports.items())
        found = {
            **super()._properties(),
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{own}",
            "controller.quorum.voters": voters,
        }
        return {name: value for name, value in found.items() if not name.startswith("zookeeper.")}


class Cluster:
    """Three brokers that are started together. ``settings``: Kafka properties for each."""

    def __init__(self, kind: str, home: Path, settings: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self.home = home
        self.settings = {**SETTINGS, **CLUSTER_SETTINGS, **(settings or {})}
        self.zookeeper = ZooKeeper(home / "zookeeper") if kind == ZOOKEEPER else None
        self.nodes: dict[int, KwireNode | KafkaNode] = {}
        ports = {node: free_port() for node in NODES}
        for node_id in NODES:
            own = {**self.settings, **self._own_settings(node_id)}
            node = (KafkaNode if kind == KAFKA else KwireNode)(home / f"broker-{node_id}", own)
            node.port = free_port()
            if isinstance(node, KafkaNode):
                node.controller_ports = ports
            self.nodes[node_id] = node

    def _own_settings(self, node_id: int) -> dict[str, str]:
        own = {"node.id": str(node_id)}
        if self.kind == EMBEDDED:
            own["kwire.metadata.dir"] = str(self.home / "metadata")
        elif self.zookeeper is not None:
            own["zookeeper.connect"] = f"{self.zookeeper.address}/kwire"
        elif "zookeeper.session.timeout.ms" in self.settings:
            own.update(SHORT_QUORUM)
        return own

    # Processes

    def start(self) -> float:
        """Start all at once; return when each knows all, with the seconds that it took."""
        for node in self.nodes.values():
            node.prepare()
        if self.zookeeper is not None and not self.zookeeper.ask("srvr"):
            self.zookeeper.start()
        begun = time.monotonic()
        for node in self.nodes.values():
            node.begin()
        self.await_all()
        return time.monotonic() - begun

    def await_all(self) -> None:
        """Until every broker that runs knows all that run."""

        def known() -> bool:
            running = self.running()
            return all(len(self.metadata(node, []).brokers) == len(running) for node in running)

        self.until(known, "all brokers know each other")

    def until(self, condition: Callable[[], object], what: str, interval_s: float = 0.05) -> None:
        """Wait; a broker that does not answer, or has ended, is not the end."""

        def holds() -> bool:
            try:
                return bool(condition())
            except (OSError, EOFError):
                return False

        try:
            wait_until(holds, WAIT_S, f"{self.kind}: {what}", interval_s)
        except TimeoutError as error:
            tails = {node_id: node.log_text()[-1500:] for node_id, node in self.nodes.items()}
            raise TimeoutError(f"{error}\n{tails}") from None

    def running(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.is_running()]

    def kill(self, node_id: int) -> float:
        """kill -9; the moment of it, on the monotonic clock."""
        moment = time.monotonic()
        self.nodes[node_id].kill()
        return moment

    def begin(self, node_id: int) -> None:
        """Start one broker (again), without waiting for it."""
        self.nodes[node_id].begin()

    def stop(self) -> float:
        """Stop all in order, at the same time; the seconds that it took."""
        begun = time.monotonic()
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(_stop, self.nodes.values()))
        return time.monotonic() - begun

    def end(self) -> None:
        """Kill everything."""
        for node in self.nodes.values():
            node.kill()
        if self.zookeeper is not None:
            self.zookeeper.stop()

    # What it uses

    def target(self, node_id: int) -> Target:
        """One broker as the load generator knows it."""
        return _Part(self.nodes[node_id])

    def cpu_s(self) -> float:
        """User and system time of all brokers that run (not of ZooKeeper)."""
        return sum(self.target(node).cpu_s() for node in self.running())

    def resident_mb(self) -> float:
        return sum(self.target(node).resident_mb() for node in self.running())

    # Topics

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def client(self, node_id: int) -> WireClient:
        return WireClient(self.nodes[node_id].bootstrap, timeout_s=180)

    def metadata(self, node_id: int, topics: Iterable[str] | None = None) -> Any:
        """What a broker tells; None: of all topics."""
        with self.client(node_id) as client:
            return client.call(metadata_request(topics), METADATA_VERSION)

    def create(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Make topics with so many partitions, three replicas of each, in one request."""
        self._create(
            [_topic(name, config, num_partitions=count, replication_factor=3) for name, count in topics.items()]
        )

    def create_led_by(self, name: str, leader: int) -> None:
        """Make a topic of one partition that a broker leads as long as it lives."""
        replicas = [leader, *(node for node in NODES if node != leader)]
        assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)]
        self._create([_topic(name, None, num_partitions=-1, replication_factor=-1, assignments=assignments)])

    def _create(self, topics: list[CreatableTopic]) -> None:
        with self.client(self.running()[0]) as client:
            answer = client.call(CreateTopicsRequest(topics=topics, timeout_ms=120_000), 7)
        for each in answer.topics:
            assert not each.error_code, (self.kind, each.name, each.error_code, each.error_message)

    def leaders(self, node_id: int, topics: Iterable[str] | None = None) -> dict[int, dict[str, list[int]]] | None:
        """Partitions by leader and topic, as a broker knows it; None while one has no leader that runs."""
        running = self.running()
        found: dict[int, dict[str, list[int]]] = {}
        for topic in self.metadata(node_id, topics).topics:
            if topic.error_code:
                return None
            for partition in topic.partitions:
                if partition.error_code or partition.leader_id not in running:
                    return None
                found.setdefault(partition.leader_id, {}).setdefault(topic.name, []).append(partition.partition_index)
        return found

    def all_lead(self, partitions: int, topics: Iterable[str] | None = None) -> bool:
        """Whether so many partitions have leaders, all brokers agree, and each leader answers for all of its own."""
        first, *others = [self.leaders(node, topics) for node in self.running()]
        if first is None or any(other != first for other in others):
            return False
        led = sum(len(indexes) for by_topic in first.values() for indexes in by_topic.values())
        return led >= partitions and all(self._answers(leader, by_topic) for leader, by_topic in first.items())

    def _answers(self, leader: int, by_topic: Mapping[str, list[int]]) -> bool:
        asked = [
            ListOffsetsTopic(
                name=name, partitions=[ListOffsetsPartition(partition_index=at, timestamp=-1) for at in all_]
            )
            for name, all_ in by_topic.items()
        ]
        with self.client(leader) as client:
            told = client.call(ListOffsetsRequest(topics=asked), 7)
        return not any(each.error_code for topic in told.topics for each in topic.partitions)

    def in_sync(self, topics: Iterable[str] | None = None) -> bool:
        """Whether every replica of every partition is in sync, as a broker knows it."""
        told = self.metadata(self.running()[0], topics).topics
        return all(
            len(partition.isr_nodes) == len(partition.replica_nodes) for topic in told for partition in topic.partitions
        )


def metadata_request(topics: Iterable[str] | None) -> MetadataRequest:
    """About some topics, or (None) all."""
    names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=names, allow_auto_topic_creation=False)


def _topic(name: str, config: Mapping[str, str] | None, **more: Any) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
    return CreatableTopic(name=name, configs=configs, **more)


def _stop(node: KwireNode | KafkaNode) -> None:
    process = node._process
    if process is None:
        return
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    node.kill()


class _Part(Target):
    """One broker of a cluster."""

    def __init__(self, node: KwireNode | KafkaNode) -> None:
        self.kind = node.kind
        self.broker = node


@contextlib.contextmanager
def started(kind: str, home: Path, settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster that runs, on new directories that are gone afterwards."""
    cluster = Cluster(kind, home, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(home, ignore_errors=True)
