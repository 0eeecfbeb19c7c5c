"""The fast path of Produce for its ordinary request, in every version: one batch for one partition, no transaction.

Such a request is read at fixed positions and its response is packed without a message object, at half the cost of the
general way for a small request. There is one function for each form of the request: by topic id (from version 13 on),
by name in compact fields (9 to 12), by name in fields of fixed width (3 to 8). Any other request goes to
`produce.handler`; responses to requests that fail or wait come from `produce.answers`.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable
from functools import partial as later
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final

from kwire.base.errors import KafkaError, as_value
from kwire.base.futures import NowOrLater
from kwire.codec.messages.produce_request import PartitionProduceData
from kwire.codec.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kwire.handlers.data.produce.answers import add_current_leaders, failure, respond_when_committed
from kwire.handlers.data.produce.recompression import LARGE_BYTES
from kwire.log.common.append_info import AppendInfo
from kwire.security.acls.operations import AclOperation, ResourceType

if TYPE_CHECKING:
    from kwire.cluster.replication.partition import Partition
    from kwire.handlers.api import FastPath
    from kwire.handlers.context import Decisions, RequestContext, Services

FIRST_COMPACT: Final = 9
FIRST_BY_ID: Final = 13
_FIRST_WITH_LOG_START: Final = 5
_FIRST_WITH_ZSTD: Final = 7
_FIRST_WITH_RECORD_ERRORS: Final = 8

_read_by_id = Struct(">BhiB16sBi").unpack_from  # no transactional id, acks, timeout, topics, topic, partitions, index
_read_by_name = Struct(">BhiBB").unpack_from  # the same up to the name's length
_read_index = Struct(">Bi").unpack_from
_BY_ID_SIZE: Final = 29
_BY_NAME_SIZE: Final = 9
_read_wide = Struct(">hhiih").unpack_from  # no transactional id, acks, timeout, topics, the name's length
_read_wide_index = Struct(">iii").unpack_from  # partitions, index, size of the records
_WIDE_SIZE: Final = 14
_WIDE_INDEX_SIZE: Final = 12

_ALL: Final = -1
_ONE: Final = 2
"""A compact array of one element."""

_HEADER_SIZE: Final = 61
_ATTRIBUTES: Final = 22
_COMPRESSION_MASK: Final = 7
_ZSTD: Final = 4
_NOT_ORDINARY: Final = 0x30
"""Transactional or control batches."""

# Size, correlation id, no tags, topics, topic, partitions, index, no error, base offset, append time, log start,
# no record errors; then, all zero: message, tags, tags of the topic, throttle time, tags. An x is a zero byte.
_pack_by_id = Struct(">iixB16sBi2xqqqB8x").pack
_RESPONSE_SIZE_BY_ID: Final = Struct(">ixB16sBi2xqqqB8x").size
_pack_head = Struct(">iixBB").pack
_pack_tail = Struct(">Bi2xqqqB8x").pack
_RESPONSE_SIZE_WITHOUT_NAME: Final = Struct(">ixBBBi2xqqqB8x").size

# The same in fields of fixed width, up to the name's length, and from the partitions on. Before the throttle time:
# no record errors and no message (version 8), the log start offset (5 to 8).
_pack_wide_head = Struct(">iiih").pack
_WIDE_HEAD_SIZE: Final = Struct(">iih").size
_WIDE_TAILS: Final = {
    **dict.fromkeys((3, 4), Struct(">ii2xqq4x")),
    **dict.fromkeys((5, 6, 7), Struct(">ii2xqqq4x")),
    8: Struct(">ii2xqqqih4x"),
}

_new: Final = object.__new__
_WRITE: Final = AclOperation.WRITE
_TOPIC: Final = ResourceType.TOPIC

Result = bytes | Callable[["RequestContext"], NowOrLater[ProduceResponse]]
"""The whole frame of the response; or, if the append failed or has to wait, a function of the request's context that
returns what a handler would."""


class Append:
    """An ordinary request: the batch that it appends, and what its response needs. Nothing is done before `run`, or
    `respond` with what `together` has returned. ``rest``: acks, timeout, version, correlation id, the topic's name
    (empty if it was named by its id) and id. ``source`` is for who puts the append off."""

    __slots__ = ("partition", "records", "rest", "source")

    partition: Partition  # set by `_append_to`: a constructor would cost more than all that it does
    records: memoryview
    rest: tuple[int, int, int, int, bytes, bytes]
    source: Any

    @property
    def correlation_id(self) -> int:
        """The request's."""
        return self.rest[3]

    def run(self) -> Result:
        """Append the batch by itself, and respond."""
        info: AppendInfo | Exception
        try:
            info = self.partition.append(self.records, required_acks=self.rest[0])
        except Exception as error:
            info = as_value(error)
        return self.respond(info)

    def respond(self, info: AppendInfo | Exception) -> Result:
        """The response to an append with this outcome."""
        partition = self.partition
        acks, timeout_ms, version, correlation_id, name, topic_id = self.rest
        partition.metrics.total_produce_requests += 1
        if isinstance(info, Exception):
            return later(_failed, partition, self.records, info, name, topic_id)
        if info.flushed is not None or (acks == _ALL and info.last_offset >= partition.log.high_watermark):
            committed = partition.wait_committed(info.last_offset) if acks == _ALL else None
            pending = [future for future in (committed, info.flushed) if future is not None]
            part = PartitionProduceResponse(
                index=partition.index,
                base_offset=info.first_offset,
                log_append_time_ms=info.log_append_time_ms,
                log_start_offset=info.log_start_offset,
            )
            return later(_respond_later, part, pending, timeout_ms, name, topic_id)
        if name:
            return _response_by_name(version, correlation_id, name, partition.index, info)
        return _pack_by_id(
            _RESPONSE_SIZE_BY_ID,
            correlation_id,
            _ONE,
            topic_id,
            _ONE,
            partition.index,
            info.first_offset,
            info.log_append_time_ms,
            info.log_start_offset,
            1,
        )


