"""Record batches: headers, patches, control batches, and what is refused."""

from __future__ import annotations

import struct

import crcmod.predefined
import pytest

from kwire.codec.crc import crc32c
from kwire.codec.errors import CorruptBatch
from kwire.codec.records import (
    ABORT,
    COMMIT,
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    ControlRecordKey,
    EndTransactionMarker,
    InvalidRecords,
    Record,
    RecordBatchBuilder,
    UnsupportedMagic,
    build_batch,
    build_control_batch,
    crc_is_valid,
    iter_headers,
    iter_records,
    parse_control_key,
    parse_end_transaction_marker,
    parse_header,
    patch_offsets,
    patch_timestamps,
    sequence_after,
    validate_batch_structure,
    with_log_append_time,
)

MAX = 1 << 20


def records(count: int = 3) -> list[Record]:
    return [Record(-1, 1000 + i, b"k%d" % i, b"v%d" % i) for i in range(count)]


def read(batch: bytes | bytearray | memoryview) -> list[Record]:
    return list(iter_records(batch, max_bytes=MAX))


def forged(batch: bytes, offset: int, fmt: str, value: int) -> bytes:
    """`batch` with one field overwritten (its CRC is left alone)."""
    copy = bytearray(batch)
    struct.pack_into(fmt, copy, offset, value)
    return bytes(copy)


def with_body(body: bytes, count: int) -> bytes:
    """An uncompressed batch around any bytes."""
    header = bytearray(build_batch(records(1))[:HEADER_SIZE])
    struct.pack_into(">i", header, 8, HEADER_SIZE - 12 + len(body))
    struct.pack_into(">i", header, 57, count)
    return bytes(header) + body


def test_the_checksum_is_castagnolis() -> None:
    reference = crcmod.predefined.mkPredefinedCrcFun("crc-32c")
    assert crc32c(b"123456789") == 0xE3069283
    for size in (0, 1, 7, 8, 63, 64, 1000, 100_000):
        data = bytes((i * 31 + size) & 0xFF for i in range(size))
        assert crc32c(data) == reference(data)
        assert crc32c(memoryview(data)) == reference(data)


def test_header_fields_are_those_that_were_built() -> None:
    batch = build_batch(
        records(4),
        base_offset=100,
        producer_id=7,
        producer_epoch=2,
        base_sequence=40,
        partition_leader_epoch=9,
        is_transactional=True,
    )
    header = parse_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset, header.count) == (100, 103, 104, 4)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 2, 40, 43)
    assert (header.base_timestamp, header.max_timestamp, header.timestamp_type) == (1000, 1003, CREATE_TIME)
    assert (header.size, header.magic, header.partition_leader_epoch) == (len(batch), 2, 9)
    assert header.is_transactional
    assert not header.is_control
    assert header.has_producer_id
    assert header.compression == 0
    assert header.delete_horizon_ms is None


def test_header_is_read_without_the_payload() -> None:
    batch = build_batch(records())
    assert parse_header(batch[:HEADER_SIZE]) == parse_header(memoryview(b"xx" + batch), 2)


def test_last_sequence_wraps_to_zero() -> None:
    assert sequence_after(0x7FFFFFFF, 1) == 0
    header = parse_header(build_batch(records(3), producer_id=1, producer_epoch=0, base_sequence=0x7FFFFFFE))
    assert header.last_sequence == 0
    assert parse_header(build_batch(records(3))).last_sequence == -1


def test_batches_are_found_one_after_the_other() -> None:
    batches = [build_batch(records(n), base_offset=10 * n) for n in (1, 2, 3)]
    found = list(iter_headers(b"".join(batches)))
    assert [position for position, _ in found] == [0, len(batches[0]), len(batches[0]) + len(batches[1])]
    assert [header.base_offset for _, header in found] == [10, 20, 30]


@pytest.mark.parametrize("cut", [1, 20, HEADER_SIZE])
def test_a_cut_off_last_batch_ends_the_iteration_only_where_that_is_allowed(cut: int) -> None:
    first, second = build_batch(records()), build_batch(records())
    buffer = first + second[: len(second) - cut]
    assert [position for position, _ in iter_headers(buffer, allow_partial=True)] == [0]
    with pytest.raises(CorruptBatch):
        list(iter_headers(buffer))


