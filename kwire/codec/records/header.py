"""The 61 bytes in front of every record batch: reading, checking and patching them without touching the payload.

A batch of magic 2 (KIP-98) is laid out, big-endian, as

    base_offset:8 length:4 partition_leader_epoch:4 magic:1 crc:4 | attributes:2 last_offset_delta:4 base_timestamp:8
    max_timestamp:8 producer_id:8 producer_epoch:2 base_sequence:4 count:4 records...

`length` counts what follows it, so a batch takes 12 + length bytes. The CRC-32C covers everything right of the bar:
base offset and leader epoch can be set by the broker without another checksum, the timestamps cannot.

Message sets of magic 0 and 1 have no such header and raise `UnsupportedMagic`. What a batch holds is read in `reader`
and written in `builder`, never here.

Error codes of Apache Kafka 4.3.1 in Produce responses (v3 to v13), observed:

- INVALID_RECORD: magic 0 or 1; no batch, or a whole second one; a batch cut off; base offset not 0; count 0 or less,
  or not last offset delta + 1; a producer id without a sequence; a control batch; records that do not fill their batch
  or whose offsets leave a gap.
- CORRUPT_MESSAGE: any other magic, a length that no batch can have, a wrong CRC.
- UNKNOWN_SERVER_ERROR: compression 5 to 7, and data that its own compression cannot read.
- UNSUPPORTED_COMPRESSION_TYPE: zstd before v7.
- Accepted: up to 16 bytes after the batch (not stored), unused attribute bits, any partition leader epoch, a maximal
  timestamp that is none of the records', timestamp type LogAppendTime.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, TypeAlias

from kwire.codec.crc import crc32c
from kwire.codec.errors import CorruptBatch

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC = 2
LOG_OVERHEAD = 12  # base offset and length: what the length does not count
HEADER_SIZE = 61
CRC_START = 21  # first byte under the CRC: the attributes
MAGIC_POSITION = 16

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

CREATE_TIME = 0
LOG_APPEND_TIME = 1

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_PARTITION_LEADER_EPOCH = -1
MAX_SEQUENCE = 0x7FFFFFFF  # sequences count on from 0 after it

_HEADER = Struct(">qiibIhiqqqhii")
_INT64 = Struct(">q")
_EPOCH = Struct(">i")
pack_offsets_into = Struct(">qii").pack_into
"""`patch_offsets` in one call, of a buffer, a position, the base offset, the length that the header has, and the leader
epoch."""
_LENGTH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")

_OLD_LENGTH_MIN = 14  # of a message of magic 0: zeros are no message set
_EPOCH_POSITION = 12
_CRC_POSITION = 17
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35

_unpack_header = _HEADER.unpack_from
_new_tuple = tuple.__new__


class UnsupportedMagic(CorruptBatch):
    """A message set of magic 0 or 1: well known, and rejected (INVALID_RECORD to a producer)."""


class InvalidRecords(CorruptBatch):
    """An intact batch whose fields or records contradict each other (INVALID_RECORD to a producer)."""


class BatchHeader(NamedTuple):
    """The header fields of one batch, in the order of the bytes. Timestamps in milliseconds since the epoch."""

    base_offset: int
    length: int  # bytes after this field
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int  # of the first record, or the delete horizon
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # records in the batch; hides tuple.count, which is not used

    @property
    def size(self) -> int:
        """Bytes the whole batch takes."""
        return LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd (`kwire.codec.compression`); 5 to 7 do not exist."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        """CREATE_TIME (0) or LOG_APPEND_TIME (1)."""
        return LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction (KIP-98)."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch has control records: transaction markers."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        """Whether the producer is idempotent or transactional."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; NO_SEQUENCE when the producer is not idempotent."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return sequence_after(self.base_sequence, self.last_offset_delta)

    def continues(self, before: BatchHeader) -> bool:
        """Whether an idempotent producer's batch directly follows another one that it has sent, neither in a
        transaction."""
        return (
            self.base_sequence == sequence_after(before.last_sequence, 1)
            and self.producer_epoch == before.producer_epoch
            and self.producer_id == before.producer_id
            and not (self.attributes | before.attributes) & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
        )

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop this batch's tombstones and markers (KIP-534); None before it is set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


