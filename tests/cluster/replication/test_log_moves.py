"""Moving a log between log directories, with real logs on a real disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import PATIENCE_S
from kwire.base.doors import Doors
from kwire.base.quota import UNLIMITED, Quota
from kwire.codec.records import Record, build_batch
from kwire.log.common.log_config import LogConfig
from kwire.log.common.log_dirs import LogDirectory
from kwire.log.common.names import FUTURE_DIRECTORY_SUFFIX
from kwire.log.manager import log_mover
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.log_mover import LogMover, copy_chunk
from kwire.log.manager.settings import ManagerSettings
from kwire.log.partition.partition_log import PartitionLog

CONFIG = LogConfig(segment_bytes=20_000, retention_ms=-1)
ID = b"i" * 16


def batch(number: int) -> bytearray:
    record = Record(
        offset=0, timestamp=1_700_000_000_000 + number, key=None, value=b"<%09d>" % number * 100, headers=[]
    )
    return bytearray(build_batch([record]))


def append(log: PartitionLog | None, numbers: Iterable[int]) -> None:
    assert log is not None
    for number in numbers:
        log.append_as_leader(batch(number), leader_epoch=0)
    log.advance_high_watermark(log.log_end_offset)


def contents(log: PartitionLog | None) -> bytes:
    """All bytes of all segments, by base offset."""
    assert log is not None
    data: dict[int, bytes] = {}
    for segment in log.segments:
        with open(segment.file.path, "rb") as file:
            data[segment.base_offset] = file.read()
    return b"".join(data[base] for base in sorted(data))


class Two:
    """Logs in two log directories, and a mover."""

    def __init__(self, path: Path) -> None:
        self.doors = Doors()
        self.paths = [str(path / "one"), str(path / "two")]
        self.logs = LogManager(self.doors, self.paths, lambda topic: CONFIG, ManagerSettings())
        for directory in self.logs.directories:
            directory.lock()
        self.moved: list[PartitionLog] = []
        self.now_s = 0.0
        self.quota = Quota(lambda: self.now_s)
        self.mover = LogMover(self.doors, self.logs, self.quota, self.moved.append)

    def other(self, log: PartitionLog) -> LogDirectory:
        here = self.logs.directory_of(log.topic, log.partition)
        return next(each for each in self.logs.directories if each is not here)

    async def close(self) -> None:
        await self.mover.close()
        await self.logs.close()
        self.doors.executor.close()


@pytest.fixture(autouse=True)
def _small_logs_move_like_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_mover, "REST_BYTES", 5_000)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    made = Two(tmp_path)
    await made.logs.load_all()
    yield made
    await made.close()


async def eventually(condition: Callable[[], object]) -> None:
    """Wait for timers and threads."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - threads set no event
            await asyncio.sleep(0.001)


def future_directories(directory: LogDirectory) -> list[str]:
    return [name for name in os.listdir(directory.path) if name.endswith(FUTURE_DIRECTORY_SUFFIX)]


async def settled(two: Two) -> None:
    await asyncio.gather(*(move.task for move in two.mover.moves.values()))


def task_of(two: Two) -> asyncio.Task[None]:
    """The task that moves the one log."""
    task = two.mover.moves["t", 0].task
    assert task is not None
    return task


async def test_a_moved_log_has_the_same_records_and_accepts_appends(two: Two) -> None:
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    before, target = contents(log), two.other(log)
    assert len(log.segments) > 3
    two.mover.start(log, target)
    await settled(two)
    (new,) = two.moved
    assert two.logs.get("t", 0) is new
    assert two.logs.directory_of("t", 0) is target
    assert contents(new) == before
    assert (new.log_start_offset, new.high_watermark, new.log_end_offset) == (0, 100, 100)
    append(new, range(100, 110))
    assert new.read(0, 10, upto=110).size > 0
    assert [path for path in two.paths if "t-0" in os.listdir(path)] == [target.path]


async def test_records_appended_during_a_move_move_too(two: Two) -> None:
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    two.mover.start(log, two.other(log))
    number = 100
    while not two.moved:
        append(two.logs.get("t", 0), [number])
        number += 1
        await asyncio.sleep(0.001)
    append(two.moved[0], [number])
    assert two.moved[0].log_end_offset == number + 1
    values = contents(two.moved[0])
    assert [values.count(b"<%09d>" % each) for each in (0, 99, 100, number)] == [100] * 4


