"""The cluster's topics as consumer groups see them: ids, sizes, racks, and which of them a pattern matches.

Patterns are RE2's (KIP-848), so matching takes linear time whatever the pattern; a name must match as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.store.keys import ConfigResource

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage, TopicImage

REGEX_MEMORY_MAX: Final = 8 << 20
"""What RE2 may use for one compiled pattern; a larger one is refused."""

_HASH_NOTE: Final = "consumer-group-topic-hashes"


class Topics:
    """One snapshot of the cluster, asked by name and by id."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    @property
    def revision(self) -> int:
        return self._image.revision

    def name(self, topic_id: bytes) -> str | None:
        """The topic's name, or None if it is gone."""
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def id(self, name: str) -> bytes | None:
        """The topic's id, or None if there is no such topic."""
        topic = self._image.topics.get(name)
        return None if topic is None else topic.id

    def ids(self, names: Iterable[str]) -> frozenset[bytes]:
        """The ids of those that are there."""
        topics = self._image.topics
        return frozenset(topics[name].id for name in names if name in topics)

    def partition_counts(self, topic_ids: Iterable[bytes]) -> dict[bytes, int]:
        """How many partitions topics have; all must be there."""
        return {topic_id: len(self._image.topics_by_id[topic_id].partitions) for topic_id in topic_ids}

    def metadata_hash(self, names: Iterable[str]) -> int:
        """A number that changes when one of the topics appears, goes, grows, or changes racks; 0 for none.

        It is compared with no other broker's: whoever takes a group over sees other topics at worst, and assigns anew.
        """
        there = sorted(name for name in names if name in self._image.topics)
        if not there:
            return 0
        whole = blake2b(digest_size=8)
        for name in there:
            whole.update(self._topic_hash(self._image.topics[name]))
        return int.from_bytes(whole.digest(), "big", signed=True)

    def _topic_hash(self, topic: TopicImage) -> bytes:
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

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """What was set by request for a group."""
        return self._image.config(ConfigResource.GROUP, group_id)

    def matching(self, pattern: str) -> frozenset[str]:
        """The topics whose names a pattern matches. One that cannot be compiled (any more) matches nothing."""
        try:
            compiled = compile_regex(pattern)
        except KafkaError:
            return frozenset()
        return frozenset(name for name in self._image.topics if compiled.fullmatch(name))


def compile_regex(pattern: str) -> Any:
    """The compiled pattern. Raises INVALID_REGULAR_EXPRESSION."""
    import re2  # type: ignore[import-untyped]  # here: few groups need it, and it takes time to load

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
