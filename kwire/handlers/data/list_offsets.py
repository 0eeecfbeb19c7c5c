"""ListOffsets (API key 2): find offsets by time, or the ends of a partition's log.

Behaviour: ``timestamp`` is a time in milliseconds, for the first record at or after it (offset -1 if there is none), or
one of the special values below. With ``read_committed``, the log ends at the last stable offset, with
``read_uncommitted`` at the high watermark. A partition named twice: INVALID_REQUEST. A special value that the version
does not know: UNSUPPORTED_VERSION. ``current_leader_epoch`` is checked as in Fetch (KIP-320). A new leader whose high
watermark may still lag responds OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE before version 5). The replica id -2 is for
debugging: any replica responds, with offsets up to the end of its own log. A look-up by time in data that is not in the
page cache waits until a thread has read it (`data.cold_look_ups`). Very many partitions are looked up in slices.

Versions: 1 one offset each; 2 isolation level (KIP-98); 4 leader epochs (KIP-320); 5 OFFSET_NOT_AVAILABLE; 6 flexible;
7 the record with the greatest timestamp (KIP-734); 8 earliest local offset (KIP-405); 9 last tiered offset (KIP-1005);
10 ``timeout_ms`` for remote storage (KIP-1075: no effect here); 11 earliest offset not yet uploaded (KIP-1023).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import NowOrLater, resolved, then
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api, error_of
from kwire.handlers.authorization import is_topic_allowed
from kwire.handlers.context import RequestContext
from kwire.handlers.data.cold_look_ups import ColdLookUp
from kwire.handlers.partitions import find_partition
from kwire.handlers.slices import SLICE_PARTITIONS, encode_in_slices, in_slices
from kwire.log.common.append_info import TimestampAndOffset
from kwire.security.acls.operations import AclOperation

if TYPE_CHECKING:
    from kwire.base.topic_partition import TopicPartition
    from kwire.cluster.replication.partition import Partition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

FIRST_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
READ_COMMITTED: Final = 1
_CONSUMER: Final = -1
_DEBUGGER: Final = -2
_NOT_FOUND: Final = TimestampAndOffset(-1, -1, -1)

_Wanted = tuple[str, ListOffsetsPartition]
"""A partition of the request, with its topic."""


def handle(request: ListOffsetsRequest, context: RequestContext) -> NowOrLater[ListOffsetsResponse]:
    """Look every partition up; each succeeds or fails by itself. Wait only for data that is on the disk."""
    wanted = [(topic.name, each) for topic in request.topics for each in topic.partitions]
    lookup = _LookUp(request, context, _named_twice(wanted))
    if len(wanted) > SLICE_PARTITIONS:
        return _handle_many(lookup, wanted)
    return then(lookup.find(lookup.each_once(wanted)), lookup.response)


async def _handle_many(lookup: _LookUp, wanted: list[_Wanted]) -> ListOffsetsResponse:
    await asyncio.sleep(0)  # the request has just been decoded
    found = await resolved(in_slices(lookup.each_once(wanted), lookup.find, SLICE_PARTITIONS))
    return await encode_in_slices(lookup.context, lookup.response(found))


def _named_twice(wanted: list[_Wanted]) -> Collection[TopicPartition]:
    """The partitions that the request names more than once."""
    names = [(topic, each.partition_index) for topic, each in wanted]
    if len(set(names)) == len(names):
        return ()
    return {name for name, count in Counter(names).items() if count > 1}


class _LookUp(NamedTuple):
    """What is to be looked up. ``twice``: the partitions that are named more than once."""

    request: ListOffsetsRequest
    context: RequestContext
    twice: Collection[TopicPartition]

    def each_once(self, wanted: list[_Wanted]) -> list[_Wanted]:
        """The partitions of the request, each once in its topic."""
        if not self.twice:
            return wanted
        return [(topic.name, each) for topic in self.request.topics for each in _by_index(topic).values()]

    def find(self, wanted: Sequence[_Wanted]) -> NowOrLater[list[ListOffsetsPartitionResponse]]:
        """Look some of the partitions up."""
        cold = _cold_look_ups(wanted, self.context)
        return self._find_when_read(cold, wanted) if cold else self._found(wanted)

    def _found(self, wanted: Sequence[_Wanted]) -> list[ListOffsetsPartitionResponse]:
        twice = self.twice
        return [
            _find_offset(topic, each, (topic, each.partition_index) in twice, self.request, self.context)
            for topic, each in wanted
        ]

    async def _find_when_read(
        self, cold: list[ColdLookUp], wanted: Sequence[_Wanted]
    ) -> list[ListOffsetsPartitionResponse]:
        for each in cold:
            await each.read(self.context.services.doors)
        return self._found(wanted)

    def response(self, found: list[ListOffsetsPartitionResponse]) -> ListOffsetsResponse:
        """The response with what was found, in the order of `each_once`."""
        results = iter(found)
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(name=topic.name, partitions=list(islice(results, self._count(topic))))
                for topic in self.request.topics
            ]
        )

    def _count(self, topic: ListOffsetsTopic) -> int:
        return len(_by_index(topic) if self.twice else topic.partitions)


def _by_index(topic: ListOffsetsTopic) -> dict[int, ListOffsetsPartition]:
    return {each.partition_index: each for each in topic.partitions}


def _cold_look_ups(wanted: Sequence[_Wanted], context: RequestContext) -> list[ColdLookUp]:
    """The look-ups by time for which the disk has to be read, of partitions that the client may describe."""
    found: list[ColdLookUp] = []
    services = context.services
    for topic, requested in wanted:
        timestamp = requested.timestamp
        if timestamp < 0 and timestamp != MAX_TIMESTAMP:
            continue
        partition = services.replicas.get(topic, requested.partition_index)
        if partition is not None and is_topic_allowed(context, AclOperation.DESCRIBE, topic):
            cold = ColdLookUp.of(partition.log, timestamp if timestamp >= 0 else None, services.doors.files)
            if cold is not None:
                found.append(cold)
    return found


def _find_offset(
    topic: str, requested: ListOffsetsPartition, twice: bool, request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsPartitionResponse:
    result = ListOffsetsPartitionResponse(partition_index=requested.partition_index)
    try:
        if twice:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        _check_known(requested.timestamp, context.api_version)
        partition = find_partition(
            context, topic, b"", requested.partition_index, by_id=False, operation=AclOperation.DESCRIBE
        )
        found = _look_up(partition, requested, request) or _NOT_FOUND
        result.timestamp, result.offset = found.timestamp, found.offset
        if context.api_version >= 4:
            result.leader_epoch = found.leader_epoch
    except Exception as error:
        result.error_code, _ = error_of(error)
        if result.error_code == ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < 5:
            result.error_code = ErrorCode.LEADER_NOT_AVAILABLE
        if result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            context.services.log_failure("list_offsets", error)
    return result


def _check_known(timestamp: int, version: int) -> None:
    if timestamp < 0 and FIRST_VERSION.get(timestamp, version + 1) > version:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def _look_up(
    partition: Partition, requested: ListOffsetsPartition, request: ListOffsetsRequest
) -> TimestampAndOffset | None:
    if request.replica_id == _DEBUGGER:
        partition.require_replica(requested.current_leader_epoch)
    else:
        partition.require_leader(requested.current_leader_epoch)
    log = partition.log
    consumer = request.replica_id == _CONSUMER
    if request.isolation_level == READ_COMMITTED and consumer:
        upto = partition.last_stable_offset
    else:
        upto = partition.high_watermark if consumer else log.log_end_offset
    lags = consumer and partition.high_watermark_lags
    if requested.timestamp == LATEST:
        if lags:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return log.latest(upto)
    if requested.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.earliest()
    if requested.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None  # nothing is ever uploaded
    if requested.timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp()
    else:
        found = log.offset_for_timestamp(requested.timestamp, upto=upto)
    if found is None or (consumer and found.offset >= upto):
        if lags:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
        return None
    return found


def refuse(request: ListOffsetsRequest, version: int, code: ErrorCode, message: str | None) -> ListOffsetsResponse:
    """Every partition fails with the same error."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=requested.partition_index, error_code=code)
                    for requested in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = Api(ApiKey.LIST_OFFSETS, served=(1, 11), handle=handle, error_response=refuse, sliced=True)
