"""DescribeTopicPartitions (API key 75): topics with their partitions, in pages (KIP-966).

Behaviour:

- Topics are sorted by name: the requested ones, or all if the request names none.
- A page ends after ``response_partition_limit`` partitions (at least 1, at most `max.request.partition.size.limit`).
  Its cursor names the topic and partition of the next page. Unknown topics do not count towards the limit.
- With a cursor, topics before it are left out, and so are earlier partitions of its own topic.
- INVALID_REQUEST for all topics if the cursor's topic is not among the requested ones, or its partition is negative.
- UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION and TOPIC_AUTHORIZATION_FAILED as in Metadata. No topic is
  created.
- A partition without a leader has no error; its eligible leader replicas are those that could become leader.

Versions: 0.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Generator, Sequence
from functools import partial

from kwire.base.errors import ErrorCode
from kwire.base.futures import NowOrLater, in_turns, then
from kwire.cluster.metadata.image import ClusterImage, TopicImage
from kwire.codec.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from kwire.codec.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.authorization import allowed_topics_in_slices
from kwire.handlers.context import RequestContext
from kwire.handlers.slices import SLICE_PARTITIONS, encode_in_slices
from kwire.handlers.topic_metadata import absence_error, offline_replicas, topic_operations
from kwire.security.acls.operations import AclOperation

_Entry = tuple[str, TopicImage | ErrorCode | None, range]
"""A topic of the page: its name; what it is, None if it does not exist, or why it is refused; the partitions."""


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> NowOrLater[DescribeTopicPartitionsResponse]:
    """Build one page from this broker's image."""
    image = context.services.image
    requested = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor is not None and (cursor.partition_index < 0 or (requested and cursor.topic_name not in requested)):
        return refuse(request, context.api_version, ErrorCode.INVALID_REQUEST, None)
    first_name = cursor.topic_name if cursor is not None else ""
    names = sorted(requested) if requested else _all_names(image)
    names = names[bisect_left(names, first_name) :]
    allowed = allowed_topics_in_slices(context, AclOperation.DESCRIBE, names)
    return then(allowed, partial(_page, request, context, image, names))


def _page(
    request: DescribeTopicPartitionsRequest,
    context: RequestContext,
    image: ClusterImage,
    names: list[str],
    allowed: Collection[str],
) -> NowOrLater[DescribeTopicPartitionsResponse]:
    """The page that begins with the first of these names and its cursor."""
    cursor = request.cursor
    room = max(1, min(request.response_partition_limit, context.services.config.max_request_partition_size_limit))
    next_cursor: Cursor | None = None
    page: list[_Entry] = []
    for name in names:
        topic = image.topics.get(name)
        if name not in allowed:
            if request.topics:
                page.append((name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, range(0)))
            continue
        if room == 0:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        if topic is None:
            page.append((name, None, range(0)))
            continue
        start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        end = min(start + room, len(topic.partitions))
        page.append((name, topic, range(start, end)))
        if end < len(topic.partitions):
            next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        room -= max(end - start, 0)
    if len(page) + sum(len(indexes) for _, _, indexes in page) > SLICE_PARTITIONS:
        return _in_slices(context, image, page, next_cursor)
    topics = [_entry(context, image, *each) for each in page]
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)


def _all_names(image: ClusterImage) -> list[str]:
    """The names of all topics, sorted once per image: not to be changed."""
    names: list[str] | None = image.notes.get(_all_names)
    if names is None:
        names = image.notes[_all_names] = sorted(image.topics)
    return names


async def _in_slices(
    context: RequestContext, image: ClusterImage, page: Sequence[_Entry], next_cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    topics = await in_turns(_described(context, image, page))
    return await encode_in_slices(context, DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor))


def _described(
    context: RequestContext, image: ClusterImage, page: Sequence[_Entry]
) -> Generator[None, None, list[DescribeTopicPartitionsResponseTopic]]:
    """The topics of a page, all of one image, in steps of `SLICE_PARTITIONS` partitions; a topic counts as one, too."""
    topics = []
    room = SLICE_PARTITIONS
    for name, topic, indexes in page:
        if room <= 0:
            yield
            room = SLICE_PARTITIONS
        room -= 1
        described = _entry(context, image, name, topic, indexes[:room])
        topics.append(described)
        indexes, room = indexes[room:], room - len(indexes)
        while isinstance(topic, TopicImage) and indexes:
            yield
            described.partitions += _partitions(image, topic, indexes[:SLICE_PARTITIONS])
            indexes, room = indexes[SLICE_PARTITIONS:], SLICE_PARTITIONS - len(indexes)
    return topics


def _entry(
    context: RequestContext, image: ClusterImage, name: str, topic: TopicImage | ErrorCode | None, indexes: range
) -> DescribeTopicPartitionsResponseTopic:
    if isinstance(topic, ErrorCode):
        return DescribeTopicPartitionsResponseTopic(error_code=topic, name=name)
    operations = topic_operations(context, name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(
            error_code=absence_error(name), name=name, topic_authorized_operations=operations
        )
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=_partitions(image, topic, indexes),
        topic_authorized_operations=operations,
    )


def _partitions(
    image: ClusterImage, topic: TopicImage, indexes: range
) -> list[DescribeTopicPartitionsResponsePartition]:
    partitions = []
    for index in indexes:
        state = topic.partitions[index]
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=state.leader if state.leader in image.brokers else -1,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr),
                eligible_leader_replicas=list(state.elr),
                last_known_elr=list(state.last_leader),
                offline_replicas=offline_replicas(state, image.brokers),
            )
        )
    return partitions


def refuse(
    request: DescribeTopicPartitionsRequest, version: int, code: ErrorCode, message: str | None
) -> DescribeTopicPartitionsResponse:
    """The same error for every topic."""
    topics = [DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name) for topic in request.topics]
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=None)


API = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, served=(0, 0), handle=handle, error_response=refuse, sliced=True)
