"""Room that the file system sets aside for a log that grows quickly, and that is given back."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from kwire.base.doors import Doors, Files
from kwire.log.common import file_cache
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.partition.partition_log import PartitionLog
from tests.log.log_tools import append, open_log, read_all

ROOM = 64 * 1024
VALUE = 20_000


class Rooms(Files):
    """Files that note the room that is set aside (position, size) and the lengths they are cut to; ``failing``: with
    this error instead."""

    def __init__(self, failing: int = 0) -> None:
        self.failing = failing
        self.asked = 0
        self.rooms: list[tuple[int, int]] = []
        self.cut: list[int] = []

    def set_aside(self, fd: int, position: int, size: int) -> None:
        self.asked += 1
        if self.failing:
            raise OSError(self.failing, os.strerror(self.failing))
        assert position == self.size(fd)
        self.rooms.append((position, size))

    def ftruncate(self, fd: int, size: int) -> None:
        self.cut.append(size)
        os.ftruncate(fd, size)


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_cache, "ROOM_BYTES", ROOM)


def log_on(path: Path, files: Files, config: LogConfig | None = None) -> tuple[PartitionLog, LogEnvironment]:
    env = LogEnvironment.create(Doors(files=files))
    return open_log(path, config, env=env), env


def sweep(env: LogEnvironment) -> None:
    for _ in env.cache.sweep():
        pass


def test_a_log_that_grows_quickly_has_room_for_what_comes_next(tmp_path: Path) -> None:
    files = Rooms()
    log, _ = log_on(tmp_path, files)
    for _ in range(3):
        append(log, size=VALUE)
    assert files.rooms == []
    for _ in range(10):
        append(log, size=VALUE)
    positions = [position for position, _ in files.rooms]
    assert {size for _, size in files.rooms} == {ROOM}
    assert len(positions) == 3
    assert all(later - before >= ROOM for before, later in pairwise(positions))


def test_a_log_that_grows_slowly_has_none(tmp_path: Path) -> None:
    files = Rooms()
    log, env = log_on(tmp_path, files)
    for _ in range(20):
        append(log, size=VALUE)
        sweep(env)
    assert files.asked == 0


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.ENOSPC])
def test_appends_go_on_where_there_is_no_room_to_set_aside(tmp_path: Path, error: int) -> None:
    files = Rooms(error)
    log, _ = log_on(tmp_path, files)
    for _ in range(20):
        append(log, size=VALUE)
    assert files.asked == 1  # not again for this file
    assert read_all(log) == [(offset, offset) for offset in range(20)]


def test_an_idle_log_gives_its_room_back_and_loses_nothing(tmp_path: Path) -> None:
    files = Rooms()
    log, env = log_on(tmp_path, files)
    for _ in range(10):
        append(log, size=VALUE)
    sweep(env)  # was used since the last one
    assert files.cut == []
    sweep(env)
    assert files.cut == [log.size]
    append(log, size=VALUE)
    assert read_all(log) == [(offset, offset) for offset in range(11)]
    log.close()
    assert files.cut == files.cut[:1]  # nothing was set aside since


def test_a_closed_log_gives_its_room_back(tmp_path: Path) -> None:
    files = Rooms()
    log, _ = log_on(tmp_path, files)
    for _ in range(10):
        append(log, size=VALUE)
    size = log.size
    log.close()
    assert files.cut == [size]


async def test_a_sealed_segment_gives_its_room_back_once_it_is_synced(tmp_path: Path) -> None:
    files = Rooms()
    log, _ = log_on(tmp_path, files, LogConfig(internal_segment_bytes=200_000))
    for _ in range(9):
        append(log, size=VALUE)
    assert (len(log.segments), files.cut) == (1, [])
    append(log, size=VALUE)
    await log.flusher.flush_to(9)
    assert len(log.segments) == 2
    assert files.cut == [log.segments[0].size]
    assert read_all(log) == [(offset, offset) for offset in range(10)]


def blocks(path: Path) -> int:
    """The bytes that a file takes on the disk."""
    return path.stat().st_blocks * 512


def test_room_is_on_the_disk_and_recovery_gives_it_back_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_cache, "ROOM_BYTES", 1 << 20)
    path = tmp_path / "t-0/00000000000000000000.log"
    files = Files()
    with open(tmp_path / "probe", "wb") as probe:
        try:
            files.set_aside(probe.fileno(), 0, 1 << 20)
        except OSError:
            pytest.skip("this file system has no room to set aside")
    log, _ = log_on(tmp_path, files)
    for _ in range(60):
        append(log, size=VALUE)
    assert path.stat().st_size == log.size
    assert blocks(path) >= log.size + (1 << 19)
    fd = log.active.file.fd
    log.active.file.fd = -1  # as after a crash: nothing is given back
    os.close(fd)
    again = open_log(tmp_path, clean=False)
    assert read_all(again) == [(offset, offset) for offset in range(60)]
    assert blocks(path) < log.size + (1 << 16)
    again.close()


def test_a_file_system_in_memory_sets_nothing_aside() -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("no tmpfs")
    with TemporaryFile(dir="/dev/shm") as file, pytest.raises(OSError, match="ext4"):
        Files().set_aside(file.fileno(), 0, 1 << 20)
