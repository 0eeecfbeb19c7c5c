"""Take the power from a simulated machine at random moments, and check what its logs contain afterwards.

    .venv/bin/python -m campaigns.power_loss --count 10000 --seed 1 --jobs 2

Each seed is a simulation of its own: a disk that loses or tears what was not synced (`harness.simulation.power`), and
the real `LogManager` with its logs on virtual time, without sockets. In each life batches are appended by idempotent
producers and by others, segments roll, syncs run in the background, epochs begin and records are deleted. Then the
power fails before a change of the disk that the seed chooses (also during recovery or an orderly stop). Afterwards:

- recovery does not raise, and every log is opened;
- each log is a prefix of what was written, dense and byte for byte: an unsynced tail may be gone, but there is no hole;
- what was reported as durable is there: acknowledged after its sync (`flush.messages=1`), below the recovery point, or
  everything after an orderly stop;
- a producer that sends its last batch again is recognised, and its next batch is accepted: no duplicate, no gap;
- leader epochs and look-ups by offset and by time agree with the batches, and the offline verifier finds nothing.

The exit status is 1 if a seed fails; the failing seeds are printed.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from campaigns import seeds
from harness.simulation.loop import VirtualLoop, run
from harness.simulation.power import PowerDisk, PowerLost
from harness.simulation.trace import Trace
from harness.simulation.world import SimulatedExecutor
from kwire.base.doors import Clock, Doors
from kwire.codec.records import BatchHeader, Record, build_batch, crc_is_valid, iter_headers, patch_offsets
from kwire.log.common.append_info import AppendInfo, Origin
from kwire.log.common.checkpoints import write_topic_id
from kwire.log.common.log_config import LogConfig
from kwire.log.compaction.cleaner import CleanerSettings
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.settings import ManagerSettings
from kwire.log.partition.partition_log import PartitionLog
from kwire.log.verification.offline import DirectoryVerifier

DATA = "/data"
TOPIC_ID = b"power-loss-topic"
START_MS = 1_700_000_000_000
INT64_MAX = 0x7FFFFFFFFFFFFFFF
LIVES_MAX = 4
SETTINGS = ManagerSettings(
    recovery_point_interval_ms=20,
    log_start_interval_ms=20,
    high_watermark_interval_ms=20,
    flush_scheduler_interval_ms=20,
    idle_file_interval_ms=50,
    cleaner=CleanerSettings(enable=False),
)


class Violation(Exception):
    """What was durable is lost, or what is there is wrong."""


@dataclass
class Written:
    """One batch of the model: its place, its bytes as the log must have them, and its producer."""

    first: int
    last: int
    data: bytes
    timestamp: int
    epoch: int
    producer_id: int
    sequence: int
    count: int


@dataclass
class Model:
    """What was written to one partition, and what it has reported as durable."""

    batches: list[Written] = field(default_factory=list)
    durable_end: int = 0  # everything below was reported as durable
    start: int = 0  # records below were deleted
    deleted: int = 0  # the highest offset of any DeleteRecords: what came back after a loss may go again
    epoch: int = 0

    @property
    def end(self) -> int:
        """The log end offset: the offset after the last batch, but never less than `start`."""
        return max(self.batches[-1].last + 1 if self.batches else 0, self.start)

    def cut(self, end: int) -> None:
        """Remove the batches that reach an offset, and all later ones."""
        self.batches = [batch for batch in self.batches if batch.last < end]

    def last_of(self, producer_id: int) -> Written | None:
        """A producer's last batch, or None."""
        return next((batch for batch in reversed(self.batches) if batch.producer_id == producer_id), None)


