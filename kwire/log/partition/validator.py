"""Whether batches may be appended, and in which form. Nothing here touches a file or the log.

`BatchValidator.accept` checks a client's batch by its 61 bytes of header and its checksum. It walks the records only
where the protocol needs it: on a compacted topic (no record without a key), with a lower bound for timestamps, with a
compression other than the producer's, or with `kwire.validate.records=true`. Batches from coordinators and leaders were
checked before; only their headers, sizes and checksums are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.crc import crc32c
from kwire.codec.errors import CodecError
from kwire.codec.records import (
    CREATE_TIME,
    HEADER_SIZE,
    BatchHeader,
    InvalidRecords,
    Record,
    RecordBatchBuilder,
    UnsupportedMagic,
    crc_is_valid,
    iter_records,
    parse_header,
    patch_timestamps,
    validate_batch_structure,
    with_log_append_time,
)
from kwire.codec.records.header import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_START,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    read_header,
)
from kwire.log.common.append_info import NotOneBatch, RecordError, RecordsRefused
from kwire.log.common.log_config import INT64_MAX, LogConfig

MAX_DECOMPRESSED_BYTES = 256 << 20
"""A batch that unpacks to more than this is refused wherever its records must be walked."""

MAX_COMPRESSED_RECORDS = 250_000
"""Records of a compressed batch: some twenty bytes can expand to a million of them, and walking those takes seconds.
A producer that gets MESSAGE_TOO_LARGE splits its batch. Apache Kafka has no such bound."""

Records = bytes | bytearray | memoryview

ATTRIBUTES_LOW = 22
"""Position of the low byte of the attributes in a batch."""

_new_tuple = tuple.__new__  # a NamedTuple without the call of its constructor, for the hot path
_SPECIAL = CONTROL_FLAG | LOG_APPEND_TIME_FLAG
_TIMESTAMPS_REFUSED = "One or more records have been rejected due to invalid timestamp"
_RECORDS_REFUSED = "One or more records have been rejected"


class Accepted(NamedTuple):
    """A client's batch in the form in which it is appended: ``data`` is that batch alone and can be patched in place.

    ``log_append_time_ms`` is the broker's time if the topic stamps it on the records (`message.timestamp.type`), else
    -1.
    """

    header: BatchHeader
    data: bytearray | memoryview
    log_append_time_ms: int


class BatchValidator:
    """Validates what is appended to one log under one configuration: another configuration needs another validator."""

    def __init__(self, config: LogConfig, name: str, clock_ms: Callable[[], int]) -> None:
        self._config = config
        self._name = name
        self._clock_ms = clock_ms
        self._headers_suffice = not _may_need_walk(config)
        self._fast_check_suffices = self._headers_suffice and not config.uses_log_append_time
        self._only_recompresses = (
            config.target_codec is not None
            and not config.uses_log_append_time
            and not _may_need_walk(dataclasses.replace(config, compression_type="producer"))
        )
        self._batch_max = min(config.max_message_bytes, config.max_segment_bytes)
        self._latest_allowed_ms = -INT64_MAX
        """A timestamp that is not too far ahead (`message.timestamp.after.max.ms`), as the clock was seen last."""

    def accept(self, records: Records) -> Accepted:
        """Validate what a Produce request has for a partition, which must be exactly one batch, and convert it to the
        topic's form: in place if ``records`` is writable. KafkaError, with `RecordsRefused` naming single records.

        The fast check accepts a batch that is valid and needs no conversion under ordinary settings; `_accept_slowly`
        decides about all others and words the errors.
        """
        if self._fast_check_suffices and isinstance(records, memoryview) and not records.readonly:
            size = len(records)
            if HEADER_SIZE <= size <= self._batch_max:
                header = read_header(records)
                base_offset, length, _, magic, crc, attributes, delta, _, latest, producer_id, _, sequence, count = (
                    header
                )
                if not (
                    base_offset
                    or length + 12 != size
                    or magic != MAGIC
                    or attributes & _SPECIAL
                    or count != delta + 1
                    or count <= 0
                    or (latest > self._latest_allowed_ms and latest > self._allow_later())
                    or (producer_id >= 0 and sequence < 0)
                    or (attributes & COMPRESSION_MASK and not _is_known_compression(attributes, count))
                    or crc32c(records[CRC_START:]) != crc
                ):
                    return _new_tuple(Accepted, (header, records, -1))
        return self._accept_slowly(records)

    def _allow_later(self) -> int:
        """Look at the clock: the latest timestamp that is allowed now."""
        self._latest_allowed_ms = self._clock_ms() + self._config.message_timestamp_after_max_ms
        return self._latest_allowed_ms

    def recompresses(self, records: Records) -> bool:
        """Whether these settings, and nothing else, require a batch to be walked and compressed anew. Then `accept`,
        which is pure, may run on a thread, and accepts its own result at once."""
        config = self._config
        if not self._only_recompresses or len(records) <= HEADER_SIZE:
            return False
        return records[ATTRIBUTES_LOW] & COMPRESSION_MASK != config.target_codec

    def _accept_slowly(self, records: Records) -> Accepted:
        config = self._config
        header = client_batch(records, config, self._name)
        now_ms = self._clock_ms()
        data = writable(records)
        if not self._headers_suffice or _has_invalid_timestamp(header, config, now_ms):
            header, data = self._validate_records(header, data, now_ms)
        append_time_ms = -1
        if config.uses_log_append_time:
            header, append_time_ms = _stamp(data, now_ms), now_ms
        size = header.length + 12
        if len(data) != size:
            data = memoryview(data)[:size]  # a truncated batch behind the whole one
        return Accepted(header, data, append_time_ms)

    def _validate_records(
        self, header: BatchHeader, data: bytearray | memoryview, now_ms: int
    ) -> tuple[BatchHeader, bytearray | memoryview]:
        """Walk the records where the header does not suffice."""
        config = self._config
        if not _has_invalid_timestamp(header, config, now_ms) and not _needs_walk(header, config):
            return header, data
        walked = walk(data, config, now_ms, self._name)
        if config.target_codec not in (None, header.compression):
            data = _recompress(data, header, walked, config)
            _check_size(len(data), config, self._name)
            return parse_header(data), data
        return _correct_timestamps(data, header, walked), data

    def accept_internal(self, records: Records) -> list[BatchHeader]:
        """The headers of the batches that a coordinator appends; a truncated last batch is left out. KafkaError."""
        return self._check_batches(records, check_sizes=True)

    def accept_replicated(self, records: Records, end_offset: int) -> list[BatchHeader]:
        """The headers of the batches that a leader sent to a log that ends at an offset; a truncated last batch is left
        out. KafkaError."""
        headers = self._check_batches(records, check_sizes=False)
        for header in headers:
            if header.base_offset < end_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Offset {header.base_offset} is not beyond {end_offset - 1} in {self._name}",
                )
            end_offset = header.next_offset
        return headers

    def _check_batches(self, records: Records, *, check_sizes: bool) -> list[BatchHeader]:
        headers: list[BatchHeader] = []
        position = 0
        try:
            while len(records) - position >= HEADER_SIZE:
                header = parse_header(records, position)
                size = header.size
                if position + size > len(records):
                    break
                if check_sizes:
                    _check_size(size, self._config, self._name)
                if not crc_is_valid(records, position, header):
                    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A batch for {self._name} does not match its checksum")
                headers.append(header)
                position += size
        except CodecError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{error} (append to {self._name})") from None
        return headers


def writable(records: Records) -> bytearray | memoryview:
    """The same bytes, to be patched in place: a request's frame is writable; anything else is copied."""
    if isinstance(records, bytearray):
        return records
    if isinstance(records, memoryview) and not records.readonly:
        return records
    return bytearray(records)


