"""Writing record batches: what coordinators append, compaction rewrites and tests send. Control batches: `control`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kwire.codec.compression import compress
from kwire.codec.records.header import (
    CONTROL_FLAG,
    CREATE_TIME,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    pack_header,
    seal,
)
from kwire.codec.records.reader import Record, RecordHeader
from kwire.codec.records.varint import encode_varint

_NULL = encode_varint(-1)
_NO_ATTRIBUTES = b"\x00"


class RecordBatchBuilder:
    """Collects records and makes one batch of them.

    `append` record by record, watch `size`, then `build` once. Offsets run on from `base_offset` unless a record brings
    its own, which must ascend (compaction leaves gaps). Timestamps are in milliseconds. `delete_horizon_ms` takes the
    place of the base timestamp (KIP-534). With timestamp type LOG_APPEND_TIME give `max_timestamp`, the broker's time.
    """

    def __init__(
        self,
        *,
        base_offset: int = 0,
        compression: int = 0,
        compression_level: int | None = None,
        timestamp_type: int = CREATE_TIME,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
        is_transactional: bool = False,
        is_control: bool = False,
        delete_horizon_ms: int | None = None,
        max_timestamp: int | None = None,
        last_offset: int | None = None,
    ) -> None:
        self.count = 0
        self._base_offset = base_offset
        self._last_offset_given = last_offset
        self._next_offset = base_offset
        self._compression = compression
        self._compression_level = compression_level
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._partition_leader_epoch = partition_leader_epoch
        self._attributes = (
            (LOG_APPEND_TIME_FLAG if timestamp_type == LOG_APPEND_TIME else 0)
            | (TRANSACTIONAL_FLAG if is_transactional else 0)
            | (CONTROL_FLAG if is_control else 0)
            | (DELETE_HORIZON_FLAG if delete_horizon_ms is not None else 0)
        )
        self._base_timestamp = delete_horizon_ms
        self._max_timestamp_given = max_timestamp
        self._max_timestamp = NO_TIMESTAMP
        self._parts: list[bytes] = []
        self._body_size = 0

    @property
    def size(self) -> int:
        """Bytes of the batch so far, before compression."""
        return HEADER_SIZE + self._body_size

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader] = (),
        *,
        offset: int = -1,
    ) -> None:
        """Add a record; `offset` -1 is the one after the last. ValueError if it would not ascend."""
        if offset < 0:
            offset = self._next_offset
        elif offset < self._next_offset:
            raise ValueError(f"offset {offset} where {self._next_offset} is the next that can follow")
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        body = encode_record(offset - self._base_offset, timestamp - self._base_timestamp, key, value, headers)
        self._parts.append(body)
        self._body_size += len(body)
        self._next_offset = offset + 1
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self.count += 1

    def build(self) -> bytes:
        """The finished batch with its CRC. One without records is a bare header, never compressed."""
        body, compression = b"".join(self._parts), 0
        if self._compression and self.count:
            compression = self._compression
            body = compress(compression, body, self._compression_level)
        batch = bytearray(pack_header(self._header(compression, len(body))))
        batch += body
        seal(batch, 0, len(batch))
        return bytes(batch)

    def _header(self, compression: int, body_size: int) -> BatchHeader:
        max_timestamp = self._max_timestamp if self._max_timestamp_given is None else self._max_timestamp_given
        last_offset = self._next_offset - 1 if self._last_offset_given is None else self._last_offset_given
        if last_offset < self._next_offset - 1:
            raise ValueError(f"last offset {last_offset} but a record has {self._next_offset - 1}")
        producer_id, producer_epoch, base_sequence = self._producer
        return BatchHeader(
            base_offset=self._base_offset,
            length=HEADER_SIZE - LOG_OVERHEAD + body_size,
            partition_leader_epoch=self._partition_leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=self._attributes | compression,
            last_offset_delta=last_offset - self._base_offset,
            base_timestamp=max_timestamp if self._base_timestamp is None else self._base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            count=self.count,
        )


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: int = 0,
    compression_level: int | None = None,
    timestamp_type: int = CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
    delete_horizon_ms: int | None = None,
    max_timestamp: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """One batch of `records`; the options are those of RecordBatchBuilder. A record whose offset is -1 gets the one
    after its predecessor, any other offset is kept. `last_offset` lets the batch span more than its records do."""
    builder = RecordBatchBuilder(
        base_offset=base_offset,
        compression=compression,
        compression_level=compression_level,
        timestamp_type=timestamp_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        partition_leader_epoch=partition_leader_epoch,
        is_transactional=is_transactional,
        is_control=is_control,
        delete_horizon_ms=delete_horizon_ms,
        max_timestamp=max_timestamp,
        last_offset=last_offset,
    )
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers, offset=record.offset)
    return builder.build()


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader]
) -> bytes:
    """One record with its length in front, as it stands in the records section."""
    parts = [_NO_ATTRIBUTES, encode_varint(timestamp_delta), encode_varint(offset_delta)]
    parts.append(_NULL if key is None else encode_varint(len(key)) + key)
    parts.append(_NULL if value is None else encode_varint(len(value)) + value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        name_bytes = name.encode("utf-8", "surrogateescape")
        parts.append(encode_varint(len(name_bytes)) + name_bytes)
        parts.append(_NULL if content is None else encode_varint(len(content)) + content)
    body = b"".join(parts)
    return encode_varint(len(body)) + body