def together(appends: list[Append]) -> list[Result]:
    """Append the batches of several requests, those to one partition with one write, and respond to each. The order of
    the requests is that of their batches. All of a write fail with it."""
    first = appends[0].partition
    for each in appends:
        if each.partition is not first:
            break
    else:
        return _to_one_partition(first, appends)
    by_partition: dict[Partition, list[Append]] = {}
    for each in appends:
        by_partition.setdefault(each.partition, []).append(each)
    results: dict[Append, Result] = {}
    for partition, group in by_partition.items():
        results.update(zip(group, _to_one_partition(partition, group), strict=True))
    return [results[each] for each in appends]


def _to_one_partition(partition: Partition, group: list[Append]) -> list[Result]:
    if len(group) == 1 or not partition.appends_freely:
        return [each.run() for each in group]
    infos = partition.append_together([each.records for each in group])
    return [each.respond(info) for each, info in zip(group, infos, strict=True)]


def of_version(version: int) -> FastPath:
    """The function for requests of a version. It returns the append that an ordinary request wants; or None if the
    request is not an ordinary one, or it has not been decided yet that the client may write to the topic."""
    if version >= FIRST_BY_ID:
        return by_id
    return by_name if version >= FIRST_COMPACT else by_wide_name


def by_id(
    frame: memoryview, position: int, version: int, correlation_id: int, services: Services, decisions: Decisions
) -> Append | None:
    """The append of a request of version 13 or later; see `of_version`."""
    try:
        no_id, acks, timeout_ms, topics, topic_id, partitions, index = _read_by_id(frame, position)
        records = _compact_records(frame, position + _BY_ID_SIZE)
    except (struct_error, IndexError):
        return None
    if no_id or topics != _ONE or partitions != _ONE or acks not in (1, -1) or records is None:
        return None
    try:
        partition = services.replicas.partition_by_id(topic_id, index)
    except KafkaError:
        return None
    rest = acks, timeout_ms, version, correlation_id, b"", topic_id
    return _append_to(partition, records, rest, services, decisions)


def by_name(
    frame: memoryview, position: int, version: int, correlation_id: int, services: Services, decisions: Decisions
) -> Append | None:
    """The append of a request of version 9 to 12; see `of_version`."""
    try:
        no_id, acks, timeout_ms, topics, length = _read_by_name(frame, position)
        start = position + _BY_NAME_SIZE + length - 1
        name = bytes(frame[position + _BY_NAME_SIZE : start])
        partitions, index = _read_index(frame, start)
        records = _compact_records(frame, start + 5)
    except (struct_error, IndexError):
        return None
    if no_id or topics != _ONE or partitions != _ONE or acks not in (1, -1) or not 1 < length < 128 or records is None:
        return None
    partition = _named(name, index, services)
    if partition is None:
        return None
    rest = acks, timeout_ms, version, correlation_id, name, b""
    return _append_to(partition, records, rest, services, decisions)


