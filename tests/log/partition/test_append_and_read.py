"""Appending batches and reading them back: offsets, ranges, bounds, rolling, lost descriptors."""

from __future__ import annotations

import os
import shutil
from collections import deque
from pathlib import Path

import pytest

from kwire.base.doors import Doors
from kwire.base.file_range import FileRange
from kwire.log.common import file_cache
from kwire.log.common.append_info import NO_DATA, Origin
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.segment.segment import SMALL_READ, TAIL_BATCHES, Segment
from tests.log.log_tools import NOW_MS, ManualClock, append, batch, content, fails, headers, open_log, read_all


def test_offsets_and_leader_epoch_are_patched_into_the_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 3, epoch=4)
    info = log.append_as_leader(memoryview(batch(2)), leader_epoch=5)
    assert (info.first_offset, info.last_offset, info.log_start_offset, info.duplicate) == (3, 4, 0, False)
    got = headers(log.read(0, 1 << 20, upto=5))
    assert [(h.base_offset, h.partition_leader_epoch, h.count) for h in got] == [(0, 4, 3), (3, 5, 2)]


def test_a_batch_in_read_only_bytes_is_copied(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 3)
    mine = bytes(batch(2))
    before = bytes(mine)
    log.append_as_leader(mine, leader_epoch=9)
    log.append_as_leader(memoryview(mine), leader_epoch=9)
    assert mine == before
    assert read_all(log) == [(0, 2), (3, 4), (5, 6)]


def test_an_offset_inside_a_batch_returns_the_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(5):
        append(log, 10)
    assert headers(log.read(27, 1 << 20, upto=50))[0].base_offset == 20


def test_reads_stop_at_the_given_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=600))
    for _ in range(20):
        append(log, 2)
    for upto in range(0, 41, 2):
        got = headers(log.read(0, 1 << 20, upto=upto))
        assert all(header.next_offset <= upto for header in got)
    assert content(log.read(10, 100, upto=10)) == b""
    assert log.read(40, 100, upto=40) is NO_DATA


def test_offsets_outside_the_log_are_out_of_range(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 4)
    log.delete_records_before(2)
    assert fails(lambda: log.read(1, 100, upto=4)) == "OFFSET_OUT_OF_RANGE"
    assert fails(lambda: log.read(5, 100, upto=4)) == "OFFSET_OUT_OF_RANGE"
    assert fails(lambda: log.read(-1, 100, upto=4)) == "OFFSET_OUT_OF_RANGE"
    assert headers(log.read(2, 100, upto=4))[0].base_offset == 0


def test_the_last_batches_are_read_without_being_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path)
    looked_for: list[int] = []
    monkeypatch.setattr(Segment, "find", lambda segment, offset: looked_for.append(offset))
    for count in range(1, 5 * TAIL_BATCHES):
        append(log)
        known = len(log.active._tail)
        assert min(count, TAIL_BATCHES // 2) <= known <= TAIL_BATCHES
        for offset in (count - 1, count - known):
            assert headers(log.read(offset, 100, upto=count))[0].base_offset == offset
    assert not looked_for


def test_a_first_batch_larger_than_the_limit_is_returned_only_with_min_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 1, size=5000)
    append(log, 1, size=10)
    whole = log.read(0, 100, upto=2)
    assert len(content(whole)) == whole.size == len(batch(1, size=5000))
    assert log.read(0, 100, upto=2, min_one=False) is NO_DATA
    assert log.read(0, 0, upto=2, min_one=False) is NO_DATA


def test_small_reads_are_bytes_and_large_ones_are_file_ranges(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 1, size=100)
    append(log, 1, size=2 * SMALL_READ)
    assert isinstance(log.read(0, 200, upto=1).records, bytes)
    large = log.read(0, 1 << 20, upto=2)
    assert isinstance(large.records, FileRange)
    assert [header.base_offset for header in headers(large)] == [0, 1]


def test_segments_roll_by_size_and_reads_continue_across_them(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=1000))
    for _ in range(50):
        append(log, 3, size=20)
    assert len(log.segments) > 5
    assert all(segment.size <= 1000 for segment in log.segments)
    assert read_all(log) == [(3 * i, 3 * i + 2) for i in range(50)]
    assert read_all(log, max_bytes=1) == [(3 * i, 3 * i + 2) for i in range(50)]
    assert log.size == sum(len(batch(3, size=20)) for _ in range(50))


