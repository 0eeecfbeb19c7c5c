"""A cluster of three brokers: kwire on the embedded store, kwire on ZooKeeper, or Apache Kafka.

Here: starting, stopping and killing them, topics with three replicas, leaders, processor time and memory. What lives
elsewhere: one broker's process and its settings (`harness.processes.brokers`, `harness.processes.production`), and
three kwire brokers of which each may run other code (`harness.processes.kwire_cluster`).
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harness.inspection import process_usage
from harness.processes.brokers import Broker, BrokerFailed, KwireBroker, wait_until
from harness.processes.kwire_cluster import REPLICATED
from harness.processes.ports import free_port
from harness.processes.production import SERVER_PROPERTIES, ProductionKafkaBroker
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

EMBEDDED = "kwire"
ZOOKEEPER = "kwire-zookeeper"
KAFKA = "kafka"
TITLES = {EMBEDDED: "kwire", ZOOKEEPER: "kwire, ZooKeeper", KAFKA: "Kafka"}
NODES = (1, 2, 3)
WAIT_S = 240.0
STOP_S = 180.0
METADATA_VERSION = 12

CLUSTER_SETTINGS = {
    **REPLICATED,
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
"""What Apache Kafka needs in addition to notice the loss of its controller as soon."""

_TIMEOUTS = ("broker.session.timeout.ms", "broker.heartbeat.interval.ms")


class KafkaNode(ProductionKafkaBroker):
    """One broker of an Apache Kafka cluster, which is also one of its three controllers. ``controller_ports``: the
    ports of all three, by node id. ``settings`` may have `listeners` for clients."""

    def __init__(self, home: Path, settings: Mapping[str, str], controller_ports: Mapping[int, int]) -> None:
        super().__init__(home, settings)
        self._controller_ports = controller_ports

    def _properties(self) -> dict[str, str]:
        own = self._controller_ports[int(self.settings["node.id"])]
        voters = ",".join(f"{node}@{self.host}:{port}" for node, port in self._controller_ports.items())
        plaintext = f"PLAINTEXT://{self.host}:{self.port}"
        found = {
            **super()._properties(),
            "listeners": f"{self.settings.get('listeners', plaintext)},CONTROLLER://{self.host}:{own}",
            "controller.quorum.voters": voters,
        }
        return {name: value for name, value in found.items() if not name.startswith("zookeeper.")}


class Cluster:
    """Three brokers that are started together. ``settings``: Kafka properties for each."""

    def __init__(self, kind: str, home: Path, settings: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self.home = home
        self.settings = {**SERVER_PROPERTIES, **CLUSTER_SETTINGS, **(settings or {})}
        self.zookeeper = ZooKeeper(home / "zookeeper") if kind == ZOOKEEPER else None
        self.nodes: dict[int, Broker] = {}
        controller_ports = {node_id: free_port() for node_id in NODES}
        for node_id in NODES:
            own = {**self.settings, **self._own_settings(node_id)}
            node_home = home / f"broker-{node_id}"
            node = KafkaNode(node_home, own, controller_ports) if kind == KAFKA else KwireBroker(node_home, own)
            node.choose_ports()
            node.stop_timeout_s = STOP_S
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
        """Start all at once; return, once each knows all, how many seconds that took."""
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
        """Wait until ``condition`` holds. A broker that does not respond, or has ended, counts as not yet."""

        def holds() -> bool:
            try:
                return bool(condition())
            except OSError:
                return False

        try:
            wait_until(holds, WAIT_S, f"{self.kind}: {what}", interval_s)
        except TimeoutError as error:
            tails = {node_id: node.log_text()[-1500:] for node_id, node in self.nodes.items()}
            raise TimeoutError(f"{error}\n{tails}") from None

    def running(self) -> list[int]:
        """The ids of the brokers that run."""
        return [node_id for node_id, node in self.nodes.items() if node.is_running()]

    def kill(self, node_id: int) -> float:
        """SIGKILL; return the time of it on the monotonic clock."""
        moment = time.monotonic()
        self.nodes[node_id].kill()
        return moment

    def begin(self, node_id: int) -> None:
        """Start one broker (again), without waiting for it."""
        self.nodes[node_id].begin()

    def stop(self) -> float:
        """Stop all in order, at the same time; return how many seconds that took."""
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

    def cpu_s(self) -> float:
        """User and system time of all brokers that run (not of ZooKeeper), in seconds."""
        return sum(process_usage.cpu_s(self.nodes[node_id].pid) for node_id in self.running())

    def resident_mb(self) -> float:
        """Resident memory of all brokers that run (not of ZooKeeper), in MB."""
        return sum(process_usage.resident_mb(self.nodes[node_id].pid) for node_id in self.running())

    # Topics

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, separated by commas."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def client(self, node_id: int) -> WireClient:
        """A blocking client of one broker."""
        return WireClient(self.nodes[node_id].bootstrap, timeout_s=180)

    def metadata(self, node_id: int, topics: Iterable[str] | None = None) -> Any:
        """A broker's Metadata response, for some topics or (None) all."""
        with self.client(node_id) as client:
            return client.call(metadata_request(topics), METADATA_VERSION)

    def create(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Create topics, by name with their number of partitions and three replicas each, in one request."""
        self._create(
            [_topic(name, config, num_partitions=count, replication_factor=3) for name, count in topics.items()]
        )

    def create_led_by(self, name: str, leader: int) -> None:
        """Create a topic of one partition whose preferred leader is ``leader``."""
        replicas = [leader, *(node for node in NODES if node != leader)]
        assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)]
        self._create([_topic(name, None, num_partitions=-1, replication_factor=-1, assignments=assignments)])

    def _create(self, topics: list[CreatableTopic]) -> None:
        with self.client(self.running()[0]) as client:
            answer = client.call(CreateTopicsRequest(topics=topics, timeout_ms=120_000), 7)
        for each in answer.topics:
            assert not each.error_code, (self.kind, each.name, each.error_code, each.error_message)

    def leaders(self, node_id: int, topics: Iterable[str] | None = None) -> dict[int, dict[str, list[int]]] | None:
        """Partitions by leader and topic, from one broker's metadata; None while a partition has no running leader."""
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
        """Whether so many partitions have leaders, all brokers agree on them, and each leader serves its partitions."""
        first, *others = [self.leaders(node, topics) for node in self.running()]
        if first is None or any(other != first for other in others):
            return False
        led = sum(len(indexes) for by_topic in first.values() for indexes in by_topic.values())
        return led >= partitions and all(self._serves(leader, by_topic) for leader, by_topic in first.items())

    def _serves(self, leader: int, by_topic: Mapping[str, list[int]]) -> bool:
        topics = [
            ListOffsetsTopic(
                name=name, partitions=[ListOffsetsPartition(partition_index=at, timestamp=-1) for at in all_]
            )
            for name, all_ in by_topic.items()
        ]
        with self.client(leader) as client:
            response = client.call(ListOffsetsRequest(topics=topics), 7)
        return not any(each.error_code for topic in response.topics for each in topic.partitions)

    def in_sync(self, topics: Iterable[str] | None = None) -> bool:
        """Whether every replica of every partition is in sync, from one broker's metadata."""
        return all(
            len(partition.isr_nodes) == len(partition.replica_nodes)
            for topic in self.metadata(self.running()[0], topics).topics
            for partition in topic.partitions
        )


def metadata_request(topics: Iterable[str] | None) -> MetadataRequest:
    """A Metadata request for some topics or (None) all."""
    names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=names, allow_auto_topic_creation=False)


def _topic(name: str, config: Mapping[str, str] | None, **more: Any) -> CreatableTopic:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
    return CreatableTopic(name=name, configs=configs, **more)


def _stop(node: Broker) -> None:
    """Stop a broker; one that does not end in time is killed."""
    with contextlib.suppress(BrokerFailed):
        node.stop()


@contextlib.contextmanager
def started(kind: str, home: Path, settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A running cluster on new directories, which are removed afterwards."""
    cluster = Cluster(kind, home, settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(home, ignore_errors=True)
