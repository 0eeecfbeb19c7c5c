"""Moving a log between data directories, on the real log and a real disk."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading

import pytest

from kwire.base.doors import Doors
from kwire.base.quota import UNLIMITED, Quota
from kwire.codec.records import Record, build_batch
from kwire.log.common.log_config import LogConfig
from kwire.log.common.names import FUTURE_DIRECTORY_SUFFIX
from kwire.log.manager import log_mover
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.log_mover import LogMover, copy_chunk

CONFIG = LogConfig(segment_bytes=20_000, retention_ms=-1)
ID = b"i" * 16


def batch(number):
    record = Record(
        offset=0, timestamp=1_700_000_000_000 + number, key=None, value=b"<%09d>" % number * 100, headers=[]
    )
    return bytearray(build_batch([record]))


def append(log, numbers):
    for number in numbers:
        log.append_as_leader(batch(number), leader_epoch=0)
    log.advance_high_watermark(log.log_end_offset)


def contents(log):
    """All bytes of all segments, by base offset."""
    data = {}
    for segment in log.segments:
        with open(segment.file.path, "rb") as file:
            data[segment.base_offset] = file.read()
    return b"".join(data[base] for base in sorted(data))


class Two:
    def __init__(self, path):
        self.doors = Doors()
        self.paths = [str(path / "one"), str(path / "two")]
        self.logs = LogManager(self.doors, self.paths, lambda topic: CONFIG)
        for directory in self.logs.directories:
            directory.lock()
        self.moved = []
        self.now_s = 0.0
        self.quota = Quota(lambda: self.now_s)
        self.mover = LogMover(self.doors, self.logs, self.quota, self.moved.append)

    def other(self, log):
        here = self.logs.directory_of(log.topic, log.partition)
        return next(each for each in self.logs.directories if each is not here)

    async def close(self):
        await self.mover.close()
        await self.logs.close()
        self.doors.executor.close()


@pytest.fixture(autouse=True)
def _little_logs_move_as_big_ones_do(monkeypatch):
    monkeypatch.setattr(log_mover, "REST_BYTES", 5_000)


@pytest.fixture
async def two(tmp_path):
    made = Two(tmp_path)
    await made.logs.load_all()
    yield made
    await made.close()


async def eventually(condition):
    """Wait for timers and threads to do their part."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - threads do not tell
            await asyncio.sleep(0.001)


def future_directories(directory):
    return [name for name in os.listdir(directory.path) if name.endswith(FUTURE_DIRECTORY_SUFFIX)]


async def settled(two):
    await asyncio.gather(*(move.task for move in two.mover.moves.values()))


async def test_a_moved_log_has_the_same_records_and_goes_on(two):
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


async def test_what_is_appended_meanwhile_moves_too(two):
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


async def test_producers_are_still_recognised_after_a_move(two):
    log = two.logs.create("t", 0, ID)
    now_ms = two.doors.clock.time_ms()  # an idle producer of long ago would be forgotten
    record = Record(offset=0, timestamp=now_ms, key=None, value=b"x", headers=[])

    def idempotent(sequence):
        return bytearray(build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence))

    log.append_as_leader(idempotent(0), leader_epoch=0)
    log.append_as_leader(idempotent(1), leader_epoch=0)
    two.mover.start(log, two.other(log))
    await settled(two)
    info = two.moved[0].append_as_leader(idempotent(1), leader_epoch=0)
    assert (info.duplicate, info.first_offset) == (True, 1)


async def test_records_deleted_meanwhile_do_not_come_back(two):
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    two.mover.start(log, two.other(log))
    await asyncio.sleep(0)
    log.delete_records_before(90)
    await settled(two)
    new = two.moved[0]
    assert (new.log_start_offset, new.log_end_offset) == (90, 100)
    assert new.segments[0].base_offset == log.segments[0].base_offset


async def test_a_move_that_is_given_up_leaves_nothing(two):
    two.quota.rate = 1000
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    target = two.other(log)
    two.mover.start(log, target)
    task = two.mover.moves["t", 0].task
    await eventually(lambda: future_directories(target))
    two.mover.start(log, two.logs.directory_of("t", 0))  # back to where it is
    await asyncio.gather(task, return_exceptions=True)
    assert two.mover.moves == {}
    await eventually(lambda: not future_directories(target))
    append(log, [100])
    assert two.moved == []


async def test_a_move_that_is_given_up_ends_what_it_writes_before_it_is_removed(two, monkeypatch):
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    target = two.other(log)
    writing, go_on = threading.Event(), threading.Event()

    def slow_chunk(*arguments, **options):
        writing.set()
        assert go_on.wait(30)
        return copy_chunk(*arguments, **options)

    monkeypatch.setattr(log_mover, "copy_chunk", slow_chunk)
    two.mover.start(log, target)
    task = two.mover.moves["t", 0].task
    await eventually(writing.is_set)
    two.mover.cancel("t", 0)
    await asyncio.sleep(0.02)
    assert future_directories(target)
    go_on.set()
    await asyncio.gather(task, return_exceptions=True)
    await eventually(lambda: not future_directories(target))


async def test_a_log_deleted_meanwhile_is_not_moved(two):
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    two.mover.start(log, two.other(log))
    task = two.mover.moves["t", 0].task
    await asyncio.sleep(0)
    await two.logs.delete("t", 0)
    await task
    assert two.moved == []
    assert two.logs.get("t", 0) is None


async def test_a_crash_before_the_end_of_a_move_leaves_the_old_log_alone(two, tmp_path):
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


async def test_a_crash_at_the_very_end_of_a_move_leaves_one_log(two, tmp_path):
    log = two.logs.create("t", 0, ID)
    append(log, range(10))
    here, there = log.directory, two.other(log)
    await two.close()
    shutil.copytree(here, f"{there.path}/t-0")
    again = Two(tmp_path)
    await again.logs.load_all()
    assert again.logs.get("t", 0).log_end_offset == 10
    names = sorted(name for path in again.paths for name in os.listdir(path) if name.startswith("t-0"))
    assert names[0] == "t-0"
    assert names[1].endswith("-stray")
    assert len(names) == 2
    await again.close()


async def test_the_copy_keeps_to_the_limit(two):
    two.quota.rate = 20_000
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    before = contents(log)
    two.mover.start(log, two.other(log))
    await eventually(two.quota.is_exceeded)
    copied = two.quota.bytes_per_second()
    await asyncio.sleep(0.02)
    assert two.quota.bytes_per_second() == copied < log.size  # no time passes on the quota's clock
    task = two.mover.moves["t", 0].task
    while not task.done():
        two.now_s += 30.0
        await asyncio.sleep(0.001)
    assert contents(two.moved[0]) == before


async def test_a_limit_that_is_lifted_lets_a_move_go_on(two):
    two.quota.rate = 0
    log = two.logs.create("t", 0, ID)
    append(log, range(100))
    two.mover.start(log, two.other(log))
    await eventually(two.quota.is_exceeded)
    two.quota.rate = UNLIMITED
    await asyncio.wait_for(settled(two), 5)
    assert two.moved
