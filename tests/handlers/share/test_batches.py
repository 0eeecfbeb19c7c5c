"""The batches of what was read, and the part of them that is sent."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from kwire.base.doors import Files
from kwire.base.file_range import FileRange
from kwire.codec.records import ABORT, Record, build_batch, build_control_batch
from kwire.handlers.share.batches import batches_of, slice_acquired
from kwire.share.partition import SharePartition
from kwire.share.values import (
    Acknowledgement,
    AcquiredRecords,
    FetchedBatch,
    Limits,
    PersistedState,
    RecordState,
    StateBatch,
)


class Owner:
    def retain(self) -> None:
        """Nothing is counted."""

    def release(self) -> None:
        """Nothing is counted."""


def batch(base_offset: int, count: int, value: bytes = b"v") -> bytes:
    records = [Record(offset=base_offset + each, timestamp=1, key=None, value=value) for each in range(count)]
    return bytes(build_batch(records, base_offset=base_offset))


BATCHES = [batch(10, 5), batch(15, 1, b"x" * 40_000), batch(20, 5)]
DATA = b"".join(BATCHES)


def as_range(directory: Path, data: bytes) -> FileRange:
    path = directory / "log"
    path.write_bytes(b"before" + data + b"after")
    return FileRange(os.open(path, os.O_RDONLY), 6, len(data), Owner())


def test_all_complete_batches_are_found(tmp_path: Path) -> None:
    expected = [FetchedBatch(10, 14), FetchedBatch(15, 15), FetchedBatch(20, 24)]
    assert batches_of(DATA, Files()).batches == expected
    assert batches_of(as_range(tmp_path, DATA), Files()).batches == expected
    assert batches_of(DATA[:-1], Files()).batches == expected[:2]
    assert batches_of(b"", Files()).batches == []


def test_the_end_of_an_aborted_transaction_is_known() -> None:
    marker = build_control_batch(
        ABORT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=1, base_offset=30
    )
    assert batches_of(marker, Files()).batches == [FetchedBatch(30, 30, 7, True, True)]


@pytest.mark.parametrize(
    ("acquired", "sent"),
    [
        ([(10, 24)], BATCHES),
        ([(12, 13)], BATCHES[:1]),
        ([(11, 11), (15, 15)], BATCHES[:2]),
        ([(15, 15)], BATCHES[1:2]),
        ([(16, 24)], BATCHES[2:]),
        ([], []),
    ],
)
def test_batches_without_acquired_records_at_the_ends_are_not_sent(
    tmp_path: Path, acquired: list[tuple[int, int]], sent: list[bytes]
) -> None:
    given = [AcquiredRecords(first, last, 1) for first, last in acquired]
    assert slice_acquired(DATA, batches_of(DATA, Files()), given) == b"".join(sent)
    whole = as_range(tmp_path, DATA)
    part = slice_acquired(whole, batches_of(whole, Files()), given)
    found = os.pread(part.fd, part.size, part.position) if isinstance(part, FileRange) else part
    assert found == b"".join(sent)


def test_batches_are_looked_at_as_far_as_records_can_be_acquired() -> None:
    log = b"".join(batch(base, 5) for base in range(0, 100, 5))
    assert [each.last_offset for each in batches_of(log, Files(), after=7, count=6).batches] == [4, 9, 14]
    assert [each.last_offset for each in batches_of(log, Files(), after=-1, count=1).batches] == [4]
    assert len(batches_of(log, Files(), after=50, count=1000).batches) == 20


@pytest.mark.parametrize("seed", range(20))
def test_what_lies_further_behind_makes_no_difference(seed: int) -> None:
    random = Random(seed)
    log, base = b"", 0
    while base < 600:
        base += random.choice((0, 0, 0, random.randint(1, 30)))
        count = random.randint(1, 40)
        log += batch(base, count)
        base += count
    limits = Limits(max_record_locks=150, delivery_count_limit=5, lock_duration_ms=1000, renew_enabled=True)
    persisted = PersistedState(1, 5, [StateBatch(7, 20, RecordState.AVAILABLE, 3)])
    near, far = (SharePartition(lambda: limits, persisted) for _ in range(2))
    for _ in range(60):
        wanted, limited = random.randint(1, 90), random.random() < 0.5
        given = [acquired_of(each, log, wanted, limited, each is near) for each in (near, far)]
        assert given[0] == given[1]
        for first, last, _ in given[0]:
            kind = random.choice((1, 1, 2, 3))
            for each in (near, far):
                write = each.acknowledge("m", [Acknowledgement(first, last, [kind])], 0)
                assert write is not None
                each.committed(write, 0)
        assert (near.start_offset, near.end_offset) == (far.start_offset, far.end_offset)


def acquired_of(
    machine: SharePartition, log: bytes, wanted: int, limited: bool, near: bool
) -> list[tuple[int, int, int]]:
    offset = machine.next_fetch_offset()
    batches, ends = batches_of(log, Files())
    before = sum(each.last_offset < offset for each in batches)
    data = log[ends[before - 1] :] if before else log
    read = batches_of(data, Files(), machine.end_offset, wanted) if near else batches_of(data, Files())
    acquired = machine.acquire(
        "m",
        read.batches,
        fetch_offset=offset,
        max_records=wanted,
        batch_size=30,
        record_limit=limited,
        now_ms=0,
    )
    return [tuple(each) for each in acquired]  # type: ignore[misc]
