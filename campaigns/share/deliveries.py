"""Members of a share group, leaders that change, and writes that get lost: what share groups promise must hold.

    python -m campaigns.share.deliveries --count 5000 --seed 1 --jobs 2

Members acquire, accept, release, reject, renew, or leave their records until the locks end. Writes reach the share
coordinator late, in another order, without a response, or not at all; leaders are replaced at any time and read the
state again, while writes of their predecessors are refused. Then everything is healthy again, and the members accept
what they get. It must hold that

- a record has one holder at a time;
- a record is not delivered again once the leader knows that its acceptance is written;
- no record is lost: at the end each was accepted, or rejected, or delivered as often as allowed;
- the start offset never goes back, with another leader not before the one that was written last.

The log has neither compacted places nor aborted batches; `campaigns.share.partition` has those.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

from campaigns.seeds import Found, main, run_all
from kwire.base.errors import KafkaError
from kwire.coordinator.share import batches as stored
from kwire.share.partition import SharePartition, Write
from kwire.share.values import Acknowledgement, FetchedBatch, Limits, PersistedState, RecordState, StateBatch

OPERATIONS: Final = 300
MEMBERS: Final = ("a", "b", "c", "d")
ACCEPT: Final = 1


class Coordinator:
    """The state of one share partition at the share coordinator."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.leader_epoch = 0
        self._batches: list[stored.StateBatch] = []

    def write(self, leader_epoch: int, write: Write) -> bool:
        """Store a write; False if another leader has read the state since."""
        if leader_epoch < self.leader_epoch:
            return False
        new = [stored.StateBatch(first, last, count, state) for first, last, state, count in write.batches]
        self.start_offset = max(self.start_offset, write.start_offset)
        self._batches = stored.combine([*self._batches, *new], self.start_offset)
        return True

    def read(self, leader_epoch: int) -> PersistedState:
        """The state, for a new leader."""
        self.leader_epoch = leader_epoch
        read = [StateBatch(first, last, RecordState(state), count) for first, last, count, state in self._batches]
        return PersistedState(0, self.start_offset, read)


class Pending:
    """A write under way, with the offsets whose acceptance it writes."""

    def __init__(self, leader_epoch: int, write: Write) -> None:
        self.leader_epoch = leader_epoch
        self.write = write
        self.accepted = {
            offset
            for first, last, state, _ in write.batches
            if state is RecordState.ACKNOWLEDGED
            for offset in range(first, last + 1)
        }


