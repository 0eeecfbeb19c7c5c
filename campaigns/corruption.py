"""Damage files of a stopped broker, one at a time, and check that no wrong data is served afterwards.

    .venv/bin/python -m campaigns.corruption --count 2000 --seed 1

Each case is a data directory on a simulated disk: logs of several segments with idempotent producers, committed and
aborted transactions, leader epochs and deleted records. The real `LogManager` writes it, and is then stopped in order
or killed. One file (a segment, an index, a snapshot, a checkpoint or metadata) is damaged: a flipped bit, a truncation,
a zeroed or duplicated block of 512 bytes, or a page of noise. After the next start

- every read returns, byte for byte, what was written, or fails with CORRUPT_MESSAGE (or the log ends where recovery may
  truncate it); only batches that the damage touches are affected, and all others can be read;
- aborted transactions and look-ups by time are as before, producers are recognised, topic ids and log start offsets
  are kept;
- every other difference is reported in a log line or by refusing to start; none is silent.

The exit status is 1 if a seed fails; the failing seeds are printed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from campaigns import seeds
from harness.simulation.disk import Inode
from harness.simulation.power import PowerDisk
from kwire.base.doors import Clock, Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.records import ABORT, COMMIT, Record, build_batch, build_control_batch, iter_headers, patch_offsets
from kwire.log.common import environment
from kwire.log.common.append_info import AbortedTransaction, Origin
from kwire.log.common.log_config import LogConfig
from kwire.log.common.log_dirs import LogDirectoryError
from kwire.log.compaction.cleaner import CleanerSettings
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.settings import ManagerSettings
from kwire.log.partition.partition_log import PartitionLog

DATA = "/data"
TOPIC_ID = b"corruption-topic"
START_MS = 1_700_000_000_000
BLOCK = 512
CONFIG = LogConfig(internal_segment_bytes=4000, index_interval_bytes=200, file_delete_delay_ms=0, retention_ms=-1)
SETTINGS = ManagerSettings(cleaner=CleanerSettings(enable=False))
CASE_CPU_S_MAX = 20.0  # a case takes 15 ms; more counts as a hang
KINDS = ("flip", "cut", "zero", "double", "noise")


class Violation(Exception):
    """Wrong data was served, or a difference was not reported."""


class Written:
    """A batch as it was written: its offsets, its bytes and its place in the file."""

    __slots__ = ("data", "first", "last", "path", "position", "producer_id", "timestamp")

    def __init__(self, log: PartitionLog, data: bytes, first: int, last: int, timestamp: int, producer_id: int) -> None:
        self.data, self.first, self.last = data, first, last
        self.timestamp, self.producer_id = timestamp, producer_id
        self.path = log.active.file.path
        self.position = log.active.size - len(data)


class Truth:
    """What one log must contain."""

    def __init__(self) -> None:
        self.batches: list[Written] = []
        self.aborted: list[AbortedTransaction] = []
        self.epochs: tuple[Any, ...] = ()
        self.start = self.end = self.recovery_point = 0


class Case:
    """One seed: a data directory, one damaged file, one start."""

    config = CONFIG
    label = "corruption"

    def __init__(self, seed: int) -> None:
        self.random = random = Random(f"{self.label} {seed}")
        self.now_ms = START_MS
        self.disk = PowerDisk(lambda: self.now_ms)
        self.disk.makedirs(DATA)
        self.truth = {number: Truth() for number in range(2)}
        self.clean = random.random() < 0.7
        self.path = self.kind = ""
        self.touched = (0, 0)
        self.reports: list[str] = []
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Run the case. Raises `Violation`."""
        asyncio.run(self._prepare())
        self._damage()
        asyncio.run(self._check())

    def _manager(self) -> LogManager:
        clock = Clock(lambda: self.now_ms)
        doors = Doors(clock=clock, files=self.disk, random=self.random, processes=None)
        return LogManager(doors, [DATA], lambda topic: self.config, SETTINGS)

    # Writing

    async def _prepare(self) -> None:
        manager = self._manager()
        manager.lock("a cluster", 1)
        await manager.load_all()
        for number, truth in self.truth.items():
            log = manager.create("t", number, TOPIC_ID)
            self._fill(log, truth)
            await self._after_filling(manager, log, truth)
        if self.clean:
            await manager.close()
        else:
            for directory in manager.directories:
                manager.write_checkpoints(directory)
        for number, truth in self.truth.items():
            filled = manager.get("t", number)
            assert filled is not None
            truth.start, truth.end = filled.log_start_offset, filled.log_end_offset
            truth.recovery_point = filled.recovery_point
            truth.epochs = filled.epochs.entries
            truth.aborted = filled.aborted_transactions(0, filled.log_end_offset)
        manager.env.cache.close_all()
        self.disk._locks.clear()
        self.disk._open.clear()

    async def _after_filling(self, manager: LogManager, log: PartitionLog, truth: Truth) -> None:
        """A hook: what else happens to a log before the broker stops."""

    def _fill(self, log: PartitionLog, truth: Truth) -> None:
        random = self.random
        sequences = dict.fromkeys((-1, 7, 8, 9), 0)
        epoch, open_transaction = 0, False
        for _ in range(random.randint(20, 60)):
            self.now_ms += random.choice((0, 1, 50))
            if random.random() < 0.08:
                epoch += 1
            producer_id = random.choice((-1, 7, 8, 9))
            if producer_id == 9 and open_transaction and random.random() < 0.5:
                kind = random.choice((COMMIT, ABORT))
                marker = build_control_batch(
                    kind, producer_id=9, producer_epoch=0, coordinator_epoch=0, timestamp=self.now_ms
                )
                self._append(log, truth, bytearray(marker), epoch, Origin.COORDINATOR)
                open_transaction = False
                continue
            count = random.choice((1, 1, 3))
            data = self._batch(count, producer_id, sequences[producer_id])
            open_transaction |= producer_id == 9
            sequences[producer_id] += count
            self._append(log, truth, data, epoch, Origin.CLIENT)
        if open_transaction:
            marker = build_control_batch(
                ABORT, producer_id=9, producer_epoch=0, coordinator_epoch=0, timestamp=self.now_ms
            )
            self._append(log, truth, bytearray(marker), epoch, Origin.COORDINATOR)
        if random.random() < 0.4:
            log.delete_records_before(random.randint(0, log.high_watermark // 2))
            log.delete_old_segments()
        if not self.clean and random.random() < 0.5:
            log.flusher.flush_blocking()

    def _append(self, log: PartitionLog, truth: Truth, data: bytearray, epoch: int, origin: Origin) -> None:
        info = log.append_as_leader(data, leader_epoch=epoch, origin=origin)
        header = next(iter_headers(data))[1]
        log.advance_high_watermark(log.log_end_offset)
        producer_id = -2 if header.is_control else header.producer_id
        batch = Written(log, bytes(data), info.first_offset, info.last_offset, self.now_ms, producer_id)
        truth.batches.append(batch)

    def _batch(self, count: int, producer_id: int, sequence: int) -> bytearray:
        size = self.random.choice((5, 60, 300, 700))
        records = [Record(timestamp=self.now_ms, key=b"k", value=self.random.randbytes(size)) for _ in range(count)]
        who: dict[str, Any] = {}
        if producer_id >= 0:
            who = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        return bytearray(
            build_batch(records, compression=self.random.choice((0, 0, 2, 3)), is_transactional=producer_id == 9, **who)
        )

    # Damaging

    def _damage(self) -> None:
        random = self.random
        sort = random.choice((".log", ".log", "index", ".snapshot", "other"))
        files = {path: inode for path, inode in self.disk._files.items() if inode.data}
        chosen = [
            path
            for path in sorted(files)
            if (path.endswith(sort) if sort != "other" else not path.endswith((".log", "index", ".snapshot", ".lock")))
        ]
        self.path = random.choice(chosen or sorted(path for path in files if path.endswith(".log")))
        inode: Inode = files[self.path]
        before = bytes(inode.data)
        while bytes(inode.data) == before:
            inode.data = bytearray(before)
            self.kind = random.choice(KINDS)
            self._hurt(inode.data)
        self.counts[f"{self.kind} in {_sort(self.path)}"] += 1

    def _hurt(self, data: bytearray) -> None:
        random = self.random
        at = random.randrange(len(data))
        block = at - at % BLOCK
        end = min(block + BLOCK, len(data))
        self.touched = (block, end)
        if self.kind == "flip":
            data[at] ^= 1 << random.randrange(8)
            self.touched = (at, at + 1)
        elif self.kind == "cut":
            self.touched = (at, len(data))
            del data[at:]
        elif self.kind == "zero":
            data[block:end] = bytes(end - block)
        elif self.kind == "noise":
            data[block:end] = random.randbytes(end - block)
        else:  # one block written over another one
            other = random.randrange(len(data)) // BLOCK * BLOCK
            piece = data[other : other + end - block]
            if random.random() < 0.5 or len(data) <= BLOCK:
                data[end:end] = piece
                self.touched = (block, len(data))
            else:
                data[block : block + len(piece)] = piece

    # Checking

    async def _check(self) -> None:
        manager = self._manager()
        restore = _listen(self.reports)
        try:
            try:
                manager.lock("a cluster", 1)
            except LogDirectoryError:
                self.counts["refused to start"] += 1
                return
            await manager.load_all()
            for number, truth in self.truth.items():
                log = manager.get("t", number)
                if log is None:
                    raise Violation(f"partition {number} was not opened")
                self._check_log(log, truth)
            if self.reports:
                self.counts["reported"] += 1
        finally:
            restore()

    def _check_log(self, log: PartitionLog, truth: Truth) -> None:
        log.advance_high_watermark(log.log_end_offset)
        mine = os.path.dirname(self.path) == log.directory
        hit_log = mine and self.path.endswith(".log")
        self._check_bounds(log, truth, hit_log)
        unreadable = 0
        for batch in truth.batches:
            if log.log_start_offset <= batch.last < log.log_end_offset:
                unreadable += not self._check_batch(log, batch, hit_log)
        if unreadable:
            self.counts["batches refused"] += unreadable
            if not self.reports:
                raise Violation(f"{unreadable} batches cannot be read, and nothing was reported")
        self._check_all_reads(log, truth)
        if log.log_end_offset == truth.end:
            self._check_rest(log, truth, unreadable)

    def _check_bounds(self, log: PartitionLog, truth: Truth, hit_log: bool) -> None:
        if not self.clean and self.path.endswith("partition.metadata") and log.topic_id != TOPIC_ID:
            self.counts["strays"] += 1  # the broker reports that the cluster has no such topic, and keeps the log
        elif log.topic_id != TOPIC_ID and (log.topic_id != bytes(16) or not self.reports):
            raise Violation(f"topic id {log.topic_id!r}")
        if log.log_end_offset != truth.end:
            # Whole batches that were never synced may be gone after a crash without a trace.
            unreported = not self.reports and not (self.kind == "cut" and not self.clean)
            if not hit_log or unreported or log.log_end_offset > truth.end or self.clean:
                raise Violation(f"{log} ended at {truth.end}; reported: {self.reports}")
            if log.log_end_offset < truth.recovery_point:
                raise Violation(f"{log} was cut below its recovery point {truth.recovery_point}")
            self.counts["cut"] += 1
        if log.log_start_offset != truth.start:
            # After a crash the last log start offset that was written counts, if it can be read (docs/DURABILITY.md).
            if log.log_start_offset > truth.start or (self.clean and not self.reports):
                raise Violation(f"{log} started at {truth.start}; reported: {self.reports}")
            self.counts["deleted records back"] += 1
        same = (log.log_start_offset, log.log_end_offset) == (truth.start, truth.end)
        if log.epochs.entries != truth.epochs and same and not self.reports:
            raise Violation(f"epochs {log.epochs.entries}, they were {truth.epochs}")

    def _check_batch(self, log: PartitionLog, batch: Written, hit_log: bool) -> bool:
        """Whether a batch can be read exactly as it was written."""
        offset = max(batch.first, log.log_start_offset)
        try:
            data = _read(log, offset, 1)
        except KafkaError as error:
            if error.code is not ErrorCode.CORRUPT_MESSAGE:
                raise Violation(f"{log} at {offset}: {error}") from error
            low, high = self.touched
            near = batch.path == self.path and batch.position < high + 1 and low <= batch.position + len(batch.data)
            cut = self.kind == "cut" and batch.path == self.path
            if not hit_log or not (near or cut):
                raise Violation(f"{log}: {offset} is refused, the damage is elsewhere: {error}") from error
            return False
        if data[: len(batch.data)] != batch.data:
            raise Violation(f"{log}: other bytes at {offset}")
        return True

    def _check_all_reads(self, log: PartitionLog, truth: Truth) -> None:
        """Read the whole log as a consumer does, past what is refused: only what was written may be returned."""
        right = {batch.first: batch.data for batch in truth.batches}
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            try:
                data = _read(log, offset, 1 << 20)
            except KafkaError:
                offset += 1
                continue
            whole = 0
            for at, header in iter_headers(data, allow_partial=True):
                if right.get(header.base_offset) != data[at : at + header.size]:
                    raise Violation(f"{log}: batch {header.base_offset} was not written like this")
                if self._passes_over(truth, offset, header.base_offset):
                    raise Violation(f"{log}: asked for {offset}, got {header.base_offset}")
                offset = header.next_offset
                whole += 1
            if not whole:
                raise Violation(f"{log}: nothing at {offset}")

    def _passes_over(self, truth: Truth, offset: int, base_offset: int) -> bool:
        """Whether a read at an offset returns a later batch although the right one was written."""
        return base_offset > offset

    def _check_rest(self, log: PartitionLog, truth: Truth, unreadable: int) -> None:
        have = log.aborted_transactions(0, log.log_end_offset)
        if unreadable == 0 and _dropped(log, truth, have) != _dropped(log, truth, truth.aborted):
            raise Violation(f"{log}: aborted {have}, they were {truth.aborted}")
        if unreadable == 0:
            kept = [batch for batch in truth.batches if batch.last >= log.log_start_offset]
            for batch in kept[:: max(len(kept) // 5, 1)]:
                at = log.offset_for_timestamp(batch.timestamp, upto=log.log_end_offset)
                due = next(each for each in kept if each.timestamp >= batch.timestamp)
                if at is None or at.offset != max(due.first, log.log_start_offset):
                    raise Violation(f"{log}: time {batch.timestamp} found {at}, due was {due.first}")
        for producer_id in (7, 8):
            last = next((b for b in reversed(truth.batches) if b.producer_id == producer_id), None)
            if last is None or last.last < log.log_start_offset or (unreadable and not log.producer_state.producers):
                continue
            again = bytearray(last.data)
            patch_offsets(again, 0, 0, -1)
            try:
                info = log.append_as_leader(again, leader_epoch=log.epochs.latest_epoch)
            except KafkaError as error:
                if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and unreadable:
                    continue
                raise
            if not info.duplicate and not unreadable:
                raise Violation(f"{log}: the last batch of producer {producer_id} was taken again, at {info}")


def _dropped(log: PartitionLog, truth: Truth, aborted: list[AbortedTransaction]) -> list[int]:
    """The batches that a read_committed consumer leaves out."""
    return [
        batch.first
        for batch in truth.batches
        if batch.last >= log.log_start_offset
        and any(
            each.producer_id == batch.producer_id and each.first_offset <= batch.first <= each.last_offset
            for each in aborted
        )
    ]


def _read(log: PartitionLog, offset: int, max_bytes: int) -> bytes:
    records = log.read(offset, max_bytes, upto=log.log_end_offset).records
    if isinstance(records, bytes):
        return records
    data = log.files.pread(records.fd, records.size, records.position)
    records.release()
    return data


def _sort(path: str) -> str:
    name = os.path.basename(path)
    return name[20:] if name[:20].isdigit() else name


def _listen(reports: list[str]) -> Callable[[], None]:
    """Collect the warnings and errors of the log instead of printing them."""
    logger = environment.logger
    kind = type(logger)
    kept = {name: getattr(kind, name) for name in ("warning", "error")}

    def collect(self: Any, event: str, **facts: object) -> None:
        reports.append(f"{event} {facts}")

    for name in kept:
        setattr(kind, name, collect)

    def restore() -> None:
        for name, method in kept.items():
            setattr(kind, name, method)

    return restore


def run_seed(seed: int, kind: type[Case] = Case) -> tuple[Counter[str], str | None]:
    """Run one case; return what happened, and the failure or None."""
    case = kind(seed)
    signal.signal(signal.SIGVTALRM, _took_too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, CASE_CPU_S_MAX)
    try:
        case.run()
    except Violation as violation:
        how = "clean" if case.clean else "killed"
        return case.counts, f"seed {seed} ({how}, {case.kind} in {case.path} {case.touched}): {violation}"
    except Exception:
        return case.counts, f"seed {seed} ({case.kind} in {case.path} {case.touched}): {traceback.format_exc(limit=-5)}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return case.counts, None


def _took_too_long(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"a case took more than {CASE_CPU_S_MAX} s of CPU")


def run_seeds(first: int, count: int, kind: type[Case] = Case) -> seeds.Found:
    """Run the cases of these seeds."""
    return seeds.run_all(range(first, first + count), partial(run_seed, kind=kind), "cases")


if __name__ == "__main__":
    sys.exit(seeds.main("corruption", "corruption", __doc__, run_seeds, count=2000))
