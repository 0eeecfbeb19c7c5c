"""Whether a batch may be appended, and in which form: apart from appending, and without touching a file.

A client's batch is judged by its 61 bytes of header and its checksum. Its records are walked only where the protocol
needs it: keyless records on a compacted topic, timestamps with a lower bound, another compression than the producer's,
or `kwire.validate.records=true`. Followers and coordinators are trusted further: they append what was checked before.
"""

from __future__ import annotations

from collections.abc import Iterator

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
"""Records of a compressed batch: some twenty bytes can stand for a million of them, and walking those takes seconds.
A producer that is told MESSAGE_TOO_LARGE splits its batch. Apache Kafka has no such bound."""

Records = bytes | bytearray | memoryview

_SPECIAL = CONTROL_FLAG | LOG_APPEND_TIME_FLAG
_TIMESTAMPS_REFUSED = "One or more records have been rejected due to invalid timestamp"
_RECORDS_REFUSED = "One or more records have been rejected"


def at_a_glance(records: memoryview, size_max: int, latest_ms: int) -> BatchHeader | None:
    """The header of a client's one batch if nothing about it could be refused or set right in a topic of ordinary
    settings. None: `client_batch` and what follows it have to look, and to find the words."""
    size = len(records)
    if size < HEADER_SIZE or size > size_max:
        return None
    header = read_header(records)
    base_offset, length, _, magic, crc, attributes, delta, _, max_timestamp, producer_id, _, sequence, count = header
    if (
        base_offset
        or length + 12 != size
        or magic != MAGIC
        or attributes & _SPECIAL
        or count != delta + 1
        or count <= 0
        or max_timestamp > latest_ms
        or (producer_id >= 0 and sequence < 0)
        or (attributes & COMPRESSION_MASK and (attributes & COMPRESSION_MASK > 4 or count > MAX_COMPRESSED_RECORDS))
        or crc32c(records[CRC_START:]) != crc
    ):
        return None
    return header


def client_batch(records: Records, config: LogConfig, name: str) -> BatchHeader:
    """The one batch of a Produce request, checked as far as its header and checksum go. KafkaError."""
    header = _only_batch(records, name)
    if header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {name} should be 0, but it is {header.base_offset}",
        )
    check_size(header.size, config, name)
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
        if _is_cut_off(records):
            raise NotOneBatch(ErrorCode.INVALID_RECORD) from None
        raise NotOneBatch(ErrorCode.CORRUPT_MESSAGE, f"{error} (append to {name})") from None
    rest = len(records) - header.length - 12
    if rest > 0:
        _check_rest(records, header.length + 12, rest, name)
    elif rest < 0:
        raise NotOneBatch(ErrorCode.INVALID_RECORD)
    return header


def _is_cut_off(records: Records) -> bool:
    """Whether these may be the first bytes of a batch. Kafka judges length and magic before it misses the rest."""
    if len(records) < 12:
        return True
    length = int.from_bytes(records[8:12], "big", signed=True)
    if length < 14 or (len(records) > 16 and records[16] > 2):
        return False
    return len(records) < 12 + length


def _check_rest(records: Records, position: int, rest: int, name: str) -> None:
    """Bytes behind the first batch: another batch is refused, a cut-off one is ignored (Kafka does both)."""
    if rest < 17:
        return
    length = int.from_bytes(records[position + 8 : position + 12], "big", signed=True)
    if length < 14 or records[position + 16] > 2:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{rest} bytes behind the batch are none (append to {name})")
    if rest >= length + 12:
        raise NotOneBatch(ErrorCode.INVALID_RECORD)


def trusted_batches(records: Records, config: LogConfig, name: str, *, check_sizes: bool) -> list[BatchHeader]:
    """The batches that a coordinator or a leader sends; a cut-off last one is left out. KafkaError."""
    headers: list[BatchHeader] = []
    position = 0
    try:
        while len(records) - position >= HEADER_SIZE:
            header = parse_header(records, position)
            if position + header.size > len(records):
                break
            if check_sizes:
                check_size(header.size, config, name)
            if not crc_is_valid(records, position, header):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A batch for {name} does not match its checksum")
            headers.append(header)
            position += header.size
    except CodecError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{error} (append to {name})") from None
    return headers


def check_size(size: int, config: LogConfig, name: str) -> None:
    """`max.message.bytes` and the segment's size bound a batch. KafkaError."""
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


def looks_at_records(config: LogConfig) -> bool:
    """Whether a topic's settings may ask for the records of a batch."""
    return (
        config.validate_records
        or config.compacts
        or config.message_timestamp_before_max_ms != INT64_MAX
        or config.target_codec is not None
    )


def needs_walk(header: BatchHeader, config: LogConfig) -> bool:
    """Whether these settings ask for the records of this batch."""
    return (
        config.validate_records
        or config.compacts
        or (config.message_timestamp_before_max_ms != INT64_MAX and not config.uses_log_append_time)
        or config.target_codec not in (None, header.compression)
    )


def has_doubtful_time(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether the header's timestamp type or maximum is one that a producer should not have sent: then the records
    decide, and the header is set right after them."""
    return (
        header.attributes & LOG_APPEND_TIME_FLAG != 0
        or header.max_timestamp - now_ms > config.message_timestamp_after_max_ms
    )


def set_right(data: bytearray | memoryview, header: BatchHeader, walked: list[Record]) -> BatchHeader:
    """Make the header say the producers' time, and the highest timestamp that the records really have, in place."""
    latest = max((record.timestamp for record in walked), default=header.max_timestamp)
    if latest == header.max_timestamp and not header.attributes & LOG_APPEND_TIME_FLAG:
        return header
    patch_timestamps(data, 0, max_timestamp=latest, timestamp_type=CREATE_TIME)
    return parse_header(data)


def walk(records: Records, config: LogConfig, now_ms: int, name: str) -> list[Record]:
    """Look at every record of a client's batch. Returns them. KafkaError, with the single records that are wrong."""
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
        _refuse_own_append_time(parse_header(records), walked)
    else:
        out_of_range = list(_timestamp_errors(walked, config, now_ms))
        if out_of_range:
            raise RecordsRefused(ErrorCode.INVALID_TIMESTAMP, _TIMESTAMPS_REFUSED, out_of_range)
    return walked


def _refuse_own_append_time(header: BatchHeader, walked: list[Record]) -> None:
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


def recompress(records: Records, header: BatchHeader, walked: list[Record], config: LogConfig) -> bytearray:
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


def stamp(records: bytearray | memoryview, now_ms: int) -> BatchHeader:
    """Give all records of a batch the broker's time, in place."""
    with_log_append_time(records, 0, now_ms)
    return parse_header(records)
