"""Random operations on a share partition, compared with a model per offset (`campaigns.share.model`).

    python -m campaigns.share.partition --count 2000 --seed 1 --jobs 2

A seed is a log with batches, compacted places and aborted batches, limits, a persisted state and 500 operations.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

from campaigns.seeds import Found, main, run_all
from campaigns.share.model import Model, Record, check_write
from kwire.base.errors import ErrorCode, KafkaError
from kwire.share.partition import SharePartition, Write
from kwire.share.values import Acknowledgement, FetchedBatch, Limits, PersistedState, RecordState, StateBatch

OPERATIONS: Final = 500
MEMBERS: Final = ("a", "b", "c")


def random_limits(chance: random.Random) -> Limits:
    """Small limits, so that they are reached."""
    return Limits(chance.choice((5, 20, 100)), chance.choice((2, 3, 5, 8)), 1_000, chance.random() < 0.8)


def random_state(chance: random.Random) -> PersistedState:
    """A persisted state, sometimes with gaps; often nothing."""
    start = chance.randrange(20)
    at, batches = start, []
    for _ in range(chance.choice((0, 0, 1, 4))):
        at += chance.choice((0, 0, 0, 1, 5))
        last = at + chance.randrange(6)
        state = chance.choice((RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED))
        batches.append(StateBatch(at, last, state, chance.randrange(1, 3)))
        at = last + 1
    return PersistedState(3, start, batches)


class RandomLog:
    """Batches with compacted places between them; some are aborted."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.batches: list[FetchedBatch] = []
        self.start = 0

    @property
    def end(self) -> int:
        """The next offset."""
        return self.batches[-1].last_offset + 1 if self.batches else 0

    def read(self, offset: int) -> list[FetchedBatch]:
        """Some batches from one with an offset, or the next one, on."""
        while self.end <= offset + 40:
            first = self.end + self._chance.choice((0, 0, 0, 0, 0, 3))
            self.batches.append(
                FetchedBatch(
                    first, first + self._chance.choice((0, 0, 1, 4, 9, 19)), abort_marker=self._chance.random() < 0.05
                )
            )
        found = [batch for batch in self.batches if batch.last_offset >= max(offset, self.start)]
        return found[: self._chance.choice((1, 1, 2, 5))]