def test_a_damaged_header_is_refused_even_where_a_partial_one_is_allowed() -> None:
    buffer = build_batch(records()) + forged(build_batch(records()), 16, ">b", 77)
    with pytest.raises(CorruptBatch, match="magic 77"):
        list(iter_headers(buffer, allow_partial=True))


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 48, 2**31 - 1])
def test_an_impossible_length_is_refused(length: int) -> None:
    batch = forged(build_batch(records()), 8, ">i", length)
    with pytest.raises(CorruptBatch):
        list(iter_headers(batch))
    with pytest.raises(CorruptBatch):
        read(batch)


@pytest.mark.parametrize("position", [-1, 1, 10**9])
def test_a_header_outside_the_buffer_is_refused(position: int) -> None:
    with pytest.raises(CorruptBatch):
        parse_header(build_batch(records(1))[:HEADER_SIZE], position)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_sets_are_recognised_and_refused_by_name(magic: int) -> None:
    message = struct.pack(">qiIbb", 0, 22, 0, magic, 0) + b"\x00" * 12
    assert len(message) < HEADER_SIZE
    for buffer in (message, message * 10, memoryview(message)):
        with pytest.raises(UnsupportedMagic, match=f"magic {magic}"):
            list(iter_headers(buffer))


def test_a_flipped_bit_under_the_checksum_is_seen() -> None:
    batch = build_batch(records())
    assert crc_is_valid(batch, 0, parse_header(batch))
    for position in (21, 30, 60, len(batch) - 1):
        damaged = forged(batch, position, ">B", batch[position] ^ 1)
        assert not crc_is_valid(damaged, 0, parse_header(damaged))


def test_a_batch_that_is_not_all_there_has_no_valid_checksum() -> None:
    batch = build_batch(records())
    assert not crc_is_valid(batch[:-1], 0, parse_header(batch))


def test_offsets_are_patched_in_place_without_another_checksum() -> None:
    buffer = bytearray(b"..." + build_batch(records()) + b"...")
    before = parse_header(buffer, 3)
    patch_offsets(memoryview(buffer), 3, 1 << 40, 12)
    after = parse_header(buffer, 3)
    assert after == before._replace(base_offset=1 << 40, partition_leader_epoch=12)
    assert crc_is_valid(buffer, 3, after)
    assert [buffer[:3], buffer[-3:]] == [b"...", b"..."]


def test_log_append_time_is_the_time_of_every_record() -> None:
    buffer = bytearray(build_batch(records(), compression=1))
    with_log_append_time(buffer, 0, 5555)
    header = parse_header(buffer)
    assert (header.max_timestamp, header.timestamp_type, header.compression) == (5555, LOG_APPEND_TIME, 1)
    assert crc_is_valid(buffer, 0, header)
    assert [record.timestamp for record in read(buffer)] == [5555] * 3


def test_create_time_can_be_restored() -> None:
    original = build_batch(records())
    buffer = bytearray(original)
    with_log_append_time(buffer, 0, 5555)
    patch_timestamps(buffer, 0, max_timestamp=1002)
    assert buffer == original


def test_offsets_stay_sparse_when_records_bring_their_own() -> None:
    sparse = [Record(12, 1, b"a", b"1"), Record(17, 2, b"b", None), Record(30, 0, None, b"3", [("h", None)])]
    batch = build_batch(sparse, base_offset=10, last_offset=35)
    header = parse_header(batch)
    assert (header.base_offset, header.last_offset, header.count, header.max_timestamp) == (10, 35, 3, 2)
    assert read(batch) == sparse


def test_offsets_that_do_not_ascend_are_a_programming_error() -> None:
    with pytest.raises(ValueError, match="offset 5"):
        build_batch([Record(5), Record(5)])
    with pytest.raises(ValueError, match="last offset 1"):
        build_batch(records(3), last_offset=1)


def test_an_empty_batch_remembers_its_producer() -> None:
    batch = build_batch(
        [], base_offset=5, last_offset=9, compression=4, producer_id=3, producer_epoch=1, base_sequence=6,
        max_timestamp=77,
    )  # fmt: skip
    header = parse_header(batch)
    assert (len(batch), header.count, header.last_sequence, header.compression) == (HEADER_SIZE, 0, 10, 0)
    assert (header.base_timestamp, header.max_timestamp) == (77, 77)
    assert crc_is_valid(batch, 0, header)
    assert read(batch) == []


def test_the_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    batch = build_batch(records(2), delete_horizon_ms=500)
    header = parse_header(batch)
    assert (header.delete_horizon_ms, header.max_timestamp) == (500, 1001)
    assert [record.timestamp for record in read(batch)] == [1000, 1001]