def _is_known_compression(attributes: int, count: int) -> bool:
    return attributes & COMPRESSION_MASK <= 4 and count <= MAX_COMPRESSED_RECORDS


def client_batch(records: Records, config: LogConfig, name: str) -> BatchHeader:
    """The header of the one batch of a Produce request, validated with its checksum. KafkaError."""
    header = _only_batch(records, name)
    if header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {name} should be 0, but it is {header.base_offset}",
        )
    _check_size(header.size, config, name)
    if not crc_is_valid(records, 0, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc}) in {name}")
    if header.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"Clients are not allowed to write control records in {name}")
    try:
        validate_batch_structure(header)
    except CodecError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{error} in {name}") from None
    if header.count > MAX_COMPRESSED_RECORDS and header.compression:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"A compressed batch of {header.count} records in the append to {name}, more than {MAX_COMPRESSED_RECORDS}",
        )
    return header


def _only_batch(records: Records, name: str) -> BatchHeader:
    try:
        header = parse_header(records)
    except UnsupportedMagic as error:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, f"{error} (append to {name})") from None
    except CodecError as error:
        if _is_truncated(records):
            raise NotOneBatch(ErrorCode.INVALID_RECORD) from None
        raise NotOneBatch(ErrorCode.CORRUPT_MESSAGE, f"{error} (append to {name})") from None
    rest = len(records) - header.length - 12
    if rest > 0:
        _check_rest(records, header.length + 12, rest, name)
    elif rest < 0:
        raise NotOneBatch(ErrorCode.INVALID_RECORD)
    return header


def _is_truncated(records: Records) -> bool:
    """Whether these may be the first bytes of a batch. Like Kafka, check length and magic before the missing rest."""
    if len(records) < 12:
        return True
    length = int.from_bytes(records[8:12], "big", signed=True)
    if length < 14 or (len(records) > 16 and records[16] > 2):
        return False
    return len(records) < 12 + length