class Run:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.limits = random_limits(self.chance)
        persisted = random_state(self.chance)
        self.partition = SharePartition(lambda: self.limits, persisted)
        self.model = Model(self.limits, persisted)
        assert self.partition.next_fetch_offset() <= self.model.first_gap, "a gap of the persisted state is not fetched"
        self.model.check(self.partition, 0)
        self.log = RandomLog(self.chance)
        self.counts: Counter[str] = Counter()
        self.now_ms = 0
        self._writes: list[tuple[Write | None, dict[int, Record]]] = []
        self._committed = self.chance.random() < 0.5
        """Whether the group reads committed records only."""

    def step(self) -> None:
        """One operation, and what must hold after it."""
        choices = (self.acquire, self.acknowledge, self.release, self.pass_time, self.finish, self.move_log_start)
        operation = self.chance.choices(choices, (30, 40, 2, 8, 30, 1))[0]
        operation()
        self.counts[operation.__name__] += 1
        self.model.check(self.partition, self.log.start)

    def acquire(self) -> None:
        """Fetch and acquire."""
        offset = self.partition.next_fetch_offset()
        if not self.partition.can_acquire() and self.chance.random() < 0.8:
            return
        if self.chance.random() < 0.1:
            offset = self.chance.randint(self.partition.start_offset, self.partition.end_offset + 1)
        batches = self.log.read(offset)
        aborted = [batch for batch in batches if batch.abort_marker] if self._committed else []
        wanted, limited = self.chance.choice((1, 3, 10, 500)), self.chance.random() < 0.3
        member, size = self.chance.choice(MEMBERS), self.chance.choice((1, 5, 100))
        given = self.partition.acquire(
            member,
            batches,
            fetch_offset=offset,
            max_records=wanted,
            batch_size=size,
            record_limit=limited,
            aborted=aborted,
            now_ms=self.now_ms,
        )
        self.model.acquired(self.partition, member, batches, offset, wanted, limited, aborted, given, self.now_ms)
        self.counts["acquired ranges"] += len(given)

    def acknowledge(self) -> None:
        """A member acknowledges ranges, mostly its own."""
        member = self.chance.choice(MEMBERS)
        acknowledgements = [self._acknowledgement(member) for _ in range(self.chance.choice((1, 1, 2)))]
        error, write = ErrorCode.NONE, None
        try:
            write = self.partition.acknowledge(member, acknowledgements, self.now_ms)
        except KafkaError as refused:
            error = refused.code
        expected, changed = self.model.acknowledge(member, acknowledgements, self.now_ms)
        assert error is expected, f"{acknowledgements}: {error!r}, not {expected!r}"
        self.counts[f"acknowledged {error.name}"] += 1
        self._started(write, changed)

    def _acknowledgement(self, member: str) -> Acknowledgement:
        own = [offset for offset, record in self.model.records.items() if record.member == member]
        if own and self.chance.random() < 0.9:
            first = self.chance.choice(own)
            last = first
            while last + 1 in self.model.records and self.model.records[last + 1].member == member:
                last += 1
                if self.chance.random() < 0.05:
                    break
        else:
            first = self.chance.randint(max(0, self.partition.start_offset - 5), self.partition.end_offset + 5)
            last = first + self.chance.randrange(5)
        if self.chance.random() < 0.7:
            return Acknowledgement(first, last, [self.chance.choice((0, 1, 1, 2, 2, 2, 3, 4))])
        kinds = (0, 1, 1, 2, 3, 4) if self.chance.random() < 0.98 else (1, 7)
        return Acknowledgement(first, last, [self.chance.choice(kinds) for _ in range(first, last + 1)])

    def release(self) -> None:
        """A session is closed."""
        member = self.chance.choice(MEMBERS)
        self._started(self.partition.release(member), self.model.release(member))

    def pass_time(self) -> None:
        """Time passes; locks may end."""
        self.now_ms += self.chance.choice((1, 100, 600))
        deadline = self.partition.next_deadline_ms()
        write, changed = self.partition.expire(self.now_ms), self.model.expire(self.now_ms)
        assert not changed or (deadline is not None and deadline <= self.now_ms), "no timer for a lock that ends"
        self.counts["expired"] += bool(changed)
        self._started(write, changed)

    def _started(self, write: Write | None, changed: dict[int, Record]) -> None:
        check_write(write, changed)
        if write is not None:
            assert write.start_offset == self.partition.start_offset
            assert write.delivery_complete_count == self.partition.delivery_complete_count
            self._writes.append((write, changed))

    def finish(self) -> None:
        """A write succeeds or fails."""
        if not self._writes:
            return
        write, changed = self._writes.pop(self.chance.randrange(len(self._writes)))
        assert write is not None
        written = self.chance.random() < 0.9
        (self.partition.committed if written else self.partition.failed)(write, self.now_ms)
        self.model.written(changed, written, self.now_ms)
        self.counts["written" if written else "rolled back"] += 1

    def move_log_start(self) -> None:
        """Records are deleted from the log."""
        offset = self.chance.randint(self.partition.start_offset, self.partition.end_offset + 10)
        self.log.start = max(self.log.start, offset)
        self.partition.move_log_start(offset)
        self.model.move_log_start(offset)


def run_seed(seed: int) -> tuple[Counter[str], str | None]:
    """Run one seed; what happened, and the failure."""
    counts: Counter[str] = Counter()
    try:
        run = Run(seed)
        counts = run.counts
        for _ in range(OPERATIONS):
            run.step()
            counts["operations"] += 1
    except Exception as error:
        return counts, f"seed {seed}, operation {counts['operations']}: {type(error).__name__}: {error}"
    return counts, None


def run(first: int, count: int) -> Found:
    """Run seeds."""
    return run_all(range(first, first + count), run_seed, "seeds")


if __name__ == "__main__":
    raise SystemExit(main("share.partition", "share partition", __doc__, run, count=100))
