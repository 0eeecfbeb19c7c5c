from __future__ import annotations

import random

import pytest

from kwire.arrow.decoding import Batch
from kwire.arrow.errors import ReadError
from kwire.arrow.reading import ENDLESS_US, Reading
from kwire.arrow.rows import Rows
from kwire.codec.errors import CorruptBatch
from kwire.codec.records import LOG_APPEND_TIME, Record, RecordHeader, build_batch, iter_records, parse_header

Row = tuple[int, int, bytes | None, bytes | None, list[RecordHeader]]
MOST = 1 << 40


def added(rows: Rows, batch: bytes, first: int = 0, end: int = MOST) -> None:
    rows.add(Batch(batch, parse_header(batch), first, end))


def read(*batches: bytes, first: int = 0, end: int = MOST, headers: bool = True) -> list[Row]:
    rows = Rows("t", 3, Reading(headers=headers))
    for batch in batches:
        added(rows, batch, first, end)
    return taken(rows)


def taken(rows: Rows) -> list[Row]:
    made = rows.take()
    return [
        (
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            [(each["key"], each["value"]) for each in row.get("headers") or ()],
        )
        for row in (made.to_pylist() if made is not None else [])
    ]


def one_by_one(*batches: bytes) -> list[Row]:
    return [
        (each.offset, each.timestamp, each.key, each.value, [(java(name), value) for name, value in each.headers])
        for batch in batches
        for each in iter_records(batch, max_bytes=MOST)
    ]


def java(name: str) -> str:
    """A name as Java reads it."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def random_bytes(numbers: random.Random, longest: int) -> bytes | None:
    return numbers.randbytes(numbers.randrange(longest)) if numbers.random() < 0.9 else None


@pytest.mark.parametrize("longest", [10, 100, 300, 20_000])
@pytest.mark.parametrize("compression", [0, 1, 4])
def test_rows_are_what_reading_records_one_by_one_gives(longest: int, compression: int) -> None:
    numbers = random.Random(longest + compression)
    batches, offset = [], 0
    for count in (1, 2, 63, 130):
        records = [
            Record(
                offset + 3 * index,
                1_700_000_000_000 + numbers.choice((0, index, -index, index * 10_000_000)),
                random_bytes(numbers, 9),
                random_bytes(numbers, longest),
                [(f"h{index}", random_bytes(numbers, 5))] * numbers.choice((0, 0, 0, 1, 3)),
            )
            for index in range(count)
        ]
        batches.append(build_batch(records, base_offset=offset, compression=compression))
        offset += 3 * count
    assert read(*batches) == one_by_one(*batches)


@pytest.mark.parametrize("size", [0, 1, 50, 58, 100, 8180, 9000])
@pytest.mark.parametrize("count", [1, 3, 5, 600])
def test_runs_of_records_of_one_size(size: int, count: int) -> None:
    batch = build_batch([Record(-1, 7, None, b"x" * (size + index // 500)) for index in range(count)])
    assert read(batch) == one_by_one(batch)


def test_only_offsets_that_are_wanted_become_rows() -> None:
    batches = [build_batch([Record(-1, 1, b"k", b"v")] * 10, base_offset=base) for base in (0, 10, 20)]
    assert [row[0] for row in read(*batches, first=7, end=23)] == list(range(7, 23))
    assert read(*batches, first=30) == []


@pytest.mark.parametrize(("keys", "values"), [(True, False), (False, True), (False, False)])
def test_columns_that_nobody_wants_are_null(keys: bool, values: bool) -> None:
    rows = Rows("t", 3, Reading(headers=False, keys=keys, values=values))
    added(rows, build_batch([Record(0, 1, b"k", b"v"), Record(1, 2, None, b"w")]))
    found = [(row[0], row[2], row[3]) for row in taken(rows)]
    kept = [(0, b"k", b"v"), (1, None, b"w")]
    assert found == [(offset, key if keys else None, value if values else None) for offset, key, value in kept]


def test_who_wants_only_offsets_gets_those_that_are_there() -> None:
    whole = build_batch([Record(-1, 7, b"k", b"v")] * 10, base_offset=5, compression=4)
    compacted = build_batch([Record(number, 7, b"k", b"v") for number in (17, 20, 21)], base_offset=15, last_offset=24)
    emptied = build_batch([], base_offset=25, last_offset=29)
    batches = (whole, compacted, emptied, build_batch([Record(-1, 7)] * 3, base_offset=30))
    for first, end in ((0, MOST), (7, 21), (16, 31), (25, 30), (0, 5)):
        rows = Rows("t", 3, Reading(keys=False, values=False, times=False))
        for batch in batches:
            added(rows, batch, first, end)
        made = rows.take()
        found = made.to_pylist() if made is not None else []
        assert [row["offset"] for row in found] == [row[0] for row in read(*batches, first=first, end=end)]
        assert {(row["partition"], row["topic"], row["value"], row["timestamp"]) for row in found} <= {
            (3, "t", None, None)
        }
        assert rows.take() is None


def test_records_that_do_not_matter_are_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    def decompressed(*_: object, **__: object) -> bytes:
        raise AssertionError

    monkeypatch.setattr("kwire.arrow.decoding.read_body", decompressed)
    rows = Rows("t", 3, Reading(keys=False, values=False, times=False))
    added(rows, build_batch([Record(-1, 7, b"k", b"v")] * 40_000, compression=4))
    assert rows.is_enough
    made = rows.take()
    assert made is not None
    assert made.column("offset").to_pylist() == list(range(40_000))


def test_batches_with_both_types_of_timestamps_keep_theirs() -> None:
    """The type of a topic's timestamps can be changed (message.timestamp.type)."""
    by_log = build_batch([Record(5, 1), Record(6, -2)], base_offset=5, timestamp_type=LOG_APPEND_TIME, max_timestamp=99)
    rows = Rows("t", 3, Reading(headers=False))
    added(rows, by_log)
    added(rows, build_batch([Record(9, 3)], base_offset=9))
    made = rows.take()
    assert made is not None
    assert made.column("timestampType").to_pylist() == [1, 1, 0]
    assert made.column("offset").to_pylist() == [5, 6, 9]
    assert [each.timestamp() * 1000 for each in made.column("timestamp").to_pylist()] == [99, 99, 3]
    assert made.column("partition").to_pylist() == [3, 3, 3]
    assert made.column("topic").to_pylist() == ["t", "t", "t"]