def test_segments_roll_by_the_records_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000, message_timestamp_after_max_ms=10**9))
    append(log, timestamp=NOW_MS)
    append(log, timestamp=NOW_MS + 1000)
    assert len(log.segments) == 1
    append(log, timestamp=NOW_MS + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_without_timestamps_roll_by_the_clock(tmp_path: Path) -> None:
    clock = ManualClock()
    log = open_log(tmp_path, LogConfig(segment_ms=1000), clock=clock)
    append(log, timestamp=-1)
    clock.now_ms += 1001
    append(log, timestamp=-1)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_segments_roll_when_an_index_is_full(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_index_bytes=24, index_interval_bytes=0))
    for i in range(10):
        append(log, timestamp=NOW_MS + i)
    assert len(log.segments) > 2
    assert all(segment.index.count <= 3 and segment.time_index.count <= 2 for segment in log.segments)


def test_segments_roll_before_an_offset_no_longer_fits_the_index(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log)
    far = bytearray(batch(1))
    far[0:8] = (2**31).to_bytes(8, "big")
    log.append_as_follower(far)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert log.log_end_offset == 2**31 + 1


def test_a_follower_keeps_offsets_and_epochs_and_refuses_what_does_not_follow(tmp_path: Path) -> None:
    leader, follower = open_log(tmp_path / "a"), open_log(tmp_path / "b")
    for epoch in (1, 1, 3):
        append(leader, 5, epoch=epoch)
    sent = content(leader.read(0, 1 << 20, upto=15))
    info = follower.append_as_follower(sent + sent[:40])  # the last batch of a fetch may be incomplete
    assert (info.first_offset, info.last_offset, follower.log_end_offset) == (0, 14, 15)
    assert follower.epochs.entries == leader.epochs.entries
    assert content(follower.read(0, 1 << 20, upto=15)) == sent
    assert fails(lambda: follower.append_as_follower(sent)) == "OFFSET_OUT_OF_RANGE"


def test_a_coordinator_may_append_several_batches_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 2)
    info = log.append_as_leader(bytes(batch(2) + batch(3)), leader_epoch=0, origin=Origin.COORDINATOR)
    assert (info.first_offset, info.last_offset) == (2, 6)
    assert read_all(log) == [(0, 1), (2, 3), (4, 6)]


def test_an_idle_log_owns_no_descriptor_and_opens_again_when_used(tmp_path: Path) -> None:
    env = LogEnvironment.create(Doors(), file_budget=3)
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=200), env=env)
    for _ in range(30):
        append(log, 1, size=50, timestamp=-1)
    assert len(log.segments) >= 10
    assert env.cache.open_count <= 3
    assert read_all(log) == [(i, i) for i in range(30)]
    assert env.cache.open_count <= 3
    for _ in range(2):
        deque(env.cache.sweep())
    assert env.cache.open_count == 0
    assert not any(segment.index.loaded or segment.time_index.loaded for segment in log.segments)
    assert append(log, 1, timestamp=-1) == 30


def test_idle_files_are_closed_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_cache, "CLOSED_PER_STEP", 2)
    env = LogEnvironment.create(Doors())
    logs = [open_log(tmp_path / str(number), env=env) for number in range(6)]
    for log in logs:
        append(log, 1, timestamp=-1)
    deque(env.cache.sweep())
    assert env.cache.open_count == 6
    steps = env.cache.sweep()
    next(steps)
    assert [log.active.file.fd >= 0 for log in logs] == [False] * 2 + [True] * 4
    append(logs[2], 1, timestamp=-1)  # used between two steps
    logs[3].release()  # deleted: must not be touched any more
    shutil.rmtree(tmp_path / "3")
    deque(steps)
    assert [log.active.file.fd >= 0 for log in logs if not log.closed] == [False, False, True, False, False]
    assert not (tmp_path / "3").exists()


def test_a_range_being_sent_keeps_its_file_open_while_the_segment_is_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=60_000))
    for _ in range(3):
        append(log, 1, size=40_000)
    data = log.read(0, 1 << 20, upto=3)
    assert isinstance(data.records, FileRange)
    log.delete_records_before(3)
    log.delete_old_segments()
    assert log.segments[0].base_offset == 2
    assert not list(tmp_path.glob("t-0/00000000000000000000.*"))
    assert len(content(data)) == data.size

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(data.records.fd)


def test_a_segment_that_vanished_is_a_storage_error_and_not_an_empty_log(tmp_path: Path) -> None:
    env = LogEnvironment.create(Doors())
    log = open_log(tmp_path, env=env)
    append(log, 3, timestamp=-1)
    env.cache.close_all()
    (tmp_path / "t-0/00000000000000000000.log").unlink()
    assert fails(lambda: log.read(0, 1000, upto=3)) == "KAFKA_STORAGE_ERROR"
    assert not (tmp_path / "t-0/00000000000000000000.log").exists()


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log)
    log.close()
    log.close()
    assert log.recovery_point == 1
