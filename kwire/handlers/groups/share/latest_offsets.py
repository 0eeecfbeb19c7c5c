"""The ends of partitions, wherever their leaders are: for the lag of share groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kwire.base.errors import ErrorCode, KafkaError, as_value
from kwire.base.topic_partition import TopicPartition
from kwire.cluster.replication.peers import PeerUnavailable
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from kwire.handlers.context import Services

LATEST: Final = -1
VERSION: Final = 7
"""The version of ListOffsets that is sent."""
TIMEOUT_S: Final = 30.0


async def latest_offsets(
    services: Services, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | KafkaError]:
    """The high watermark of each partition, or why it is not known."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for each in partitions:
        state = services.image.partition(*each)
        by_leader.setdefault(-1 if state is None else state.leader, []).append(each)
    found: dict[TopicPartition, int | KafkaError] = {}
    for part in await asyncio.gather(*(_ask(services, leader, asked) for leader, asked in by_leader.items())):
        found |= part
    return found


async def _ask(services: Services, leader: int, asked: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
    try:
        if leader == services.broker_id:
            return {each: _own(services, each) for each in asked}
        if leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        response = await services.peers.call(leader, _request(asked), VERSION, timeout_s=TIMEOUT_S)
    except PeerUnavailable as error:
        return dict.fromkeys(asked, KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)))
    except KafkaError as error:
        return dict.fromkeys(asked, as_value(error))
    found: dict[TopicPartition, int | KafkaError] = dict.fromkeys(asked, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
    for topic in response.topics:
        for each in topic.partitions:
            error_code = ErrorCode(each.error_code)
            found[topic.name, each.partition_index] = KafkaError(error_code) if error_code else each.offset
    return found


def _own(services: Services, partition: TopicPartition) -> int | KafkaError:
    try:
        return services.replicas.partition(*partition).high_watermark
    except KafkaError as error:
        return error


def _request(asked: list[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for name, index in asked:
        topics.setdefault(name, []).append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=found) for name, found in topics.items()]
    )