def by_wide_name(
    frame: memoryview, position: int, version: int, correlation_id: int, services: Services, decisions: Decisions
) -> Append | None:
    """The append of a request of version 3 to 8; see `of_version`."""
    try:
        no_id, acks, timeout_ms, topics, length = _read_wide(frame, position)
        start = position + _WIDE_SIZE + length
        name = bytes(frame[position + _WIDE_SIZE : start])
        partitions, index, size = _read_wide_index(frame, start)
        records = frame[start + _WIDE_INDEX_SIZE :]
        attributes = records[_ATTRIBUTES]
    except (struct_error, IndexError):
        return None
    if (
        no_id != -1
        or topics != 1
        or partitions != 1
        or acks not in (1, -1)
        or length < 1
        or size != len(records)  # nothing behind them
        or size < _HEADER_SIZE
        or attributes & _NOT_ORDINARY
        or (version < _FIRST_WITH_ZSTD and attributes & _COMPRESSION_MASK == _ZSTD)
    ):
        return None
    partition = _named(name, index, services)
    if partition is None:
        return None
    rest = acks, timeout_ms, version, correlation_id, name, b""
    return _append_to(partition, records, rest, services, decisions)


def _response_by_name(version: int, correlation_id: int, name: bytes, index: int, info: AppendInfo) -> bytes:
    """The frame of a response of version 3 to 12."""
    length = len(name)
    fields = index, info.first_offset, info.log_append_time_ms, info.log_start_offset
    if version >= FIRST_COMPACT:
        head = _pack_head(_RESPONSE_SIZE_WITHOUT_NAME + length, correlation_id, _ONE, length + 1)
        return head + name + _pack_tail(_ONE, *fields, 1)
    tail = _WIDE_TAILS[version]
    head = _pack_wide_head(_WIDE_HEAD_SIZE + length + tail.size, correlation_id, 1, length)
    if version < _FIRST_WITH_LOG_START:
        return head + name + tail.pack(1, *fields[:3])
    if version < _FIRST_WITH_RECORD_ERRORS:
        return head + name + tail.pack(1, *fields)
    return head + name + tail.pack(1, *fields, 0, -1)


def _compact_records(frame: memoryview, start: int) -> memoryview | None:
    """The records whose size is at a position, if they are the last thing in the request and an ordinary batch.
    IndexError."""
    size = frame[start]
    start += 1
    if size >= 128:
        following = frame[start]
        if following < 128:  # inline: a request of one record has two bytes
            size += (following - 1) * 128
            start += 1
        else:
            size, start = _long_varint(frame, start - 1)
    end = start + size - 1
    records = frame[start:end]
    if (
        size <= _HEADER_SIZE
        or frame[end:].tobytes() != b"\0\0\0"  # no tags, and nothing behind them
        or records[_ATTRIBUTES] & _NOT_ORDINARY
    ):
        return None
    return records


def _named(name: bytes, index: int, services: Services) -> Partition | None:
    """The partition of a topic with this name, if this broker has it."""
    try:
        return services.replicas.partition(str(name, "utf-8"), index)
    except (KafkaError, UnicodeDecodeError):
        return None


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


def _append_to(
    partition: Partition,
    records: memoryview,
    rest: tuple[int, int, int, int, bytes, bytes],
    services: Services,
    decisions: Decisions,
) -> Append | None:
    """The append; None unless it has been decided that the client may append to the partition, and the batch need not
    be compressed anew by a helper process."""
    authorizer = services.authorizer
    if (
        partition.internal
        or not (authorizer.allows_all or authorizer.has_allowed(decisions, (_WRITE, _TOPIC, partition.topic)))
        or (len(records) > LARGE_BYTES and partition.log.recompression(records) is not None)
    ):
        return None
    append = _new(Append)
    append.partition = partition
    append.records = records
    append.rest = rest
    return append


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