def sequence_after(sequence: int, increment: int) -> int:
    """Sequences are int32 and wrap from 2^31 - 1 to 0."""
    return (sequence + increment) & MAX_SEQUENCE


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. The payload may be missing: only 61 bytes are read.

    Raises CorruptBatch when they cannot be a header, UnsupportedMagic when they start an old message set."""
    if position < 0 or len(buffer) - position < HEADER_SIZE:
        raise _short_header(buffer, position)
    header: BatchHeader = _new_tuple(BatchHeader, _unpack_header(buffer, position))
    if header[3] != MAGIC or header[1] < HEADER_SIZE - LOG_OVERHEAD:
        raise _refusal(header[3], header[1])
    return header


def read_header(buffer: Buffer) -> BatchHeader:
    """The fields of the first 61 bytes, which must be there, without validation."""
    header: BatchHeader = _new_tuple(BatchHeader, _unpack_header(buffer))
    return header


def _short_header(buffer: Buffer, position: int) -> CorruptBatch:
    # An old message set may be shorter than the new header, and has its own error all the same.
    if position >= 0 and position + MAGIC_POSITION < len(buffer) and buffer[position + MAGIC_POSITION] in (0, 1):
        return _refusal(buffer[position + MAGIC_POSITION], _LENGTH.unpack_from(buffer, position + 8)[0])
    return CorruptBatch(f"{max(len(buffer) - position, 0)} bytes are too few for a batch header of {HEADER_SIZE}")


def _refusal(magic: int, length: int) -> CorruptBatch:
    if magic in (0, 1) and length >= _OLD_LENGTH_MIN:
        return UnsupportedMagic(f"message sets of magic {magic} are not taken, only batches of magic {MAGIC}")
    if magic != MAGIC:
        return CorruptBatch(f"magic {magic} is no record batch format")
    return CorruptBatch(f"batch length {length} is less than its own header")


def iter_headers(buffer: Buffer, *, allow_partial: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch of `buffer`, in order; every batch lies wholly inside it.

    A last batch that is cut off raises CorruptBatch, or ends the iteration with `allow_partial` (the end of a fetched
    range). A damaged header raises CorruptBatch in both cases."""
    position, end = 0, len(buffer)
    while position < end:
        if allow_partial and end - position < HEADER_SIZE:
            return
        header = parse_header(buffer, position)
        following = position + LOG_OVERHEAD + header.length
        if following > end:
            if allow_partial:
                return
            raise CorruptBatch(f"a batch of {following - position} bytes in a buffer that has {end - position} left")
        yield position, header
        position = following


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the stored CRC-32C is that of the batch at `position`, which lies wholly in the buffer (else False)."""
    end = position + LOG_OVERHEAD + header.length
    if end > len(buffer):
        return False
    return crc32c(memoryview(buffer)[position + CRC_START : end]) == header.crc


def patch_offsets(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and partition leader epoch in place; both lie outside the CRC."""
    _INT64.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + _EPOCH_POSITION, leader_epoch)


def patch_timestamps(
    buffer: bytearray | memoryview, position: int, *, max_timestamp: int, timestamp_type: int = CREATE_TIME
) -> None:
    """Set the maximal timestamp and the timestamp type in place, and the CRC that covers them."""
    header = parse_header(buffer, position)
    attributes = header.attributes & ~LOG_APPEND_TIME_FLAG
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_FLAG
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_POSITION, attributes)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, max_timestamp)
    seal(buffer, position, header.size)


def with_log_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Give every record of the batch the broker's time, in place (message.timestamp.type=LogAppendTime). The records
    keep their deltas: readers take the maximal timestamp for all of them."""
    patch_timestamps(buffer, position, max_timestamp=timestamp_ms, timestamp_type=LOG_APPEND_TIME)


def seal(buffer: bytearray | memoryview, position: int, size: int) -> None:
    """Compute and store the CRC of the batch of `size` bytes at `position`."""
    crc = crc32c(memoryview(buffer)[position + CRC_START : position + size])
    _CRC.pack_into(buffer, position + _CRC_POSITION, crc)


def pack_header(header: BatchHeader) -> bytes:
    """The 61 bytes of `header`, its CRC field as it is."""
    return _HEADER.pack(*header)


def validate_batch_structure(header: BatchHeader) -> None:
    """What a broker checks of a client's batch by its header alone; raises InvalidRecords.

    The count must be positive and equal to the span of offsets, an idempotent producer must give a sequence, and the
    compression must exist. Control batches are checked by the caller, since brokers may write them."""
    if header.last_offset_delta < 0 or header.count <= 0:
        raise InvalidRecords(f"{header.count} records with a last offset delta of {header.last_offset_delta}")
    if header.count != header.last_offset_delta + 1:
        raise InvalidRecords(f"{header.count} records cannot span {header.last_offset_delta + 1} offsets")
    if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
        raise InvalidRecords(f"producer id {header.producer_id} with base sequence {header.base_sequence}")
    if header.attributes & COMPRESSION_MASK > 4:
        raise InvalidRecords(f"compression type {header.compression} does not exist")