class Group:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self._chance = chance = random.Random(seed)
        self._limits = Limits(chance.choice((10, 40, 200)), chance.choice((2, 3, 5)), 1000, True)
        self._log: list[FetchedBatch] = []
        self._coordinator = Coordinator()
        self._epoch = 0
        self._now_ms = 0
        self._pending: list[Pending] = []
        self._held: dict[int, tuple[str, int]] = {}
        """Holder and end of the lock of each acquired offset, as the members know them."""
        self._accepted: set[int] = set()
        self._stored: set[int] = set()
        """Their acceptance was written, perhaps without a response."""
        self._given_up: set[int] = set()
        """Rejected, or delivered as often as allowed."""
        self.counts: Counter[str] = Counter()
        self._leader = self._elected()

    def run(self) -> None:
        """Trouble, then healing."""
        choices = (self._acquire, self._acknowledge, self._pass_time, self._write, self._leave, self._fail_over)
        for _ in range(OPERATIONS):
            operation = self._chance.choices(choices, (30, 40, 10, 30, 2, 2))[0]
            leader, start = self._leader, self._leader.start_offset
            operation()
            assert leader.start_offset >= start, "the start offset went back"
            self.counts[operation.__name__.strip("_")] += 1
        self._heal()

    def _elected(self) -> SharePartition:
        self._epoch += 1
        return SharePartition(lambda: self._limits, self._coordinator.read(self._epoch))

    def _end(self) -> int:
        return self._log[-1].last_offset + 1 if self._log else 0

    def _acquire(self, produce: bool = True) -> bool:
        leader, chance = self._leader, self._chance
        if produce and chance.random() < 0.4:
            first = self._end()
            self._log.append(FetchedBatch(first, first + chance.choice((0, 1, 4, 19))))
        offset = leader.next_fetch_offset()
        read = [batch for batch in self._log if batch.last_offset >= offset][: chance.choice((1, 3))]
        if not leader.can_acquire() or not read:
            return False
        member = chance.choice(MEMBERS)
        acquired = leader.acquire(
            member,
            read,
            fetch_offset=offset,
            max_records=chance.choice((1, 5, 500)),
            batch_size=chance.choice((1, 10)),
            record_limit=chance.random() < 0.3,
            now_ms=self._now_ms,
        )
        for first, last, count in acquired:
            for at in range(first, last + 1):
                self._deliver(at, member, count)
        return bool(acquired)

    def _deliver(self, offset: int, member: str, count: int) -> None:
        holder, until_ms = self._held.get(offset, ("", 0))
        assert not holder or until_ms <= self._now_ms, f"{offset} is held by {holder} and was given to {member}"
        assert offset not in self._accepted, f"{offset} was accepted and is delivered again"
        self._held[offset] = member, self._now_ms + self._limits.lock_duration_ms
        self.counts["deliveries"] += 1
        self.counts["repeated"] += count > 1
        if count >= self._limits.delivery_count_limit:
            self._given_up.add(offset)

    def _acknowledge(self, kinds: tuple[int, ...] = (1, 1, 1, 2, 2, 3, 4)) -> None:
        if not self._held:
            return
        first = last = self._chance.choice(sorted(self._held))
        member = self._held[first][0]
        while self._held.get(last + 1, ("",))[0] == member and self._chance.random() < 0.95:
            last += 1
        types = [self._chance.choice(kinds) for _ in range(first, last + 1)]
        if self._chance.random() < 0.5:
            types = types[:1]
        try:
            write = self._leader.acknowledge(member, [Acknowledgement(first, last, types)], self._now_ms)
        except KafkaError:
            self.counts["refused"] += 1
            return
        for offset in range(first, last + 1):
            kind = types[0] if len(types) == 1 else types[offset - first]
            if kind == 4:
                self._held[offset] = member, self._now_ms + self._limits.lock_duration_ms
                continue
            if kind == 3:
                self._given_up.add(offset)
        self._started(write)

    def _started(self, write: Write | None) -> None:
        if write is not None:
            self._pending.append(Pending(self._epoch, write))

    def _pass_time(self) -> None:
        self._now_ms += self._chance.choice((1, 100, 500))
        self._expire()

    def _expire(self) -> None:
        self._started(self._leader.expire(self._now_ms))
        self._held = {offset: held for offset, held in self._held.items() if held[1] > self._now_ms}

    def _leave(self) -> None:
        member = self._chance.choice(MEMBERS)
        self._started(self._leader.release(member))

    def _write(self, healthy: bool = False) -> None:
        if not self._pending:
            return
        pending = self._pending.pop(0 if healthy else self._chance.randrange(len(self._pending)))
        reached = healthy or self._chance.random() < 0.9
        stored_now = reached and self._coordinator.write(pending.leader_epoch, pending.write)
        self._stored |= pending.accepted if stored_now else set()
        answered = stored_now and (healthy or self._chance.random() < 0.9)
        if pending.leader_epoch != self._epoch:
            return  # the leader that asked for it is gone
        if answered:
            self._leader.committed(pending.write, self._now_ms)
            self._accepted |= pending.accepted
            for first, last, _, _ in pending.write.batches:
                for offset in range(first, last + 1):
                    self._held.pop(offset, None)
        else:
            self._leader.failed(pending.write, self._now_ms)
        self.counts["written" if answered else "lost"] += 1

    def _fail_over(self) -> None:
        self._leader = self._elected()
        assert self._leader.start_offset >= self._coordinator.start_offset, "the start offset went back"
        self._held.clear()

    def _heal(self) -> None:
        """Write everything, let all locks end, accept what comes."""
        for _ in range(10_000):
            while self._pending:
                self._write(healthy=True)
            self._now_ms += self._limits.lock_duration_ms
            self._expire()
            if not self._pending and not self._acquire(produce=False):
                break
            while self._held:
                before = dict(self._held)
                self._acknowledge(kinds=(ACCEPT,))
                while self._pending:
                    self._write(healthy=True)
                if self._held == before:
                    break
        lost = set(range(self._end())) - self._accepted - self._given_up
        assert self._leader.start_offset == self._end(), f"stuck at {self._leader.start_offset} of {self._end()}"
        assert lost <= self._stored, f"lost: {sorted(lost - self._stored)}"


def run_seed(seed: int) -> tuple[Counter[str], str | None]:
    """Run one seed; what happened, and the failure."""
    counts: Counter[str] = Counter()
    try:
        group = Group(seed)
        counts = group.counts
        group.run()
    except Exception as error:
        return counts, f"seed {seed}: {type(error).__name__}: {error}"
    return counts, None


def run(first: int, count: int) -> Found:
    """Run seeds."""
    return run_all(range(first, first + count), run_seed, "seeds")


if __name__ == "__main__":
    raise SystemExit(main("share.deliveries", "share deliveries", __doc__, run, count=100))