class MortalExecutor(SimulatedExecutor):
    """Calls that a power loss interrupts never return: cancel what waits for them."""

    def run(self, function: Any, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """See `Executor.run`. The future is cancelled if the power fails during the call."""

        def call() -> object:
            try:
                return function(*args, **kwargs)
            except PowerLost:
                return PowerLost

        future: asyncio.Future[Any] = self._loop.create_future()

        def pass_on(done: asyncio.Future[Any]) -> None:
            if future.done():
                return
            if done.cancelled() or (done.exception() is None and done.result() is PowerLost):
                future.cancel()
            elif (error := done.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(done.result())

        super().run(call).add_done_callback(pass_on)
        return future


def _tell_unless_power_was_lost(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore the exceptions of tasks that ended with the power."""
    if not isinstance(context.get("exception"), PowerLost):
        loop.default_exception_handler(context)


class World:
    """One seed."""

    settings = SETTINGS

    def __init__(self, seed: int) -> None:
        self.random = random = Random(self._label(seed))
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(_tell_unless_power_was_lost)
        self.counts: Counter[str] = Counter()
        self._start_s = self.loop.time()
        self.disk = PowerDisk(self.time_ms)
        self.disk.makedirs(DATA)
        self.models = {number: Model() for number in range(random.choice((1, 2, 2)))}
        self.config = self._draw_config()

    def _label(self, seed: int) -> str:
        return f"power {seed}"

    def _draw_config(self) -> LogConfig:
        random = self.random
        return LogConfig(
            internal_segment_bytes=random.choice((1500, 2500, 5000, 30_000)),
            index_interval_bytes=random.choice((0, 100, 400)),
            flush_messages=random.choice((1, 1, 5, INT64_MAX, INT64_MAX)),
            flush_ms=random.choice((INT64_MAX, INT64_MAX, 30)),
            file_delete_delay_ms=20,
            retention_ms=-1,
        )

    def time_ms(self) -> int:
        """The wall clock of the simulation, in milliseconds."""
        return START_MS + round((self.loop.time() - self._start_s) * 1000)

    def run(self) -> None:
        """Run the seed from beginning to end. Raises `Violation`, and any unexpected error."""
        run(self.loop, self._lives())

    async def _lives(self) -> None:
        for number in range(self.random.randint(2, LIVES_MAX)):
            if number:
                self.disk = self.disk.after_power_loss(self.random)
            await self._live()
        self.disk = self.disk.after_power_loss(self.random)
        manager = self._manager()
        await self._load(manager)
        await manager.close()
        self._verify_offline()

    def _manager(self) -> LogManager:
        executor = MortalExecutor(self.loop, Trace(lambda: 0.0), self.random)
        clock = Clock(self.time_ms, self.loop.time, self.loop.time)
        doors = Doors(clock=clock, files=self.disk, executor=executor, random=self.random, processes=None)
        return LogManager(doors, [DATA], lambda topic: self.config, self.settings)

    # One life

    async def _live(self) -> None:
        """One life: load and check the logs, write, lose the power."""
        if self.random.random() < 0.8:
            self.disk.fail_after(self.random.choice((self.random.randint(0, 60), self.random.randint(0, 400))))
        manager = self._manager()
        try:
            await self._load(manager)
            self.counts["lives"] += 1
            manager.start()
            await self._work(manager)
            self._note_recovery_points(manager)
            if self.random.random() < 0.2:
                await manager.close()
                for model in self.models.values():
                    model.durable_end = model.end
                self.counts["orderly_stops"] += 1
        except (PowerLost, asyncio.CancelledError):
            self.counts["power_lost_at_a_change"] += 1
        self._note_recovery_points(manager)
        self.disk.dead = True
        manager.periodic.stop()
        manager.env.remover.close()
        await self._let_tasks_end()

    async def _let_tasks_end(self) -> None:
        """End everything that was under way on the machine."""
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0.01)

    def _note_recovery_points(self, manager: LogManager) -> None:
        for log in manager:
            model = self.models[log.partition]
            model.durable_end = max(model.durable_end, log.recovery_point)

    async def _work(self, manager: LogManager) -> None:
        random = self.random
        logs = [manager.create("t", number, TOPIC_ID) for number in self.models]
        for _ in range(random.randint(1, 60)):
            if self.disk.dead:
                raise PowerLost
            log = random.choice(logs)
            model = self.models[log.partition]
            what = random.random()
            if what < 0.85:
                await self._append(log, model)
            elif what < 0.93:
                await asyncio.sleep(random.choice((0, 0.001, 0.01, 0.05)))
            elif what < 0.96:
                model.epoch += 1
                log.begin_leader_epoch(model.epoch)
            elif what < 0.98 and log.high_watermark > log.log_start_offset:
                self._something_else(log, model)
            else:
                log.roll()

    def _something_else(self, log: PartitionLog, model: Model) -> None:
        """DeleteRecords."""
        target = self.random.randint(log.log_start_offset, log.high_watermark)
        model.start = max(model.start, target)
        model.deleted = max(model.deleted, target)
        log.delete_records_before(target)
        log.delete_old_segments()  # as the next retention pass does

    async def _append(self, log: PartitionLog, model: Model) -> None:
        """Append a batch of a client or a coordinator; some wait for their sync, as a response would."""
        random = self.random
        producer_id = random.choice((-1, 7, 8))
        count = random.choice((1, 1, 2, 4))
        known = log.producer_state.producers.get(producer_id)
        sequence = -1 if producer_id < 0 else (known.last_sequence + 1 if known else 0)
        data = self._batch(count, producer_id, sequence)
        first = log.log_end_offset
        patched = bytearray(data)
        patch_offsets(patched, 0, first, model.epoch)
        written = Written(
            first, first + count - 1, bytes(patched), self.time_ms(), model.epoch, producer_id, sequence, count
        )
        model.batches.append(written)  # it may be there even if the power fails on the way
        origin = Origin.COORDINATOR if producer_id < 0 and count > 1 else Origin.CLIENT
        info = log.append_as_leader(data, leader_epoch=model.epoch, origin=origin)
        if info.first_offset != first or info.duplicate:
            raise Violation(f"appended at {info}, {first} was due")
        log.advance_high_watermark(log.log_end_offset)
        self.counts["appends"] += 1
        await self._acknowledge(info, model)

    async def _acknowledge(self, info: AppendInfo, model: Model) -> None:
        flushed = info.flushed
        if flushed is None:
            if self.config.flush_messages == 1:
                raise Violation("flush.messages=1, and nothing to wait for")
            return

        def promised(future: asyncio.Future[None]) -> None:
            if not future.cancelled() and future.exception() is None:
                model.durable_end = max(model.durable_end, info.last_offset + 1)
                self.counts["acknowledged_after_sync"] += 1

        flushed.add_done_callback(promised)
        if self.random.random() < 0.5:
            await asyncio.wait([flushed])
            if self.disk.dead:
                raise PowerLost

    def _batch(self, count: int, producer_id: int, sequence: int) -> bytearray:
        now_ms, size = self.time_ms(), self.random.choice((5, 60, 300))
        value = self.random.randbytes(size)
        records = [Record(timestamp=now_ms, key=b"k", value=value) for _ in range(count)]
        epoch = 0 if producer_id >= 0 else -1
        built = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        return bytearray(built)

    # After the loss

    async def _load(self, manager: LogManager) -> None:
        manager.lock("a cluster", 1)
        directories = [name for name in self.disk.listdir(DATA) if name.startswith("t-")]
        await manager.load_all()
        if len(manager) != len(directories):
            raise Violation(f"{len(directories)} directories, {len(manager)} logs were opened")
        for number, model in self.models.items():
            log = manager.get("t", number)
            if log is None:
                if model.durable_end > model.start:
                    raise Violation(f"partition {number} is gone with {model.durable_end} durable offsets")
                self.models[number] = Model(start=0)
                continue
            if log.topic_id == bytes(16):  # as the replica manager does
                log.topic_id = TOPIC_ID
                write_topic_id(self.disk, log.directory, TOPIC_ID)
                self.counts["topic_ids_lost"] += 1
            self._check(log, model)
            self.counts["checks"] += 1

    def _check(self, log: PartitionLog, model: Model) -> None:
        if log.log_end_offset > model.end:
            raise Violation(f"{log} ends beyond {model.end}")
        if log.log_end_offset < model.durable_end:
            raise Violation(f"{log}: everything below {model.durable_end} was on stable storage")
        if log.log_start_offset > max(model.start, model.deleted):
            raise Violation(f"{log} starts beyond {model.start}")
        if log.log_end_offset < model.end:
            self.counts["unsynced_tails_lost"] += 1
            self.counts["batches_lost"] += sum(batch.first >= log.log_end_offset for batch in model.batches)
        model.cut(log.log_end_offset)
        model.start = log.log_start_offset
        log.advance_high_watermark(log.log_end_offset)
        self._check_content(log, model)
        self._check_producers(log, model)
        self._check_lookups(log, model)

    def _check_content(self, log: PartitionLog, model: Model) -> None:
        expected = [batch for batch in model.batches if batch.last >= log.log_start_offset]
        found = _read_all(log)
        if [header.base_offset for header, _ in found] != [batch.first for batch in expected]:
            bases = [header.base_offset for header, _ in found]
            raise Violation(f"{log}: batches at {bases}, written were {[batch.first for batch in expected]}")
        for (header, data), batch in zip(found, expected, strict=True):
            if data != batch.data or not crc_is_valid(data, 0, header):
                raise Violation(f"{log}: other bytes at {batch.first}")
            if log.epochs.epoch_for_offset(batch.last) != batch.epoch:
                raise Violation(f"{log}: epoch of {batch.last} is {log.epochs.entries}, written with {batch.epoch}")

    def _check_producers(self, log: PartitionLog, model: Model) -> None:
        """Check that the producer's last batch counts as a duplicate. (Not below the log start offset: KIP-360.)"""
        for producer_id in (7, 8):
            last = model.last_of(producer_id)
            if last is None:
                if producer_id in log.producer_state.producers:
                    raise Violation(f"{log} knows producer {producer_id}, of which there is nothing")
                continue
            if last.last < log.log_start_offset:
                continue
            end = log.log_end_offset
            again = bytearray(last.data)
            patch_offsets(again, 0, 0, -1)
            info = log.append_as_leader(again, leader_epoch=model.epoch)
            if not info.duplicate or info.first_offset != last.first or log.log_end_offset != end:
                raise Violation(f"{log}: {last.sequence} of producer {producer_id} again got {info}")

    def _check_lookups(self, log: PartitionLog, model: Model) -> None:
        kept = [batch for batch in model.batches if batch.last >= log.log_start_offset]
        for batch in self.random.sample(kept, min(len(kept), 3)):
            offset = max(self.random.randint(batch.first, batch.last), log.log_start_offset)
            found = next(iter(_batches(log, offset)))
            if found[0].base_offset != batch.first:
                raise Violation(f"{log}: reading {offset} begins at {found[0].base_offset}")
            at = log.offset_for_timestamp(batch.timestamp, upto=log.log_end_offset)
            due = next(b for b in kept if b.timestamp >= batch.timestamp)
            if at is None or at.offset != max(due.first, log.log_start_offset):
                raise Violation(f"{log}: time {batch.timestamp} found {at}, due was {due.first}")

    def _verify_offline(self) -> None:
        verifier = DirectoryVerifier(DATA, deep=True, files=self.disk)
        if verifier.run():
            raise Violation("; ".join(f"{finding.path}: {finding.problem}" for finding in verifier.findings))


def _batches(log: PartitionLog, offset: int) -> list[tuple[BatchHeader, bytes]]:
    fetched = log.read(offset, 1 << 20, upto=log.log_end_offset)
    records = fetched.records
    if not isinstance(records, bytes):
        data = log.files.pread(records.fd, records.size, records.position)
        records.release()
        records = data
    return [(header, records[at : at + header.size]) for at, header in iter_headers(records, allow_partial=True)]


def _read_all(log: PartitionLog) -> list[tuple[BatchHeader, bytes]]:
    found: list[tuple[BatchHeader, bytes]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        got = _batches(log, offset)
        if not got:
            raise Violation(f"{log}: nothing is read at {offset}")
        found += got
        offset = got[-1][0].next_offset
    return found


def run_seed(seed: int, kind: type[World] = World) -> tuple[Counter[str], str | None]:
    """Run one seed; return the counts of what happened, and the failure or None."""
    world = kind(seed)
    try:
        world.run()
    except Violation as violation:
        return world.counts, f"seed {seed}: {violation}"
    except Exception:
        return world.counts, f"seed {seed}: {traceback.format_exc(limit=-6)}"
    return world.counts, None


def run_seeds(first: int, count: int, kind: type[World] = World) -> seeds.Found:
    """Run the seeds one after the other."""
    return seeds.run_all(range(first, first + count), partial(run_seed, kind=kind), "seeds")


if __name__ == "__main__":
    sys.exit(seeds.main("power_loss", "power loss", __doc__, run_seeds, count=10_000))
