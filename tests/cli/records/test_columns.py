"""Batches are decoded and encoded a column at a time, with the outcome of the codec's reader and builder."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.cli.records.columns import Columns, decode_batch
from kwire.cli.records.writing.encoding import Producer, Rows, encode_batch
from kwire.codec.errors import CorruptBatch
from kwire.codec.records import (
    LOG_APPEND_TIME,
    Record,
    build_batch,
    crc_is_valid,
    iter_records,
    parse_header,
    patch_timestamps,
    validate_batch_structure,
)

NOW_MS = 1_760_000_000_000
TEXTS = st.none() | st.binary(max_size=20) | st.integers(0, 9000).map(lambda size: b"v" * size)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2)
RECORDS = st.lists(st.tuples(st.integers(0, 2**40), TEXTS, TEXTS, HEADERS), min_size=1, max_size=80)
FEW = settings(max_examples=50)


def decoded(batch: bytes) -> Columns:
    return decode_batch("t", 0, batch, parse_header(batch))


def as_records(columns: Columns) -> list[Record]:
    return [
        Record(offset, timestamp, key, value, list(columns.headers.get(index, ())))
        for index, (offset, timestamp, key, value) in enumerate(
            zip(columns.offsets, columns.timestamps, columns.keys, columns.values, strict=True)
        )
    ]


@FEW
@given(RECORDS, st.integers(0, 2**40), st.sampled_from([0, 1, 3]), st.booleans())
def test_columns_have_what_the_reader_finds(
    rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    base_offset: int,
    step: int,
    plain: bool,
) -> None:
    records = [
        Record(
            base_offset + index * max(step, 1), time, key, (value or b"") if plain else value, [] if plain else headers
        )
        for index, (time, key, value, headers) in enumerate(rows)
    ]
    batch = build_batch(records, base_offset=base_offset)
    assert as_records(decoded(batch)) == list(iter_records(batch, max_bytes=1 << 30)) == records


def test_ten_thousand_records_have_offset_deltas_of_all_widths() -> None:
    records = [Record(100 + index, NOW_MS + index, b"%d" % index, b"x" * (index % 300)) for index in range(10_000)]
    columns = decoded(build_batch(records, base_offset=100))
    assert as_records(columns) == records
    assert (columns.next_offset, columns.offsets) == (10_100, range(100, 10_100))


def test_the_brokers_time_is_that_of_all_records() -> None:
    batch = bytearray(build_batch([Record(0, 5, None, b"a"), Record(1, 7, None, b"b")]))
    patch_timestamps(batch, 0, max_timestamp=99, timestamp_type=LOG_APPEND_TIME)
    assert list(decoded(bytes(batch)).timestamps) == [99, 99]


@given(st.binary(max_size=60), st.integers(1, 5))
def test_damaged_records_are_corrupt_and_nothing_else(body: bytes, count: int) -> None:
    batch = build_batch([Record(index, 0, None, b"") for index in range(count)])
    header = parse_header(batch)._replace(length=49 + len(body))
    try:
        columns = decode_batch("t", 0, batch[:61] + body, header)
    except CorruptBatch:
        return
    assert len(columns) == count


def test_a_batch_that_begins_before_the_start_is_cut() -> None:
    columns = decoded(build_batch([Record(index, 0, None, b"%d" % index, [("h", b"")]) for index in range(10)]))
    part = columns.between(3, 5)
    assert (part.offsets, part.values, part.next_offset) == ([3, 4], [b"3", b"4"], 10)
    assert part.headers == {0: [("h", b"")], 1: [("h", b"")]}
    assert columns.between(0, None) is columns


@FEW
@given(RECORDS, st.sampled_from([0, 1, 4]), st.integers(0, 3))
def test_encoded_batches_are_those_of_the_builder(
    rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], compression: int, form: int
) -> None:
    times, keys, values, headers = (list(column) for column in zip(*rows, strict=True))
    plain = [value or b"" for value in values]
    records = Rows(values, keys, headers, times)
    if form:
        some_keys: list[list[bytes | None]] = [[None] * len(rows), [key or b"" for key in keys], keys]
        records = Rows(plain, some_keys[form - 1])
    batch = encode_batch(records, NOW_MS, Producer(7, 1, 4), compression)
    header = parse_header(batch)
    validate_batch_structure(header)
    assert crc_is_valid(batch, 0, header) and header.size == len(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.compression) == (
        7,
        1,
        4,
        compression,
    )
    found = list(iter_records(batch, max_bytes=1 << 30))
    assert [each.value for each in found] == list(records.values)
    assert [each.key for each in found] == list(records.keys or [None] * len(rows))
    assert [each.headers for each in found] == ([[]] * len(rows) if form else headers)
    assert [each.timestamp for each in found] == ([NOW_MS] * len(rows) if form else times)
    assert header.max_timestamp == max(each.timestamp for each in found)


@pytest.mark.parametrize("with_keys", [False, True])
def test_a_full_batch_is_encoded_as_it_is_read(with_keys: bool) -> None:
    values = [b"x" * (index * 7 % 300) for index in range(10_000)]
    keys: list[bytes | None] = [b"k" * (index % 90) if with_keys else None for index in range(10_000)]
    columns = decoded(encode_batch(Rows(values, keys if with_keys else None), NOW_MS))
    assert (columns.keys, columns.values) == (keys, values)
