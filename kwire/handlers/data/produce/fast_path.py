"""Produce as nearly every request of it is: one batch for one partition, no transaction, versions 9 to 13.

Such a request is read and answered at fixed positions, without a message object: a small request costs half of what it
costs by the ordinary way. Whatever is not of this kind is left to `produce`, untouched; failures are told by it, too.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable
from functools import partial as later
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Final

from kwire.base.errors import KafkaError
from kwire.codec.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition
    from kwire.handlers.context import RequestContext, Services

FIRST_BY_NAME: Final = 9
FIRST_BY_ID: Final = 13

_read_by_id = Struct(">BhiB16sBi").unpack_from  # no transactional id, acks, timeout, topics, topic, partitions, index
_read_by_name = Struct(">BhiBB").unpack_from  # the same up to the name's length
_read_index = Struct(">Bi").unpack_from
_BY_ID_SIZE: Final = 29
_BY_NAME_SIZE: Final = 9

_ALL: Final = -1
_ONE: Final = 2
"""A compact array of one."""

_HEADER_SIZE: Final = 61
_ATTRIBUTES: Final = 22
_NOT_ORDINARY: Final = 0x30
"""Transactional or control batches."""

# size, correlation id, no tags, topics, topic, partitions, index, no error, base offset, append time, log start,
# no record errors, no message, no tags, no tags of the topic, throttle time, no tags
_answer_by_id = Struct(">iiBB16sBihqqqBBBBiB").pack
_BY_ID_ANSWER_SIZE: Final = Struct(">iBB16sBihqqqBBBBiB").size
_answer_head = Struct(">iiBBB").pack
_answer_tail = Struct(">BihqqqBBBBiB").pack
_ANSWER_SIZE_BUT_NAME: Final = Struct(">iBBBBihqqqBBBBiB").size

Answer = bytes | Callable[["RequestContext"], ProduceResponse | Awaitable[ProduceResponse]] | None


def answer(frame: memoryview, position: int, version: int, correlation_id: int, services: Services) -> Answer:
    """The answer's whole frame; or what makes, of the request's context, a response or the promise of one as from a
    handler; or None, nothing done: the request, whose body begins at ``position``, is not of this kind."""
    name = b""
    try:
        if version >= FIRST_BY_ID:
            no_id, acks, timeout_ms, topics, topic_id, partitions, index = _read_by_id(frame, position)
            start = position + _BY_ID_SIZE
        else:
            no_id, acks, timeout_ms, topics, length = _read_by_name(frame, position)
            start = position + _BY_NAME_SIZE + length - 1
            name = bytes(frame[position + _BY_NAME_SIZE : start])
            partitions, index = _read_index(frame, start)
            start += 5
            if not 1 < length < 128:
                return None
        size = frame[start]
        start += 1
        if size >= 128:
            size, start = _long_varint(frame, start - 1)
    except (struct_error, IndexError):
        return None
    records = frame[start : start + size - 1]
    if (
        no_id
        or topics != _ONE
        or partitions != _ONE
        or acks not in (1, -1)
        or size <= _HEADER_SIZE
        or bytes(frame[start + size - 1 :]) != b"\0\0\0"  # no tags, and nothing behind them
        or records[_ATTRIBUTES] & _NOT_ORDINARY
        or not services.authorizer.allows_all
    ):
        return None
    try:
        if name:
            topic_id = b""
            partition = services.replicas.partition(str(name, "utf-8"), index)
        else:
            partition = services.replicas.partition_by_id(topic_id, index)
    except (KafkaError, UnicodeDecodeError):
        return None
    return _append(partition, records, acks, timeout_ms, correlation_id, name, topic_id, services)


def _long_varint(frame: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of two to five bytes and the position behind it. IndexError."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = frame[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise IndexError


def _append(
    partition: Partition, records: memoryview, acks: int, timeout_ms: int, correlation_id: int, name: bytes,
    topic_id: bytes, services: Services,
) -> Answer:  # fmt: skip
    metrics = partition.metrics
    metrics.total_produce_requests += 1
    try:
        info = partition.append(records, required_acks=acks)
        committed = partition.wait_committed(info.last_offset) if acks == _ALL else None
    except Exception as error:
        return later(_failed, partition, records, error, name, topic_id)
    index, first, append_time_ms, log_start = (
        partition.index, info.first_offset, info.log_append_time_ms, info.log_start_offset,
    )  # fmt: skip
    pending = [future for future in (committed, info.flushed) if future is not None]
    if pending:
        part = PartitionProduceResponse(
            index=index, base_offset=first, log_append_time_ms=append_time_ms, log_start_offset=log_start
        )
        return later(_answer_later, part, pending, timeout_ms, name, topic_id)
    if not name:
        return _answer_by_id(
            _BY_ID_ANSWER_SIZE, correlation_id, 0, _ONE, topic_id, _ONE, index, 0, first, append_time_ms, log_start,
            1, 0, 0, 0, 0, 0,
        )  # fmt: skip
    size = _ANSWER_SIZE_BUT_NAME + len(name)
    head = _answer_head(size, correlation_id, 0, _ONE, len(name) + 1)
    tail = _answer_tail(_ONE, index, 0, first, append_time_ms, log_start, 1, 0, 0, 0, 0, 0)
    return b"".join((head, name, tail))


def _failed(
    partition: Partition, records: memoryview, error: Exception, name: bytes, topic_id: bytes, context: RequestContext
) -> ProduceResponse:
    from kwire.codec.messages.produce_request import PartitionProduceData
    from kwire.handlers.data.produce.handler import failure, tell_leaders

    data = PartitionProduceData(index=partition.index, records=records)
    response = _response(name, topic_id, failure(data, partition, error, context.services))
    tell_leaders(response, context)
    return response


def _answer_later(
    part: PartitionProduceResponse,
    pending: list[Future[None]],
    timeout_ms: int,
    name: bytes,
    topic_id: bytes,
    context: RequestContext,
) -> Awaitable[ProduceResponse]:
    from kwire.handlers.data.produce.handler import answer_when_committed

    response = _response(name, topic_id, part)
    return answer_when_committed(response, [(each, part) for each in pending], timeout_ms, context)


def _response(name: bytes, topic_id: bytes, part: PartitionProduceResponse) -> ProduceResponse:
    topic = TopicProduceResponse(name=str(name, "utf-8"), partition_responses=[part])
    if topic_id:
        topic.topic_id = topic_id
    return ProduceResponse(responses=[topic])
