"""The topics of the cluster for consumer groups: ids, partition counts, racks, and matching of regular expressions.

Regular expressions are RE2's (KIP-848), so matching takes linear time. An expression must match the whole name.

The shard does not import the cluster. It reads it through the protocols below, which the cluster's image satisfies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, Protocol

from kwire.base.errors import ErrorCode, KafkaError

REGEX_MEMORY_MAX: Final = 8 << 20
"""The memory limit of RE2 for one compiled expression, in bytes. A larger expression is invalid."""

_HASH_NOTE: Final = "consumer-group-topic-hashes"


class PartitionFacts(Protocol):
    """The replicas of a partition, by broker id."""

    @property
    def replicas(self) -> Sequence[int]:
        """The brokers that hold the partition."""


class TopicFacts(Protocol):
    """A topic of the cluster."""

    @property
    def name(self) -> str:
        """The topic's name."""

    @property
    def id(self) -> bytes:
        """The topic's id, 16 bytes."""

    @property
    def partitions(self) -> Sequence[PartitionFacts]:
        """All partitions, by index."""


class BrokerFacts(Protocol):
    """A broker of the cluster."""

    @property
    def rack(self) -> str | None:
        """`broker.rack`."""


class ClusterFacts(Protocol):
    """What consumer groups read of a snapshot of the cluster. The cluster's own image is one."""

    @property
    def revision(self) -> int:
        """A number that grows with every change of the cluster."""

    @property
    def brokers(self) -> Mapping[int, BrokerFacts]:
        """The live brokers by id."""

    @property
    def topics(self) -> Mapping[str, TopicFacts]:
        """The topics by name."""

    @property
    def topics_by_id(self) -> Mapping[bytes, TopicFacts]:
        """The topics by id."""

    @property
    def notes(self) -> dict[Any, Any]:
        """A cache for values derived from this snapshot."""


class Topics:
    """The topics of one snapshot of the cluster, by name and by id.

    ``group_config`` returns the dynamic properties of a group (IncrementalAlterConfigs) in the same snapshot.
    """

    def __init__(self, image: ClusterFacts, group_config: Callable[[str], Mapping[str, str]]) -> None:
        self._image = image
        self.group_config = group_config

    @property
    def revision(self) -> int:
        """The snapshot's revision, which grows with every change of the cluster."""
        return self._image.revision

    def name(self, topic_id: bytes) -> str | None:
        """The name of a topic, or None if it does not exist."""
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def id(self, name: str) -> bytes | None:
        """The id of a topic, or None if it does not exist."""
        topic = self._image.topics.get(name)
        return None if topic is None else topic.id

    def ids(self, names: Iterable[str]) -> frozenset[bytes]:
        """The ids of the topics that exist."""
        topics = self._image.topics
        return frozenset(topics[name].id for name in names if name in topics)

    def partition_count(self, name: str) -> int | None:
        """The number of a topic's partitions, or None if it does not exist."""
        topic = self._image.topics.get(name)
        return None if topic is None else len(topic.partitions)

    def partition_counts(self, topic_ids: Iterable[bytes]) -> dict[bytes, int]:
        """The partition counts of topics, all of which must exist."""
        return {topic_id: len(self._image.topics_by_id[topic_id].partitions) for topic_id in topic_ids}

    def metadata_hash(self, names: Iterable[str]) -> int:
        """A hash of the topics that changes when one of them is created, deleted or extended, or changes racks. 0 if
        none exists.

        It differs from Apache Kafka's hash. If another broker takes the group over, a different hash causes a new
        assignment at worst.
        """
        there = sorted(name for name in names if name in self._image.topics)
        if not there:
            return 0
        whole = blake2b(digest_size=8)
        for name in there:
            whole.update(self._topic_hash(self._image.topics[name]))
        return int.from_bytes(whole.digest(), "big", signed=True)

    def _topic_hash(self, topic: TopicFacts) -> bytes:
        known: dict[bytes, bytes] = self._image.notes.setdefault(_HASH_NOTE, {})
        found = known.get(topic.id)
        if found is None:
            brokers = self._image.brokers
            racks = [
                sorted(
                    {rack for one in partition.replicas if one in brokers and (rack := brokers[one].rack) is not None}
                )
                for partition in topic.partitions
            ]
            text = repr((topic.name, topic.id, len(racks), racks if any(racks) else ()))
            found = known[topic.id] = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return found

    def matching(self, pattern: str) -> frozenset[str]:
        """The names of the topics that an expression matches. An expression that RE2 rejects matches nothing."""
        try:
            compiled = compile_regex(pattern)
        except KafkaError:
            return frozenset()
        return frozenset(name for name in self._image.topics if compiled.fullmatch(name))


def compile_regex(pattern: str) -> Any:
    """The compiled expression. Raises INVALID_REGULAR_EXPRESSION."""
    import re2  # type: ignore[import-untyped]  # imported here: few groups need it, and it is slow to load

    options = re2.Options()
    options.log_errors = False
    options.max_mem = REGEX_MEMORY_MAX
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be parsed"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"The subscribed topic regex `{pattern}` is not a valid RE2 expression: {text}"
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None
