"""The broker under test as the cases use it: topics that come, grow and go, and records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from harness.processes.brokers import wait_until

Headers = list[tuple[str, str | bytes | None]]


class Kafka:
    """A broker, of either kind."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Create a topic, also one that was just deleted; returns its name when it has leaders."""
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})

        def is_created() -> bool:
            try:
                self._admin.create_topics([new], operation_timeout=30)[topic].result(30)
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise
                return False  # its deletion is not complete yet
            return True

        wait_until(is_created, 60, f"topic {topic} is created")
        self._wait_for(topic, partitions)
        return topic

    def delete(self, topic: str) -> None:
        """Delete a topic; returns when the broker does not list it any more."""
        self._admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
        wait_until(lambda: topic not in self._admin.list_topics(timeout=20).topics, 30, f"topic {topic} is deleted")

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions, so many in all."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
        self._wait_for(topic, partitions)

    def cut(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records of a partition before an offset."""
        for future in self._admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            future.result(30)

    def size(self, topic: str) -> int:
        """The number of a topic's partitions."""
        return len(self._admin.list_topics(timeout=20).topics[topic].partitions)

    def latest(self, topic: str, partition: int = 0) -> int:
        """The offset after the last record of a partition."""
        wanted = {TopicPartition(topic, partition): OffsetSpec.latest()}
        (future,) = self._admin.list_offsets(wanted, request_timeout=20).values()
        return int(future.result(20).offset)

    def send(
        self,
        topic: str,
        values: Iterable[object],
        partition: int | None = None,
        *,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """Write values as text to a partition, or to all in turn; those of a partition become visible at once.
        ``timestamp``: milliseconds, 0 for now."""
        count = self.size(topic) if partition is None else 0
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 10_000})  # flush does not wait for it
        for number, value in enumerate(values):
            place = number % count if partition is None else partition
            producer.produce(topic, str(value).encode(), partition=place, timestamp=timestamp, headers=headers or [])
        assert producer.flush(30) == 0

    def transactions(self, transactional_id: str) -> Transactions:
        """A producer of transactions."""
        return Transactions(self, transactional_id)

    def _wait_for(self, topic: str, partitions: int) -> None:
        def has_leaders() -> bool:
            found = self._admin.list_topics(timeout=20).topics
            if topic not in found or len(found[topic].partitions) != partitions:
                return False
            wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
            try:
                for future in self._admin.list_offsets(wanted, request_timeout=20).values():
                    future.result(20)
            except KafkaException:
                return False
            return True

        wait_until(has_leaders, 30, f"{partitions} partitions of topic {topic}")


class Transactions:
    """Transactions on partition 0 of topics."""

    def __init__(self, kafka: Kafka, transactional_id: str) -> None:
        self._kafka = kafka
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": transactional_id})
        self._producer.init_transactions(60)

    def begin(self, topic: str, values: Sequence[object], keys: Sequence[object] = ()) -> None:
        """Begin a transaction and write values; None is null."""
        self._producer.begin_transaction()
        for index, value in enumerate(values):
            key = keys[index] if keys else None
            data, name = (None if each is None else str(each).encode() for each in (value, key))
            self._producer.produce(topic, data, key=name, partition=0)
        assert self._producer.flush(30) == 0

    def commit(self, topic: str, end: int) -> None:
        """Commit, and wait until the partition ends there."""
        self._producer.commit_transaction(30)
        wait_until(lambda: self._kafka.latest(topic) >= end, 30, f"the marker before offset {end}")

    def abort(self, topic: str, end: int) -> None:
        """Abort, and wait until the partition ends there."""
        self._producer.abort_transaction(30)
        wait_until(lambda: self._kafka.latest(topic) >= end, 30, f"the marker before offset {end}")
