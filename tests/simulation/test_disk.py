"""The simulated disk behaves as the real one does, and forgets what was not synced."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.simulation import Simulation
from kwire.base.doors import Files

CREATE = os.O_RDWR | os.O_CREAT


@pytest.fixture(params=["real", "simulated"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param == "real":
        return Files(), str(tmp_path)
    disk = Simulation(1).machine("a").disk
    disk.makedirs("/work")
    return disk, "/work"


def test_positioned_reads_and_writes(files: tuple[Files, str]) -> None:
    door, home = files
    fd = door.open(f"{home}/file", CREATE, 0o644)
    assert door.pwrite(fd, b"hello", 3) == 5
    assert door.pwritev(fd, [b"wor", memoryview(b"ld")], 8) == 5
    assert door.pread(fd, 100, 0) == b"\0\0\0helloworld"
    assert door.pread(fd, 4, 11) == b"ld"
    buffers = [bytearray(5), bytearray(20)]
    assert door.preadv(fd, buffers, 3) == 10
    assert (bytes(buffers[0]), bytes(buffers[1][:5])) == (b"hello", b"world")
    door.ftruncate(fd, 5)
    assert door.size(fd) == door.stat(f"{home}/file").st_size == 5
    door.ftruncate(fd, 7)
    assert door.pread(fd, 100, 3) == b"he\0\0"
    door.fsync(fd)
    door.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        door.pread(fd, 1, 0)


def test_names(files: tuple[Files, str]) -> None:
    door, home = files
    door.makedirs(f"{home}/a/b")
    door.write_atomic(f"{home}/a/b/one", b"1")
    door.write_atomic(f"{home}/a/two", b"2")
    assert door.listdir(f"{home}/a") == ["b", "two"]
    assert door.is_dir(f"{home}/a/b") and not door.is_dir(f"{home}/a/two")
    door.replace(f"{home}/a/b", f"{home}/a/c")
    assert door.read(f"{home}/a/c/one") == b"1" and not door.exists(f"{home}/a/b/one")
    door.replace(f"{home}/a/two", f"{home}/a/c/one")
    assert door.read(f"{home}/a/c/one") == b"2" and not door.exists(f"{home}/a/two")
    door.sync_dir(f"{home}/a/c")
    door.unlink(f"{home}/a/c/one")
    assert door.listdir(f"{home}/a/c") == []
    door.rmtree(f"{home}/a")
    assert not door.exists(f"{home}/a") and not door.exists(f"{home}/a/c")


@pytest.mark.parametrize(
    ("error", "attempt"),
    [
        (FileNotFoundError, lambda door, home: door.open(f"{home}/none", os.O_RDONLY)),
        (FileNotFoundError, lambda door, home: door.open(f"{home}/no/file", CREATE)),
        (FileNotFoundError, lambda door, home: door.read(f"{home}/none")),
        (FileNotFoundError, lambda door, home: door.unlink(f"{home}/none")),
        (FileNotFoundError, lambda door, home: door.replace(f"{home}/none", f"{home}/other")),
        (FileNotFoundError, lambda door, home: door.listdir(f"{home}/none")),
        (FileNotFoundError, lambda door, home: door.rmtree(f"{home}/none")),
        (FileNotFoundError, lambda door, home: door.stat(f"{home}/none")),
        (IsADirectoryError, lambda door, home: door.open(home, CREATE)),
    ],
)
def test_failures(files: tuple[Files, str], error: type[OSError], attempt: Callable[[Files, str], object]) -> None:
    with pytest.raises(error):
        attempt(*files)


def test_opening_exclusively_and_truncating(files: tuple[Files, str]) -> None:
    door, home = files
    door.write_atomic(f"{home}/file", b"content")
    with pytest.raises(FileExistsError):
        door.open(f"{home}/file", CREATE | os.O_EXCL)
    fd = door.open(f"{home}/file", CREATE | os.O_TRUNC)
    assert door.size(fd) == 0
    door.close(fd)


def test_an_open_file_outlives_its_name(files: tuple[Files, str]) -> None:
    door, home = files
    fd = door.open(f"{home}/file", CREATE)
    door.pwrite(fd, b"still here", 0)
    door.unlink(f"{home}/file")
    assert door.pread(fd, 100, 0) == b"still here"
    door.close(fd)


def test_a_lock_is_held_until_it_is_closed(files: tuple[Files, str]) -> None:
    door, home = files
    lock = door.lock(f"{home}/.lock")
    assert lock is not None
    assert door.lock(f"{home}/.lock") is None
    door.close(lock)
    again = door.lock(f"{home}/.lock")
    assert again is not None
    door.close(again)


def test_a_power_loss_takes_what_was_not_synced() -> None:
    disk = Simulation(1).machine("a").disk
    disk.makedirs("/d")
    fd = disk.open("/d/log", CREATE)
    disk.pwrite(fd, b"durable", 0)
    disk.fsync(fd)
    disk.sync_dir("/d")
    disk.pwrite(fd, b"LOST", 2)
    disk.pwrite(fd, b"and more", 7)
    disk.ftruncate(fd, 3)
    disk.open("/d/unsynced", CREATE)
    disk.replace("/d/log", "/d/renamed")
    disk.lose_unsynced()
    assert disk.listdir("/d") == ["log"]
    assert disk.read("/d/log") == b"durable"
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.pread(fd, 1, 0)


def test_an_atomic_write_survives_a_power_loss_whole() -> None:
    disk = Simulation(1).machine("a").disk
    disk.makedirs("/d")
    disk.write_atomic("/d/checkpoint", b"old")
    disk.write_atomic("/d/checkpoint", b"new")
    disk.lose_unsynced()
    assert disk.read("/d/checkpoint") == b"new"


def test_a_renamed_directory_keeps_what_its_files_have_not_synced_apart() -> None:
    disk = Simulation(1).machine("a").disk
    disk.makedirs("/d/topic-0")
    fd = disk.open("/d/topic-0/log", CREATE)
    disk.pwrite(fd, b"x", 0)
    disk.replace("/d/topic-0", "/d/topic-0-delete")
    disk.lose_unsynced()
    assert disk.listdir("/d") == ["topic-0-delete"]
    assert disk.listdir("/d/topic-0-delete") == []