def test_the_builder_knows_its_size_before_it_builds() -> None:
    builder = RecordBatchBuilder()
    assert builder.size == HEADER_SIZE
    for record in records(5):
        builder.append(record.timestamp, record.key, record.value)
    assert builder.count == 5
    assert builder.size == len(builder.build())


def test_header_names_that_are_no_utf8_survive_a_rewrite() -> None:
    body = b"\x00\x00\x00\x01\x01\x02\x04\xff\xfe\x01"
    batch = with_body(bytes([len(body) * 2]) + body, 1)
    (record,) = read(batch)
    assert record.headers == [(b"\xff\xfe".decode("utf-8", "surrogateescape"), None)]
    assert build_batch([record])[HEADER_SIZE:] == batch[HEADER_SIZE:]


@pytest.mark.parametrize("control_type", [ABORT, COMMIT])
def test_end_markers_say_how_the_transaction_ended(control_type: int) -> None:
    batch = build_control_batch(
        control_type, producer_id=9, producer_epoch=3, coordinator_epoch=4, timestamp=88, base_offset=50
    )
    header = parse_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.count) == (9, 3, -1, 1)
    (record,) = read(batch)
    assert (record.offset, record.timestamp) == (50, 88)
    assert parse_control_key(record) == ControlRecordKey(0, control_type)
    assert parse_end_transaction_marker(record) == EndTransactionMarker(control_type == COMMIT, 4)


def test_other_control_records_are_no_end_markers() -> None:
    assert parse_end_transaction_marker(Record(key=b"\x00\x00\x00\x02", value=b"")) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00" * 6),
        (b"\x00\x00\x00", b"\x00" * 6),
        (b"\xff\xff\x00\x01", b"\x00" * 6),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00" * 5),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_half_a_control_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        parse_end_transaction_marker(Record(key=key, value=value))


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b"", 1),
        (b"", -1),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 0),
        (b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 1),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2**31 - 1),
        (b"\x0e\x00\x00\x00\x01\x01\x00", 1),  # the record is longer than what is there
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1),  # a byte remains in the record
        (b"\x01\x00\x00\x00\x01\x01\x00", 1),  # a length of -1
        (b"\x0c\x00\x00\x00\x7e\x01\x00", 1),  # a key of 63 bytes
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1),  # -1 headers
        (b"\x0c\x00\x00\x00\x01\x01\x7e", 1),  # 63 headers
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1),  # a header without a name
        (b"\xff\xff\xff\xff\xff\xff\xff", 1),
        (b"\x14\x00" + b"\xff" * 10, 1),
    ],
)
def test_records_that_contradict_their_batch_are_refused(body: bytes, count: int) -> None:
    with pytest.raises(InvalidRecords):
        read(with_body(body, count))


def test_any_negative_size_means_null_as_in_java() -> None:
    assert read(with_body(b"\x0c\x00\x00\x00\x7f\x01\x00", 1)) == [Record(0, 1000, None, None)]


def test_the_bound_holds_for_records_that_are_not_compressed_too() -> None:
    batch = build_batch([Record(value=b"x" * 1000)])
    with pytest.raises(CorruptBatch, match="more than 500"):
        list(iter_records(batch, max_bytes=500))


def test_more_headers_than_a_record_can_sensibly_have_are_refused() -> None:
    batch = build_batch([Record(headers=[("", None)] * 200_001)])
    with pytest.raises(InvalidRecords, match="200001 headers"):
        read(batch)


@pytest.mark.parametrize(
    ("position", "fmt", "value"),
    [
        (23, ">i", -1),
        (23, ">i", 5),
        (57, ">i", 0),
        (57, ">i", 2),
        (53, ">i", -1),
        (21, ">h", 5),
        (21, ">h", 7),
    ],
)
def test_headers_that_contradict_themselves_are_refused(position: int, fmt: str, value: int) -> None:
    batch = build_batch(records(3), producer_id=1, producer_epoch=0, base_sequence=0)
    validate_batch_structure(parse_header(batch))
    with pytest.raises(InvalidRecords):
        validate_batch_structure(parse_header(forged(batch, position, fmt, value)))


def test_records_compare_and_print_by_their_content() -> None:
    assert Record(1, 2, b"k", b"v") == Record(1, 2, b"k", b"v", [])
    assert Record(1, 2, b"k", b"v") != Record(1, 2, b"k", b"w")
    assert Record(1) != 1
    assert "key=b'k'" in repr(Record(key=b"k"))


def test_zeros_are_no_old_message_set() -> None:
    for size in (20, 200):
        with pytest.raises(CorruptBatch) as caught:
            parse_header(bytes(size))
        assert not isinstance(caught.value, UnsupportedMagic)
