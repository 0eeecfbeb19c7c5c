"""The bytes of Metadata responses, made once for each topic and version until the cluster's image changes.

A response differs from client to client in the topics that the client may describe, in the addresses of the brokers and
in what else was requested. What all have in common are topics, which are nearly all of the bytes: they are encoded once
and joined for each response. A response with all topics is kept whole. What lives elsewhere: what a response contains
(`topics.metadata`).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kwire.base.futures import in_turns
from kwire.codec.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from kwire.codec.primitives import varint
from kwire.codec.protocol import encode, encode_in_slices
from kwire.handlers.slices import SLICE_ELEMENTS

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage

FLEXIBLE_SINCE: Final = 9
VERSIONS_MAX: Final = 4
"""Versions whose topics are kept; a cluster's clients use few. Of another one the topics are encoded each time."""
WHOLE_MAX: Final = 8
"""Whole responses that are kept: one for each version and address of this broker."""

_pack_count = Struct(">i").pack
_OPERATIONS: Final = range(8, 11)
_ERROR_SINCE: Final = 13


class EncodedTopics:
    """The topics of one image as responses of one version have them."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._empty = encode(MetadataResponse(), version)
        self._behind = 4 * (version in _OPERATIONS) + 2 * (version >= _ERROR_SINCE) + (version >= FLEXIBLE_SINCE)
        self._count_size = 1 if version >= FLEXIBLE_SINCE else 4
        self._known: dict[str, tuple[MetadataResponseTopic, bytes]] = {}

    def has(self, name: str) -> bool:
        """Whether a topic's bytes are known."""
        return name in self._known

    def add(self, topic: MetadataResponseTopic) -> bytes:
        """A topic's bytes, which are kept: the topic must never change. Another object of the same name replaces it."""
        assert topic.name is not None
        known = self._known.get(topic.name)
        if known is None or known[0] is not topic:
            known = self._known[topic.name] = topic, self.encoded(topic)
        return known[1]

    async def add_in_slices(self, topic: MetadataResponseTopic) -> None:
        """`add` for a topic of very many partitions, with turns for other clients."""
        assert topic.name is not None
        alone = MetadataResponse(topics=[topic])
        encoded = await in_turns(encode_in_slices(alone, self._version, SLICE_ELEMENTS))
        self._known[topic.name] = topic, self._topic_of(encoded)

    def encoded(self, topic: MetadataResponseTopic) -> bytes:
        """A topic's bytes."""
        return self._topic_of(encode(MetadataResponse(topics=[topic]), self._version))

    def _topic_of(self, alone: bytes) -> bytes:
        """The bytes of the topic in a response that has nothing else."""
        return alone[len(self._empty) - self._behind : len(alone) - self._behind]

    def body(self, response: MetadataResponse, topics: list[bytes]) -> bytes:
        """A response's body with these topics in place of its own."""
        others = MetadataResponse(
            throttle_time_ms=response.throttle_time_ms,
            brokers=response.brokers,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            cluster_authorized_operations=response.cluster_authorized_operations,
            error_code=response.error_code,
        )
        frame = encode(others, self._version)
        end = len(frame) - self._behind
        count = varint(len(topics) + 1) if self._version >= FLEXIBLE_SINCE else _pack_count(len(topics))
        return b"".join((frame[: end - self._count_size], count, *topics, frame[end:]))


def topics_of(image: ClusterImage, version: int) -> EncodedTopics | None:
    """What is known of an image's topics in a version; None if too many versions are."""
    known: dict[int, EncodedTopics] = image.notes.setdefault(EncodedTopics, {})
    found = known.get(version)
    if found is None and len(known) < VERSIONS_MAX:
        found = known[version] = EncodedTopics(version)
    return found


def whole(image: ClusterImage) -> dict[Any, bytes]:
    """The bodies of responses with all topics, by what they depend on beside the image. At most `WHOLE_MAX` are to be
    added."""
    bodies: dict[Any, bytes] = image.notes.setdefault(whole, {})
    return bodies
