"""A broker under measurement: its topics, and what its process uses.

What lives elsewhere: how the brokers are started (`harness.processes.production`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.inspection import process_usage
from harness.processes.brokers import Broker, wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic


class Target:
    """A broker under measurement."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.kind = broker.kind
        self._topics = 0

    def start(self) -> None:
        """Start the broker and wait until it is ready."""
        self.broker.start()

    def stop(self) -> None:
        """Stop the broker."""
        self.broker.stop()

    @property
    def port(self) -> int:
        """The port of its listener."""
        return self.broker.port

    def client(self) -> WireClient:
        """A new connection to the broker; requests time out after 180 seconds."""
        return WireClient(self.broker.bootstrap, timeout_s=180)

    # Topics

    def create_topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> Topic:
        """A new topic of which every partition has a leader."""
        self._topics += 1
        name = f"bench-{self._topics}"
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
        new = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
        with self.client() as client:
            response = client.call(CreateTopicsRequest(topics=[new], timeout_ms=120_000), 7).topics[0]
            assert not response.error_code, (self.kind, response.error_code, response.error_message)
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])

            def led() -> bool:
                found = client.call(asked, 12).topics[0].partitions
                return len(found) == partitions and all(not each.error_code for each in found)

            wait_until(led, 120, f"leaders of {name}")
            topic = self.topic(name, response.topic_id, partitions)
            wait_until(lambda: topic.end_offsets() is not None, 120, f"logs of {name}")
        return topic

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Delete topics and wait until their files are gone. Apache Kafka takes a third of a second for a request."""
        with self.client() as client:
            states = [DeleteTopicState(name=each.name) for each in topics]
            client.call(DeleteTopicsRequest(topics=states, timeout_ms=60_000), 6)
        prefixes = tuple(f"{each.name}-" for each in topics)

        def gone() -> bool:
            return not any(name.startswith(prefixes) for each in self.data_dirs() for name in os.listdir(each))

        wait_until(gone, 60 + len(topics), f"the files of {topics[0].name} are deleted")

    def topic(self, name: str, topic_id: bytes, partitions: int) -> Topic:
        """A topic that there is."""
        return Topic(self, name, topic_id, partitions)

    def producer_id(self) -> tuple[int, int]:
        """A new idempotent producer's id and epoch."""
        response: Any = None

        def given() -> bool:
            nonlocal response
            response = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
            return not response.error_code

        with self.client() as client:
            wait_until(given, 30, "a producer id")
        return response.producer_id, response.producer_epoch

    def warm_pages(self, size: int) -> None:
        """Have the machine hold enough memory for the next ``size`` bytes that are written to files.

        On a virtual machine the first touch of memory that was free is ten times slower than the write itself, and the
        host takes back what was free for two seconds: without this, the two brokers would be measured on different
        memory."""
        block = bytes(1 << 20)
        path = self.broker.home / "warm"
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            for position in range(0, size, len(block)):
                os.pwrite(fd, block, position)
        finally:
            os.close(fd)
            path.unlink()

    def data_dirs(self) -> list[Path]:
        """Where the directories of its partitions are."""
        return [self.broker.data_dir]

    # What it uses

    def cpu_s(self) -> float:
        """User and system time of the broker's process and its descendants, in seconds."""
        return process_usage.cpu_s(self.broker.pid)

    def kernel_s(self) -> float:
        """The part of it that the kernel took."""
        return process_usage.kernel_s(self.broker.pid)

    def resident_mb(self) -> float:
        """Resident memory of the broker's process and its descendants."""
        return process_usage.resident_mb(self.broker.pid)

    def proportional_mb(self) -> float:
        """The same, with memory that several processes share counted in part (PSS)."""
        return process_usage.proportional_mb(self.broker.pid)

    def descriptors(self) -> int:
        """How many files and sockets the broker has open."""
        return process_usage.descriptors(self.broker.pid)


class Topic:
    """A topic of a target."""

    def __init__(self, target: Target, name: str, topic_id: bytes, partitions: int) -> None:
        self.target = target
        self.name = name
        self.id = topic_id
        self.partitions = partitions

    def end_offsets(self) -> list[int] | None:
        """The log end offset of every partition; None while one is not served."""
        parts = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(self.partitions)]
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=self.name, partitions=parts)])
        with self.target.client() as client:
            responses = client.call(request, 7).topics[0].partitions
        if any(each.error_code for each in responses):
            return None
        return [each.offset for each in sorted(responses, key=lambda each: each.partition_index)]

    def ports(self) -> list[int]:
        """The port of each partition's leader."""
        return [self.target.port] * self.partitions

    def records(self) -> int:
        """How many records the topic has, by the log end offsets."""
        return sum(self.end_offsets() or ())

    def directories(self) -> list[Path]:
        """The log directories of its partitions."""
        return [self.target.broker.data_dir / f"{self.name}-{index}" for index in range(self.partitions)]

    def delete(self) -> None:
        """Delete it and wait until its files are gone, so that this does not disturb the next workload."""
        self.target.delete_topics([self])

    def forget_cached(self) -> None:
        """Have the system drop what it caches of the files: they are read from the disk next time."""
        for directory in self.directories():
            for path in directory.glob("*.log"):
                fd = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(fd)
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(fd)
