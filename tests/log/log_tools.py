"""Batches and logs for the tests of `kwire.log`."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from kwire.base.doors import Clock, Doors, Files
from kwire.codec.records import BatchHeader, Record, build_batch, iter_headers
from kwire.codec.records.header import seal
from kwire.log.common.append_info import FetchedData
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.partition import opening
from kwire.log.partition.partition_log import PartitionLog

NOW_MS = 1_700_000_000_000
TOPIC_ID = b"0123456789abcdef"


class ManualClock:
    """A wall clock that the test moves."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def time_ms(self) -> int:
        return self.now_ms


class Writes(Files):
    """Files that note the size of every write to a log. ``failing``: the numbers of those that fail, from 0 on.
    ``short``: write only so many bytes, once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.failing: frozenset[int] = frozenset()
        self.short = 0

    def _note(self, size: int) -> int:
        self.sizes.append(size)
        if len(self.sizes) - 1 in self.failing:
            raise OSError(errno.ENOSPC, "full")
        size, self.short = self.short or size, 0
        return size

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        return Files.pwrite(fd, bytes(data)[: self._note(len(data))], offset)

    def pwritev(self, fd: int, buffers: Any, offset: int) -> int:
        data = b"".join(buffers)
        return Files.pwrite(fd, data[: self._note(len(data))], offset)


def doors_at(clock: ManualClock, **others: Any) -> Doors:
    return Doors(clock=Clock(time_ms=clock.time_ms), **others)


def batch(
    count: int = 1, *, size: int = 10, timestamp: int = NOW_MS, key: bytes | None = b"k", **how: Any
) -> bytearray:
    """A producer's batch of ``count`` records with values of ``size`` bytes."""
    records = [
        Record(timestamp=timestamp + i if timestamp >= 0 else -1, key=key, value=bytes([i % 251]) * size)
        for i in range(count)
    ]
    return bytearray(build_batch(records, **how))


def patched(data: bytearray, layout: str, position: int, value: int, *, reseal: bool = True) -> bytearray:
    """A batch with one header field overwritten."""
    struct.pack_into(layout, data, position, value)
    if reseal:
        seal(data, 0, len(data))
    return data


_opened: list[PartitionLog] = []


def open_log(path: Path | str, config: LogConfig | None = None, **how: Any) -> PartitionLog:
    """A log named t-0 under ``path``. The test does not have to close it."""
    doors = how.pop("doors", None) or doors_at(how.pop("clock", None) or ManualClock())
    env = how.pop("env", None) or LogEnvironment.create(doors)
    log = opening.open_log(env, f"{path}/t-0", "t", 0, TOPIC_ID, config or LogConfig(), **how)
    _opened.append(log)
    return log


def release_logs() -> None:
    """Close the files of all logs that a test has opened: other tests of the process need descriptors, too."""
    while _opened:
        with suppress(OSError):  # a simulated disk that has crashed has no open files
            _opened.pop().release()


def append(log: PartitionLog, count: int = 1, *, epoch: int = 0, **how: Any) -> int:
    """Append a batch and commit it; its first offset."""
    first = log.append_as_leader(memoryview(batch(count, **how)), leader_epoch=epoch).first_offset
    log.advance_high_watermark(log.log_end_offset)
    return first


def content(data: FetchedData) -> bytes:
    """The bytes of a read; a range is read and released."""
    records = data.records
    if isinstance(records, bytes):
        return records
    import os

    try:
        return os.pread(records.fd, records.size, records.position)
    finally:
        records.release()


def headers(data: FetchedData) -> list[BatchHeader]:
    return [header for _, header in iter_headers(content(data), allow_partial=True)]


def read_all(log: PartitionLog, *, max_bytes: int = 1 << 20) -> list[tuple[int, int]]:
    """(base, last) offsets of every batch from the log start offset, read as a consumer would."""
    found: list[tuple[int, int]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        got = headers(log.read(offset, max_bytes, upto=log.log_end_offset))
        if not got:
            break
        found += [(header.base_offset, header.last_offset) for header in got]
        offset = got[-1].next_offset
    return found


def fails(call: Callable[[], object]) -> str:
    """The name of the error code with which a call fails; NONE if it succeeds."""
    from kwire.base.errors import KafkaError

    try:
        call()
    except KafkaError as error:
        return error.code.name
    return "NONE"
