"""The fast path of Produce for its ordinary request: one batch for one partition, no transaction, versions 9 to 13.

Such a request is read at fixed positions and its response is packed without a message object, at half the cost of the
general way for a small request. Any other request goes to `produce.handler`; responses to requests that fail or wait
come from `produce.answers`.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable
from functools import partial as later
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Final

from kwire.base.errors import KafkaError
from kwire.base.futures import NowOrLater
from kwire.codec.messages.produce_request import PartitionProduceData
from kwire.codec.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kwire.handlers.data.produce.answers import add_current_leaders, failure, respond_when_committed
from kwire.security.acls.operations import AclOperation, ResourceType

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition
    from kwire.handlers.context import Decisions, RequestContext, Services

FIRST_BY_NAME: Final = 9
FIRST_BY_ID: Final = 13

_read_by_id = Struct(">BhiB16sBi").unpack_from  # no transactional id, acks, timeout, topics, topic, partitions, index
_read_by_name = Struct(">BhiBB").unpack_from  # the same up to the name's length
_read_index = Struct(">Bi").unpack_from
_BY_ID_SIZE: Final = 29
_BY_NAME_SIZE: Final = 9

_ALL: Final = -1
_ONE: Final = 2
"""A compact array of one element."""

_HEADER_SIZE: Final = 61
_ATTRIBUTES: Final = 22
_NOT_ORDINARY: Final = 0x30
"""Transactional or control batches."""

# Size, correlation id, no tags, topics, topic, partitions, index, no error, base offset, append time, log start,
# no record errors; then, all zero: message, tags, tags of the topic, throttle time, tags. An x is a zero byte.
_pack_by_id = Struct(">iixB16sBi2xqqqB8x").pack
_RESPONSE_SIZE_BY_ID: Final = Struct(">ixB16sBi2xqqqB8x").size
_pack_head = Struct(">iixBB").pack
_pack_tail = Struct(">Bi2xqqqB8x").pack
_RESPONSE_SIZE_WITHOUT_NAME: Final = Struct(">ixBBBi2xqqqB8x").size

_WRITE: Final = AclOperation.WRITE
_TOPIC: Final = ResourceType.TOPIC

FastResponse = bytes | Callable[["RequestContext"], NowOrLater[ProduceResponse]] | None
"""What `respond` returns."""


def respond(
    frame: memoryview, position: int, version: int, correlation_id: int, services: Services, decisions: Decisions
) -> FastResponse:
    """Append the batch of a request whose body begins at ``position``. Returns the whole frame of the response; or, if
    the append failed or has to wait, a function of the request's context that returns what a handler would; or None,
    with nothing done, if the request is not an ordinary one, or it has not been decided yet that the client may write
    to the topic."""
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
    if partition.internal:
        return None
    authorizer = services.authorizer
    if not authorizer.allows_all and not authorizer.has_allowed(decisions, (_WRITE, _TOPIC, partition.topic)):
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
    partition: Partition,
    records: memoryview,
    acks: int,
    timeout_ms: int,
    correlation_id: int,
    name: bytes,
    topic_id: bytes,
    services: Services,
) -> FastResponse:
    metrics = partition.metrics
    metrics.total_produce_requests += 1
    try:
        info = partition.append(records, required_acks=acks)
        committed = partition.wait_committed(info.last_offset) if acks == _ALL else None
    except Exception as error:
        return later(_failed, partition, records, error, name, topic_id)
    index, first = partition.index, info.first_offset
    append_time_ms, log_start = info.log_append_time_ms, info.log_start_offset
    pending = [future for future in (committed, info.flushed) if future is not None]
    if pending:
        part = PartitionProduceResponse(
            index=index, base_offset=first, log_append_time_ms=append_time_ms, log_start_offset=log_start
        )
        return later(_respond_later, part, pending, timeout_ms, name, topic_id)
    if not name:
        size = _RESPONSE_SIZE_BY_ID
        return _pack_by_id(size, correlation_id, _ONE, topic_id, _ONE, index, first, append_time_ms, log_start, 1)
    size = _RESPONSE_SIZE_WITHOUT_NAME + len(name)
    head = _pack_head(size, correlation_id, _ONE, len(name) + 1)
    tail = _pack_tail(_ONE, index, first, append_time_ms, log_start, 1)
    return b"".join((head, name, tail))


def _failed(
    partition: Partition, records: memoryview, error: Exception, name: bytes, topic_id: bytes, context: RequestContext
) -> ProduceResponse:
    data = PartitionProduceData(index=partition.index, records=records)
    response = _response(name, topic_id, failure(data, partition, error, context.services))
    add_current_leaders(response, context)
    return response


def _respond_later(
    part: PartitionProduceResponse,
    pending: list[Future[None]],
    timeout_ms: int,
    name: bytes,
    topic_id: bytes,
    context: RequestContext,
) -> Awaitable[ProduceResponse]:
    response = _response(name, topic_id, part)
    return respond_when_committed(response, [(each, part) for each in pending], timeout_ms, context)


def _response(name: bytes, topic_id: bytes, part: PartitionProduceResponse) -> ProduceResponse:
    topic = TopicProduceResponse(name=str(name, "utf-8"), partition_responses=[part])
    if topic_id:
        topic.topic_id = topic_id
    return ProduceResponse(responses=[topic])