def test_timestamps_far_apart_are_kept() -> None:
    batch = build_batch([Record(0, -(1 << 50)), Record(1, 1 << 50), Record(2, 0)])
    rows = Rows("t", 0, Reading(headers=False))
    added(rows, batch)
    made = rows.take()
    assert made is not None
    microseconds = made.column("timestamp").cast("int64").to_pylist()
    assert microseconds == [-(1 << 50) * 1000, (1 << 50) * 1000, 0]


@pytest.mark.parametrize("time", [1 << 60, -(1 << 60)])
def test_a_timestamp_that_microseconds_cannot_hold_is_named(time: int) -> None:
    rows = Rows("t", 3, Reading(headers=False))
    added(rows, build_batch([Record(5, 1), Record(6, time)], base_offset=5))
    with pytest.raises(ReadError, match=f"t-3: the record at offset 6 has the timestamp {time}, which is no number"):
        rows.take()


def test_a_timestamp_beyond_microseconds_is_infinite_where_that_is_wanted() -> None:
    rows = Rows("t", 3, Reading(headers=False, endless=True))
    for each in (1, 1 << 60, -(1 << 60), 2):
        added(rows, build_batch([Record(0, each)]))
    made = rows.take()
    assert made is not None
    assert made.column("timestamp").cast("int64").to_pylist() == [1000, ENDLESS_US, -ENDLESS_US, 2000]


def test_a_header_name_that_is_no_text_is_replaced_as_in_java() -> None:
    batch = build_batch([Record(0, 0, None, None, [("a\udcff", b"1"), ("b", None)])])
    assert read(batch)[0][4] == [("a\ufffd", b"1"), ("b", None)]


def test_an_empty_batch_has_no_rows() -> None:
    assert read(build_batch([], last_offset=4)) == []


@pytest.mark.parametrize(
    "records", [[Record(-1, 0, None, b"")] * 33_000, [Record(-1, 0, None, b"x" * 1_000_000)] * 9], ids=["rows", "bytes"]
)
def test_enough_has_come_after_many_rows_or_many_bytes(records: list[Record]) -> None:
    rows = Rows("t", 0, Reading(headers=False))
    added(rows, build_batch(records[:1]))
    before = rows.is_enough
    added(rows, build_batch(records))
    assert (before, rows.is_enough) == (False, True)
    assert len(taken(rows)) == len(records) + 1
    assert rows.take() is None


def damages(batch: bytes) -> list[bytes]:
    """The batch with each byte of its records changed in some ways."""
    return [
        batch[:position] + bytes([value]) + batch[position + 1 :]
        for position in range(61, len(batch))
        for value in {0, 1, 2, 127, 128, 255, batch[position] ^ 1, batch[position] ^ 64}
    ]


def test_damaged_records_are_refused_or_read_as_one_by_one() -> None:
    """Whatever the bytes are, no row has what is not in the batch, and nothing but `CorruptBatch` is raised."""
    whole = build_batch(
        [
            Record(-1, 1, b"key", b"value"),
            Record(-1, 90, None, b"longer value"),
            Record(-1, 2, b"", None, [("h", b"x")]),
        ]
    )
    refused = 0
    for batch in damages(whole):
        try:
            expected = one_by_one(batch)
        except CorruptBatch:
            refused += 1
            with pytest.raises(CorruptBatch):
                read(batch)
        else:
            assert read(batch, first=-MOST) == expected
    assert refused > 100


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_a_wrong_number_of_records_is_refused(count: int) -> None:
    batch = bytearray(build_batch([Record(-1, 1, None, b"v")] * 2))
    batch[57:61] = count.to_bytes(4, "big")
    with pytest.raises(CorruptBatch):
        read(bytes(batch))
