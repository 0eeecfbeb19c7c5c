"""The loops over bytes give the same results as decoding into objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.codec.errors import CodecError
from kwire.codec.records import Record, build_batch, iter_records, parse_header
from kwire.codec.records.builder import encode_record
from kwire.codec.records.reader import read_body
from kwire.log.compaction.records import index_dense_keys, index_keys, map_key, pick, walk, with_timestamp_delta

SIZES = st.sampled_from([0, 1, 5, 31, 32, 33, 63, 64, 65, 127, 128, 8200])
KEYS = st.one_of(st.none(), SIZES.map(lambda size: b"k" * size), st.binary(max_size=40))
VALUES = st.one_of(st.none(), SIZES.map(bytes), st.binary(max_size=70))
RECORDS = st.lists(
    st.builds(
        Record,
        timestamp=st.integers(0, 1 << 42),
        key=KEYS,
        value=VALUES,
        headers=st.lists(st.tuples(st.text(max_size=5), VALUES), max_size=2),
    ),
    min_size=1,
    max_size=12,
)


def body_of(records: list[Record], **how: Any) -> tuple[bytes, int]:
    batch = build_batch(records, **how)
    return read_body(batch, parse_header(batch), max_bytes=1 << 22), len(records)


def expected_keys(records: list[Record], base: int) -> tuple[dict[bytes, int], int]:
    entries = {map_key(r.key): 2 * (base + i) + (r.value is None) for i, r in enumerate(records) if r.key is not None}
    return entries, sum(record.key is None for record in records)


@given(RECORDS, st.integers(0, 1 << 40))
def test_both_ways_of_indexing_find_every_key_offset_and_tombstone(records: list[Record], base: int) -> None:
    body, count = body_of(records)
    for index in (index_keys, index_dense_keys):
        entries: dict[bytes, int] = {}
        keyless = index(entries, body, count, base)
        assert (entries, keyless) == expected_keys(records, base)


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193])
def test_offset_deltas_of_every_width_are_skipped(count: int) -> None:
    records = [Record(timestamp=i, key=b"%d" % i, value=None if i % 3 else b"v") for i in range(count)]
    body, _ = body_of(records)
    entries: dict[bytes, int] = {}
    index_dense_keys(entries, body, count, 0)
    assert entries == expected_keys(records, 0)[0]


def test_a_batch_whose_header_hides_its_gaps_is_read_record_by_record() -> None:
    deltas = [0] * 70
    body = b"".join(encode_record(delta, 0, b"key-%d" % i, b"v", ()) for i, delta in enumerate(deltas))
    entries: dict[bytes, int] = {}
    index_dense_keys(entries, body, 70, 10)
    assert {key: entries[key] for key in (b"key-0", b"key-69")} == {b"key-0": 20, b"key-69": 20}
    assert pick(body, 70, [3]) is None


@given(RECORDS, st.data())
def test_picking_finds_the_records_and_walking_all_of_them(records: list[Record], data: st.DataObject) -> None:
    body, count = body_of(records)
    wanted = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    walked = list(walk(body, count))
    assert pick(body, count, wanted) == [walked[delta] for delta in wanted]
    assert b"".join(body[each.start : each.end] for each in walked) == body
    assert pick(body, count, [count]) is None


@given(RECORDS, st.integers(-(1 << 41), 1 << 41))
def test_a_records_time_is_moved_and_nothing_else(records: list[Record], shift: int) -> None:
    body, count = body_of(records)
    moved = b"".join(with_timestamp_delta(body, each, each.timestamp_delta + shift) for each in walk(body, count))
    batch = build_batch(records)
    header = parse_header(batch)._replace(length=len(moved) + 49)
    from kwire.codec.records.header import pack_header

    got = list(iter_records(pack_header(header) + moved, max_bytes=1 << 22))
    assert [each.timestamp for each in got] == [each.timestamp + shift for each in records]
    assert [(r.key, r.value, r.headers) for r in got] == [(r.key, r.value, r.headers) for r in records]


@given(st.binary(max_size=60), st.integers(1, 5))
def test_bytes_that_are_not_records_raise_and_do_not_hang(body: bytes, count: int) -> None:
    for look in (
        lambda: index_keys({}, body, count, 0),
        lambda: index_dense_keys({}, body, count, 0),
        lambda: pick(body, count, [count - 1]),
    ):
        try:
            look()
        except (CodecError, IndexError):
            pass
