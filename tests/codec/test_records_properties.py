"""Property tests of record batches: round trips, and any bytes at all give records or CorruptBatch."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.codec.errors import CorruptBatch
from kwire.codec.records import (
    Record,
    build_batch,
    crc_is_valid,
    iter_headers,
    iter_records,
    parse_header,
    patch_offsets,
    with_log_append_time,
)

payloads = st.none() | st.binary(max_size=200) | st.integers(0, 40_000).map(lambda size: b"v" * size)
headers = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=4)
timestamps = st.integers(-1, 2**62)
loose_records = st.builds(Record, st.just(-1), timestamps, payloads, payloads, headers)
codecs = st.integers(0, 4)


@st.composite
def sparse_records(draw: st.DrawFn) -> tuple[int, list[Record]]:
    base = draw(st.integers(0, 2**60))
    offset = base
    records = []
    for record in draw(st.lists(loose_records, min_size=1, max_size=12)):
        offset += draw(st.integers(0, 2**20))
        record.offset = offset
        offset += 1
        records.append(record)
    return base, records


@settings(max_examples=100, deadline=None)
@given(sparse_records(), codecs, st.booleans())
def test_records_come_back_as_they_went_in(sparse: tuple[int, list[Record]], codec: int, transactional: bool) -> None:
    base, records = sparse
    batch = build_batch(
        records, base_offset=base, compression=codec, producer_id=1, producer_epoch=0, base_sequence=0,
        is_transactional=transactional,
    )  # fmt: skip
    header = parse_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert (header.size, header.count, header.compression) == (len(batch), len(records), codec)
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert list(iter_records(memoryview(batch), max_bytes=1 << 24)) == records


@settings(max_examples=50, deadline=None)
@given(st.lists(loose_records, min_size=1, max_size=5), codecs, st.integers(0, 2**60), st.integers(-1, 2**31 - 1))
def test_patches_change_offsets_and_time_and_nothing_else(
    records: list[Record], codec: int, offset: int, epoch: int
) -> None:
    buffer = bytearray(build_batch(records, compression=codec))
    patch_offsets(buffer, 0, offset, epoch)
    with_log_append_time(buffer, 0, 99)
    header = parse_header(buffer)
    assert crc_is_valid(buffer, 0, header)
    expected = [Record(offset + i, 99, r.key, r.value, r.headers) for i, r in enumerate(records)]
    assert list(iter_records(buffer, max_bytes=1 << 24)) == expected
    assert header.partition_leader_epoch == epoch


def read_everything(buffer: bytes) -> None:
    """Walk `buffer` as a curious broker would; only CorruptBatch may come of it."""
    with contextlib.suppress(CorruptBatch):
        for position, header in iter_headers(buffer, allow_partial=True):
            crc_is_valid(buffer, position, header)
            with contextlib.suppress(CorruptBatch):
                for _ in iter_records(buffer[position : position + header.size], max_bytes=1 << 20):
                    pass


@settings(max_examples=300, deadline=None)
@given(
    st.lists(loose_records, min_size=1, max_size=5),
    codecs,
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=8),
    st.integers(0, 2**16),
)
def test_a_mutated_batch_gives_records_or_corrupt_batch(
    records: list[Record], codec: int, edits: list[tuple[int, int]], cut: int
) -> None:
    batch = bytearray(build_batch(records, compression=codec))
    for position, value in edits:
        batch[position % len(batch)] = value
    read_everything(bytes(batch))
    read_everything(bytes(batch[: cut % len(batch)]))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(-1, 20), codecs)
def test_any_records_section_gives_records_or_corrupt_batch(body: bytes, count: int, codec: int) -> None:
    batch = bytearray(build_batch([Record()])[:61]) + body
    batch[8:12] = (49 + len(body)).to_bytes(4, "big")
    batch[22] = codec
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    read_everything(bytes(batch))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_give_headers_or_corrupt_batch(buffer: bytes) -> None:
    read_everything(buffer)
