"""Three brokers of one kind, kwire or Apache Kafka, as a cluster on this machine, each in its own rack.

Both kinds have the same settings on top of `COMMON_SETTINGS`. Of the Apache Kafka brokers the first one is the only
controller, so tests must not stop it. What lives elsewhere: one broker's process (`harness.processes.brokers`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness.processes.brokers import Broker, KafkaBroker, KwireBroker, wait_until
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch

NODES: Final = (1, 2, 3)
SETTLE_S: Final = 60.0
DEFAULT_CONFIG: Final = 5
"""The `config_source` of a property that is not set (DescribeConfigsResponse)."""
SETTINGS: Final = {
    "default.replication.factor": "3",
    "replica.fetch.backoff.ms": "200",
    "replica.fetch.max.bytes": "20000",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
}


class _KafkaOfThree(KafkaBroker):
    """A broker that is up once it accepts connections, since most groups have their coordinators on other brokers."""

    start_timeout_s = 300.0

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=5):
                return True
        except OSError:
            return False


class ThreeBrokers:
    """The brokers by node id; broker 1 is in rack ``rack-1``, and so on. ``bootstrap``: the addresses of all.
    ``settings``: more properties of all. ``store``: those of kwire's metadata store, by default an embedded one."""

    def __init__(
        self,
        kind: str,
        home: Path,
        settings: Mapping[str, str] | None = None,
        store: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.brokers: dict[int, Broker] = {}
        own = (store or {"kwire.metadata.dir": str(home / "metadata")}) if kind == "kwire" else {}
        common = {**SETTINGS, **(settings or {}), **own}
        for node in NODES:
            settings = {**common, "node.id": str(node), "broker.rack": f"rack-{node}"}
            make = KwireBroker if kind == "kwire" else _KafkaOfThree
            self.brokers[node] = make(home / f"broker-{node}", settings)
        if kind == "kafka":
            _join(self.brokers)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, separated by commas."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def start(self) -> None:
        """Start all, first the one that is Kafka's controller; return when the metadata of each has all."""
        first, *others = self.brokers.values()
        first.start()
        with ThreadPoolExecutor(len(others)) as pool:
            list(pool.map(lambda broker: broker.start(), others))
        wait_until(self._are_joined, SETTLE_S, "three brokers")

    def stop(self) -> None:
        """Kill all brokers."""
        for broker in self.brokers.values():
            broker.kill()

    def _are_joined(self) -> bool:
        """Whether the metadata of each broker has all. (A broker that has just started may close the connection.)"""
        with suppress(OSError):
            return all(len(self.call(node, MetadataRequest(topics=[]), 12).brokers) == len(NODES) for node in NODES)
        return False

    def call(self, node: int, request: Any, version: int) -> Any:
        """Send one request to one broker; returns the response."""
        client = WireClient(self.brokers[node].bootstrap)
        try:
            return client.call(request, version)
        finally:
            client.socket.close()

    def create(self, topic: str, *replicas: Sequence[int], **configs: str) -> None:
        """Create a topic whose partitions have these replicas; ``min_insync_replicas="2"`` sets a property."""
        created = CreatableTopic(
            name=topic,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
                for index, ids in enumerate(replicas)
            ],
            configs=[CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()],
        )
        response = self.call(1, CreateTopicsRequest(topics=[created], timeout_ms=20_000), 7).topics[0]
        assert response.error_code == ErrorCode.NONE, response
        self.until_isr(topic, {index: set(ids) for index, ids in enumerate(replicas)})

    def partitions(self, topic: str, node: int = 1) -> dict[int, Any]:
        """The partitions of a topic in a broker's metadata."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        found = self.call(node, request, 12).topics[0]
        return {each.partition_index: each for each in found.partitions}

    def until_isr(self, topic: str, wanted: Mapping[int, set[int]]) -> None:
        """Wait until the metadata of all running brokers has exactly these in-sync replicas."""
        self._until(topic, lambda each: set(each.isr_nodes), wanted, "in-sync replicas")

    def until_led(self, topic: str, wanted: Mapping[int, int]) -> None:
        """Wait until the metadata of all running brokers has these leaders."""
        self._until(topic, lambda each: each.leader_id, wanted, "leaders")

    def _until(self, topic: str, seen: Callable[[Any], object], wanted: Mapping[int, object], what: str) -> None:
        def holds() -> bool:
            with suppress(OSError):
                running = [node for node, broker in self.brokers.items() if broker.is_running()]
                found = [self.partitions(topic, node) for node in running]
                return all({index: seen(each[index]) for index in wanted if index in each} == wanted for each in found)
            return False

        wait_until(holds, SETTLE_S, f"{what} {wanted} of {topic}")

    def until_throttled(self, topic: str, throttled: bool) -> None:
        """Wait until every broker says that the topic's replicas, and its own replication, are throttled, or are not.

        A change of configurations is answered before all of Apache Kafka's brokers have heard of it.
        """

        def holds() -> bool:
            for node in NODES:
                resources = [
                    DescribeConfigsResource(
                        resource_type=2,
                        resource_name=topic,
                        configuration_keys=["leader.replication.throttled.replicas"],
                    ),
                    DescribeConfigsResource(
                        resource_type=4,
                        resource_name=str(node),
                        configuration_keys=["leader.replication.throttled.rate"],
                    ),
                ]
                results = self.call(node, DescribeConfigsRequest(resources=resources), 4).results
                configs = [config for result in results for config in result.configs]
                # A broker does not name the rate if it is not set.
                count = sum(config.config_source != DEFAULT_CONFIG for config in configs)
                if count != (len(resources) if throttled else 0):
                    return False
            return True

        wait_until(holds, SETTLE_S, f"{topic} {'' if throttled else 'not '}throttled on every broker")

    def leader(self, topic: str, partition: int = 0) -> int:
        """The node id of a partition's leader."""
        return int(self.partitions(topic)[partition].leader_id)

    def produce(self, topic: str, partition: int, count: int, size: int = 100, acks: int = -1) -> None:
        """Write ``count`` batches of one record to the leader, once it knows that it leads."""
        for _ in range(count):
            batch = build_batch([Record(offset=0, timestamp=1_760_000_000_000, key=None, value=b"x" * size)])
            data = PartitionProduceData(index=partition, records=memoryview(bytearray(batch)))
            topics = [TopicProduceData(name=topic, partition_data=[data])]
            request = ProduceRequest(acks=acks, timeout_ms=20_000, topic_data=topics)
            wait_until(partial(self._is_written, request), SETTLE_S, f"a record in {topic}-{partition}")

    def _is_written(self, request: ProduceRequest) -> bool:
        (data,) = request.topic_data
        response = self.call(self.leader(data.name, data.partition_data[0].index), request, 9)
        error = response.responses[0].partition_responses[0].error_code
        assert error in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER), response
        return bool(error == ErrorCode.NONE)


def _join(brokers: dict[int, Broker]) -> None:
    """Configure Apache Kafka brokers as a cluster: the first is broker and controller, the others are brokers."""
    for broker in brokers.values():
        assert isinstance(broker, KafkaBroker)
        broker.choose_ports()
        broker.settings |= {"broker.session.timeout.ms": "18000", "broker.heartbeat.interval.ms": "1000"}
    controller = f"{brokers[1].host}:{brokers[1].controller_port}"  # type: ignore[attr-defined]
    for node, broker in brokers.items():
        broker.settings["controller.quorum.voters"] = f"1@{controller}"
        if node != 1:
            broker.settings["process.roles"] = "broker"
            broker.settings["listeners"] = f"PLAINTEXT://{broker.bootstrap}"