def _check_rest(records: Records, position: int, rest: int, name: str) -> None:
    """Check the bytes behind the first batch: another batch is refused, a truncated one ignored, as in Kafka."""
    if rest < 17:
        return
    length = int.from_bytes(records[position + 8 : position + 12], "big", signed=True)
    if length < 14 or records[position + 16] > 2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{rest} bytes behind the batch are none (append to {name})")
    if rest >= length + 12:
        raise NotOneBatch(ErrorCode.INVALID_RECORD)


def _check_size(size: int, config: LogConfig, name: str) -> None:
    """Check a batch against `max.message.bytes` and `segment.bytes`. KafkaError."""
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {name} is {size} bytes which exceeds the maximum configured "
            f"value of {config.max_message_bytes}.",
        )
    if size > config.max_segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {name}, which exceeds the maximum configured "
            f"segment size of {config.max_segment_bytes}.",
        )


def _may_need_walk(config: LogConfig) -> bool:
    """Whether a topic's settings may require a walk over the records of a batch."""
    return (
        config.validate_records
        or config.compacts
        or config.message_timestamp_before_max_ms != INT64_MAX
        or config.target_codec is not None
    )


def _needs_walk(header: BatchHeader, config: LogConfig) -> bool:
    """Whether these settings require a walk over the records of this batch."""
    return (
        config.validate_records
        or config.compacts
        or (config.message_timestamp_before_max_ms != INT64_MAX and not config.uses_log_append_time)
        or config.target_codec not in (None, header.compression)
    )


def _has_invalid_timestamp(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether a producer should not have sent the header's timestamp type or maximum timestamp: then the records are
    checked, and the header is corrected from them."""
    return (
        header.attributes & LOG_APPEND_TIME_FLAG != 0
        or header.max_timestamp - now_ms > config.message_timestamp_after_max_ms
    )


def _correct_timestamps(data: bytearray | memoryview, header: BatchHeader, walked: list[Record]) -> BatchHeader:
    """Set the header's timestamp type to CreateTime and its maximum to that of the records, in place."""
    latest = max((record.timestamp for record in walked), default=header.max_timestamp)
    if latest == header.max_timestamp and not header.attributes & LOG_APPEND_TIME_FLAG:
        return header
    patch_timestamps(data, 0, max_timestamp=latest, timestamp_type=CREATE_TIME)
    return parse_header(data)


def walk(records: Records, config: LogConfig, now_ms: int, name: str) -> list[Record]:
    """Validate every record of a client's batch, and return them. KafkaError; `RecordsRefused` names the invalid
    records."""
    try:
        walked = list(iter_records(records, max_bytes=MAX_DECOMPRESSED_BYTES))
    except InvalidRecords as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from None
    except CodecError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if any(record.offset != i for i, record in enumerate(walked)):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"The offsets of the records leave gaps in topic partition {name}")
    if config.compacts:
        keyless = [i for i, record in enumerate(walked) if record.key is None]
        if keyless:
            text = f"Compacted topic cannot accept message without key in topic partition {name}"
            raise RecordsRefused(ErrorCode.INVALID_RECORD, _RECORDS_REFUSED, [RecordError(i, text) for i in keyless])
    if config.uses_log_append_time:
        _refuse_producers_append_time(parse_header(records), walked)
    else:
        out_of_range = list(_timestamp_errors(walked, config, now_ms))
        if out_of_range:
            raise RecordsRefused(ErrorCode.INVALID_TIMESTAMP, _TIMESTAMPS_REFUSED, out_of_range)
    return walked


def _refuse_producers_append_time(header: BatchHeader, walked: list[Record]) -> None:
    if header.attributes & LOG_APPEND_TIME_FLAG:
        text = "Invalid timestamp type in message: the producer should not set the timestamp type to LogAppendTime."
        errors = [RecordError(i, text) for i in range(len(walked))]
        raise RecordsRefused(ErrorCode.INVALID_TIMESTAMP, _TIMESTAMPS_REFUSED, errors)


def _timestamp_errors(records: list[Record], config: LogConfig, now_ms: int) -> Iterator[RecordError]:
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    for i, record in enumerate(records):
        if record.timestamp != -1 and not earliest <= record.timestamp <= latest:
            yield RecordError(
                i,
                f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. The timestamp "
                f"should be within [{earliest}, {latest}]",
            )


def _recompress(records: Records, header: BatchHeader, walked: list[Record], config: LogConfig) -> bytearray:
    """The same batch with the topic's compression: a new batch of the same producer, timestamps and records."""
    builder = RecordBatchBuilder(
        base_offset=header.base_offset,
        compression=config.target_codec or 0,
        compression_level=config.target_level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
    )
    for record in walked:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return bytearray(builder.build())


def _stamp(records: bytearray | memoryview, now_ms: int) -> BatchHeader:
    """Set LogAppendTime with the broker's time for all records of a batch, in place."""
    with_log_append_time(records, 0, now_ms)
    return parse_header(records)
