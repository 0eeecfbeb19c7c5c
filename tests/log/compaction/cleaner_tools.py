"""Cleaning logs in tests: no helper process, no threads, no waiting; and what a compacted log holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kwire.base.doors import Clock, Doors, Executor, Files
from kwire.codec.records import Record, build_batch, build_control_batch, iter_headers, iter_records
from kwire.codec.records.reader import RecordHeader
from kwire.log.common.append_info import Origin
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.common.log_dirs import LogDirectory
from kwire.log.compaction.cleaner import CleanerSettings, LogCleaner
from kwire.log.compaction.helper import CleanerHelper
from kwire.log.partition.partition_log import PartitionLog
from tests.log.log_tools import ManualClock, content, open_log

COMPACTED = LogConfig(
    cleanup_policy=("compact",),
    internal_segment_bytes=1000,
    index_interval_bytes=200,
    min_cleanable_dirty_ratio=0.0,
    file_delete_delay_ms=0,
)


class Kept(NamedTuple):
    """A record that a log holds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


class AtOnce(Executor):
    """An executor that makes calls at once, without threads."""

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Workshop:
    """One log, t-0, and a cleaner for it."""

    def __init__(self, path: Path | str, config: LogConfig = COMPACTED, *, files: Files | None = None, **how: Any):
        self.clock = how.pop("clock", None) or ManualClock()
        settings = how.pop("settings", None) or CleanerSettings()
        doors = Doors(
            clock=Clock(time_ms=self.clock.time_ms), files=files or Files(), executor=AtOnce(), processes=None
        )
        self.directory = LogDirectory(doors, str(path))
        self.env = LogEnvironment.create(doors, producer_expiration_ms=1 << 60)
        self.log: PartitionLog = open_log(path, config, env=self.env, **how)
        self.cleaner = LogCleaner(self.env, lambda: [(self.log, self.directory)], settings)
        self.cleaner.checkpoints.load([self.directory])
        self.helper = CleanerHelper(doors)

    def produce(self, *records: tuple[bytes | None, bytes | None], roll: bool = False, **how: Any) -> int:
        """Append and commit one batch of (key, value); with ``roll``, begin a new segment. Returns its first offset."""
        timestamp = how.pop("timestamp", self.clock.now_ms)
        headers = how.pop("headers", None)
        made = [Record(timestamp=timestamp + i, key=k, value=v, headers=headers) for i, (k, v) in enumerate(records)]
        return self.append(build_batch(made, **how), roll=roll)

    def append(self, batch: bytes, *, roll: bool = False, origin: Origin = Origin.CLIENT, commit: bool = True) -> int:
        first = self.log.append_as_leader(bytearray(batch), leader_epoch=0, origin=origin).first_offset
        if commit:
            self.log.advance_high_watermark(self.log.log_end_offset)
        if roll:
            self.log.roll()
        return first

    def end_transaction(self, kind: int, producer_id: int = 7, *, epoch: int = 0, roll: bool = False) -> int:
        marker = build_control_batch(
            kind, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=0, timestamp=self.clock.now_ms
        )
        return self.append(marker, roll=roll, origin=Origin.COORDINATOR)

    async def clean(self) -> bool:
        """Clean one log. Whether something was cleaned."""
        return await self.cleaner.clean_one(0, self.helper)

    async def settle(self, rounds_max: int = 100) -> None:
        """Clean until nothing is due."""
        for _ in range(rounds_max):
            if not await self.clean():
                return
        raise AssertionError("cleaning does not end")

    def kept(self) -> list[Kept]:
        return kept_in(self.log)

    def offsets(self) -> list[int]:
        return [each.offset for each in self.kept()]


def read_batches(log: PartitionLog, max_bytes: int = 1 << 20) -> list[tuple[Any, bytes]]:
    """Every batch (header, bytes) from the log start offset, read as a consumer would."""
    found: list[tuple[Any, bytes]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = content(log.read(offset, max_bytes, upto=log.log_end_offset))
        got = [(header, data[at : at + header.size]) for at, header in iter_headers(data, allow_partial=True)]
        if not got:
            break
        found += got
        offset = got[-1][0].next_offset
    return found


def kept_in(log: PartitionLog) -> list[Kept]:
    """The data records of a log in order; markers are left out."""
    return [
        Kept(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for header, data in read_batches(log)
        if not header.is_control
        for record in iter_records(data, max_bytes=1 << 20)
    ]


def final_values(records: list[Kept]) -> dict[bytes | None, bytes | None]:
    """What a reader of the whole log ends up with: tombstones delete."""
    table: dict[bytes | None, bytes | None] = {}
    for record in records:
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def names_in(log: PartitionLog, *endings: str) -> list[str]:
    """The files of a log's directory with these endings."""
    return [name for name in log.files.listdir(log.directory) if name.endswith(endings)]