async def test_producers_are_still_recognised_after_a_move(two: Two) -> None:
    log = two.logs.create("t", 0, ID)
    now_ms = two.doors.clock.time_ms()  # an old, idle producer would have expired
    record = Record(offset=0, timestamp=now_ms, key=None, value=b"x", headers=[])

    def idempotent(sequence: int) -> bytearray:
        return bytearray(build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence))

    log.append_as_leader(idempotent(0), leader_epoch=0)
    log.append_as_leader(idempotent(1), leader_epoch=0)
    two.mover.start(log, two.other(log))
    await settled(two)
    info = two.moved[0].append_as_leader(idempotent(1), leader_epoch=0)
    assert (info.duplicate, info.first_offset) == (True, 1)


async def test_records_deleted_during_a_move_stay_deleted(two: Two) -> None:
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    two.mover.start(log, two.other(log))
    await asyncio.sleep(0)
    log.delete_records_before(90)
    await settled(two)
    new = two.moved[0]
    assert (new.log_start_offset, new.log_end_offset) == (90, 100)
    assert new.segments[0].base_offset == log.segments[0].base_offset


async def test_a_cancelled_move_leaves_no_directory(two: Two) -> None:
    two.quota.rate = 1000
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    target = two.other(log)
    two.mover.start(log, target)
    task = task_of(two)
    await eventually(lambda: future_directories(target))
    here = two.logs.directory_of("t", 0)
    assert here is not None
    two.mover.start(log, here)  # back to where it is
    await asyncio.gather(task, return_exceptions=True)
    assert two.mover.moves == {}
    await eventually(lambda: not future_directories(target))
    append(log, [100])
    assert two.moved == []


async def test_a_cancelled_move_finishes_its_write_before_its_directory_is_removed(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    target = two.other(log)
    writing, go_on = threading.Event(), threading.Event()

    def slow_chunk(*arguments: Any, **options: Any) -> Any:
        writing.set()
        assert go_on.wait(30)
        return copy_chunk(*arguments, **options)

    monkeypatch.setattr(log_mover, "copy_chunk", slow_chunk)
    two.mover.start(log, target)
    task = task_of(two)
    await eventually(writing.is_set)
    two.mover.cancel("t", 0)
    await asyncio.sleep(0.02)
    assert future_directories(target)
    go_on.set()
    await asyncio.gather(task, return_exceptions=True)
    await eventually(lambda: not future_directories(target))


async def test_a_log_deleted_during_a_move_is_not_moved(two: Two) -> None:
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    two.mover.start(log, two.other(log))
    task = task_of(two)
    await asyncio.sleep(0)
    await two.logs.delete("t", 0)
    await task
    assert two.moved == []
    assert two.logs.get("t", 0) is None


async def test_a_crash_before_the_end_of_a_move_leaves_the_old_log_alone(two: Two, tmp_path: Path) -> None:
    log = two.logs.create("t", 0, ID)
    append(log, range(10))
    target = two.other(log)
    half = f"{target.path}/t-0.{'ab' * 16}{FUTURE_DIRECTORY_SUFFIX}"
    os.makedirs(half)
    before = contents(log)
    await two.close()
    again = Two(tmp_path)
    await again.logs.load_all()
    assert contents(again.logs.get("t", 0)) == before
    await eventually(lambda: not future_directories(target))
    await again.close()


async def test_a_crash_at_the_very_end_of_a_move_leaves_one_log(two: Two, tmp_path: Path) -> None:
    log = two.logs.create("t", 0, ID)
    append(log, range(10))
    here, there = log.directory, two.other(log)
    await two.close()
    shutil.copytree(here, f"{there.path}/t-0")
    again = Two(tmp_path)
    await again.logs.load_all()
    kept = again.logs.get("t", 0)
    assert kept is not None
    assert kept.log_end_offset == 10
    names = sorted(name for path in again.paths for name in os.listdir(path) if name.startswith("t-0"))
    assert names[0] == "t-0"
    assert names[1].endswith("-stray")
    assert len(names) == 2
    await again.close()


async def test_a_move_obeys_its_quota(two: Two) -> None:
    two.quota.rate = 20_000
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    before = contents(log)
    two.mover.start(log, two.other(log))
    await eventually(two.quota.is_exceeded)
    copied = two.quota.bytes_per_second()
    await asyncio.sleep(0.02)
    assert two.quota.bytes_per_second() == copied < log.size  # the quota's clock stands still
    task = task_of(two)
    while not task.done():
        two.now_s += 30.0
        await asyncio.sleep(0.001)
    assert contents(two.moved[0]) == before


async def test_a_move_continues_when_its_quota_is_lifted(two: Two) -> None:
    two.quota.rate = 0
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    two.mover.start(log, two.other(log))
    await eventually(two.quota.is_exceeded)
    two.quota.rate = UNLIMITED
    await asyncio.wait_for(settled(two), PATIENCE_S)
    assert two.moved
