"""The bench of `bench` with topics and consumer groups, and clients of the consumer protocol (KIP-848)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.coordinator.groups.consumer.group import ConsumerGroup
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.runtime.machine import Caller, settle
from tests.coordinator.bench import Bench, Settings

LONG_MS = 30_000


class Cluster:
    """A cluster with topics."""

    def __init__(self) -> None:
        self.revision = 1
        self.counts: dict[str, int] = {}
        self.lives: dict[str, int] = {}
        self.group_configs: dict[str, dict[str, str]] = {}

    def id(self, name: str) -> bytes:
        """The id of a topic. A topic that is created again has another one."""
        return f"{name}{self.lives[name]}".encode().ljust(16, b"-")

    def image(self) -> Any:
        topics = {
            name: SimpleNamespace(
                name=name, id=self.id(name), partitions=tuple(SimpleNamespace(replicas=(1,)) for _ in range(count))
            )
            for name, count in self.counts.items()
        }
        return SimpleNamespace(
            revision=self.revision,
            topics=topics,
            topics_by_id={topic.id: topic for topic in topics.values()},
            brokers={},
            notes={},
        )

    def topics(self) -> Topics:
        return Topics(self.image(), lambda group_id: self.group_configs.get(group_id, {}))


class ConsumerBench(Bench):
    """A shard with one consumer group under test."""

    def __post_init__(self) -> None:
        self.cluster = Cluster()
        super().__post_init__()
        self.set_topics(t=4)

    def set_topics(self, **counts: int) -> None:
        """Create, extend or (with 0) delete topics."""
        new = any(name not in self.cluster.counts for name in counts)
        self.cluster.revision += 1
        for name, count in counts.items():
            before = self.cluster.counts.pop(name, 0)
            if not before and count:
                self.cluster.lives[name] = self.cluster.lives.get(name, 0) + 1
            if count:
                self.cluster.counts[name] = max(before, count)
        self.shard.consumers.protocol.update_topics(self.topics(), list(counts), new=new)

    def topics(self) -> Topics:
        return self.cluster.topics()

    @property
    def consumers(self) -> ConsumerGroup:
        found = self.shard.groups.find(self.group)
        assert isinstance(found, ConsumerGroup)
        return found

    def beat(self, member: str, epoch: int, *, version: int = 1, **fields: Any) -> Any:
        """Send one heartbeat. Returns the response, or the error as a response. Timers that are due fire afterwards."""
        owned = fields.pop("owned", None)
        if owned is not None:
            fields["topic_partitions"] = [
                TopicPartitions(topic_id=topic, partitions=sorted(partitions)) for topic, partitions in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=member, member_epoch=epoch, **fields)
        try:
            out = self.shard.consumers.heartbeat(request, Caller("c", "/h", version), self.now)
            settle(out, self.now, self._append, self._apply)
        except KafkaError as error:
            return SimpleNamespace(
                error_code=error.code, error_message=error.message, assignment=None, member_id=None, member_epoch=0
            )
        if self.refuse is None:
            self.tick()
        return out.response

    def enter(self, member: str, topics: tuple[str, ...] = ("t",), **fields: Any) -> Any:
        fields.setdefault("subscribed_topic_names", list(topics))
        return self.beat(member, 0, rebalance_timeout_ms=LONG_MS, owned={}, **fields)


class Consumer:
    """A client of the consumer protocol. It reads its partitions until it has reported that it revoked them."""

    def __init__(self, bench: ConsumerBench, number: int) -> None:
        self.bench = bench
        self.number = number
        self.lives = 0
        self.instance = f"i{number}" if number % 3 == 0 else None
        self.epoch = 0
        self.owned: dict[bytes, set[int]] = {}
        self.heard_ms = 0

    @property
    def member_id(self) -> str:
        return f"m{self.number}-{self.lives}"

    @property
    def is_in(self) -> bool:
        return self.epoch > 0

    def forget(self) -> None:
        self.epoch, self.owned = 0, {}

    def enter(self, topics: tuple[str, ...], **fields: Any) -> ErrorCode:
        self.owned = {}
        return self._hear(self.bench.enter(self.member_id, topics, instance_id=self.instance, **fields))

    def beat(self, *, reports: bool = True, **fields: Any) -> ErrorCode:
        owned = self.owned if reports else None
        return self._hear(self.bench.beat(self.member_id, self.epoch, instance_id=self.instance, owned=owned, **fields))

    def leave(self, epoch: int = -1) -> ErrorCode:
        response = self.bench.beat(self.member_id, epoch, instance_id=self.instance)
        if response.error_code == ErrorCode.NONE:
            self.forget()
        return ErrorCode(response.error_code)

    def _hear(self, response: Any) -> ErrorCode:
        error = ErrorCode(response.error_code)
        if error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.FENCED_MEMBER_EPOCH,
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            self.forget()
        elif error is ErrorCode.NONE:
            self.epoch = response.member_epoch
            self.heard_ms = self.bench.now_ms
            if response.assignment is not None:
                self.owned = {one.topic_id: set(one.partitions) for one in response.assignment.topic_partitions}
        return error


def settings(**values: Any) -> Settings:
    return Settings(**values)
