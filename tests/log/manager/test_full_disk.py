"""A file system that fills up: writes fail, reads continue, and writes continue when there is space again."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.base.doors import Files
from kwire.base.errors import KafkaError
from kwire.log.common.environment import StorageError
from kwire.log.common.log_config import LogConfig
from tests.log.log_tools import ManualClock, append, batch, doors_at, open_log, read_all

CONFIG = LogConfig(internal_segment_bytes=100_000)


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a MiB."""
    libc = ctypes.CDLL(None, use_errno=True)
    path = tmp_path / "tiny"
    path.mkdir()
    mount = getattr(libc, "mount", None)
    if mount is None or mount(b"tmpfs", os.fsencode(path), b"tmpfs", 0, b"size=512k") != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield path
    finally:
        libc.umount2(os.fsencode(path), 2)


def test_writes_fail_while_the_disk_is_full_and_continue_when_there_is_space(tiny: Path) -> None:
    ballast = tiny / "ballast"
    ballast.write_bytes(bytes(200_000))
    log = open_log(tiny, CONFIG)
    with pytest.raises(StorageError) as full:
        for _ in range(200):
            append(log, 1, size=5000)
    assert full.value.code.name == "KAFKA_STORAGE_ERROR" and full.value.transient
    end, batches = log.log_end_offset, read_all(log)
    assert len(batches) == end > 20
    with pytest.raises(KafkaError):
        append(log, 1, size=90_000)
    assert read_all(log) == batches
    ballast.unlink()
    assert append(log, 1, size=5000) == end
    assert [first for first, _ in read_all(log)] == list(range(end + 1))
    log.close()
    again = open_log(tiny, CONFIG, recovery_point=end + 1)
    assert again.log_end_offset == end + 1
    again.release()


class Stubborn(Files):
    """Files that cannot be created for a while."""

    refuse = 0

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        if self.refuse and flags & os.O_CREAT:
            raise OSError(self.refuse, os.strerror(self.refuse), path)
        return os.open(path, flags, mode)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_segment_that_cannot_be_created_leaves_the_old_one_unchanged(tmp_path: Path, code: int) -> None:
    files = Stubborn()
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=1000), doors=doors_at(ManualClock(), files=files))
    while log.active.size < 800:
        append(log, 1, size=100)
    end = log.log_end_offset
    files.refuse = code
    with pytest.raises(StorageError) as failed:
        log.append_as_leader(batch(1, size=400), leader_epoch=0)
    assert failed.value.transient
    assert (log.log_end_offset, len(log.segments)) == (end, 1)
    files.refuse = 0
    assert append(log, 1, size=400) == end
    assert len(log.segments) == 2
    log.close()
    assert open_log(tmp_path, LogConfig(internal_segment_bytes=1000), recovery_point=end + 1).log_end_offset == end + 1


def test_a_failed_disk_is_not_a_transient_error(tmp_path: Path) -> None:
    files = Stubborn()
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=1000), doors=doors_at(ManualClock(), files=files))
    while log.active.size < 800:
        append(log, 1, size=100)
    files.refuse = errno.EIO
    with pytest.raises(StorageError) as failed:
        log.append_as_leader(batch(1, size=400), leader_epoch=0)
    assert not failed.value.transient
    log.release()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_a_log_that_cannot_be_truncated_fully_stays_as_it_was(tmp_path: Path, code: int) -> None:
    files = Stubborn()
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=1000), doors=doors_at(ManualClock(), files=files))
    while len(log.segments) < 3:
        append(log, 1, size=400)
    end, batches = log.log_end_offset, read_all(log)
    files.refuse = code
    with pytest.raises(StorageError) as failed:
        log.truncate_fully_and_start_at(end + 100)
    assert failed.value.transient
    assert (log.log_end_offset, log.log_start_offset) == (end, 0)
    assert read_all(log) == batches
    files.refuse = 0
    assert append(log, 1, size=100) == end
    log.truncate_fully_and_start_at(end + 100)
    assert (log.log_end_offset, log.log_start_offset, log.size) == (end + 100, end + 100, 0)
    assert append(log, 1, size=100) == end + 100
    log.release()


def test_a_log_can_be_truncated_fully_to_the_base_offset_of_its_last_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=1000))
    while len(log.segments) < 3:
        append(log, 1, size=400)
    base = log.active.base_offset
    log.truncate_fully_and_start_at(base)
    assert (log.log_end_offset, log.log_start_offset, log.size, len(log.segments)) == (base, base, 0, 1)
    assert append(log, 1, size=100) == base
    assert [first for first, _ in read_all(log)] == [base]
    log.release()
