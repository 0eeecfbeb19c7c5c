"""Random operations on a share partition, compared with Apache Kafka's `SharePartition`.

    python -m campaigns.share.kafka --cases 20000 --seed 1

A case is a persisted state and 40 operations. After each, results, offsets, counts and what is written must be equal.
What kwire does differently on purpose (docs/ARCHITECTURE.md, `share`) is not asked: the log start moves only to records
in flight while nothing waits for its write, writes of records that have left the log do not fail, and a full window is
not given what was read behind it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from campaigns.java.oracle import OracleCampaign
from campaigns.share.partition import MEMBERS, RandomLog, random_limits, random_state
from kwire.base.errors import KafkaError
from kwire.share.partition import SharePartition, Write
from kwire.share.values import Acknowledgement, StateBatch

OPERATIONS: Final = 40
SOURCE: Final = Path(__file__).parent.parent / "java" / "SharePartitionOracle.java"


class OperationsCase:
    """Operations on one share partition, and what kwire's answers."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._limits = random_limits(chance)._replace(renew_enabled=True)
        persisted = random_state(chance)
        self._partition = SharePartition(lambda: self._limits, persisted)
        self._log = RandomLog(chance)
        self._read_end = max([persisted.start_offset, *(batch.last_offset for batch in persisted.batches)])
        self._now_ms = 0
        self._writes: list[Write] = []
        state = joined(f"{first}-{last}-{state}-{count}" for first, last, state, count in persisted.batches)
        locks, deliveries, lock_ms, _ = self._limits
        self._question = [f"I {locks} {deliveries} {lock_ms} {persisted.start_offset} {state}".rstrip()]
        self._answer = [self._offsets("")]
        for _ in range(OPERATIONS):
            self._step()

    def question(self) -> str:
        """The line for the oracle."""
        return ";".join(self._question)

    def answer(self) -> str:
        """kwire's results."""
        return ";".join([*self._answer, ""])

    def _step(self) -> None:
        choices = (self._acquire, self._acknowledge, self._release, self._pass_time, self._finish, self._move_log_start)
        operation = self._chance.choices(choices, (30, 40, 2, 8, 30, 3))[0]
        done = operation()
        if done is not None:
            self._question.append(done[0].rstrip())
            self._answer.append(self._offsets(done[1]))

    def _offsets(self, result: str) -> str:
        it = self._partition
        can = str(it.can_acquire()).lower()
        following = it.next_fetch_offset()
        return f"{result} {following} {it.start_offset} {it.end_offset} {it.delivery_complete_count} {can}"

    def _acquire(self) -> tuple[str, str] | None:
        it, chance = self._partition, self._chance
        offset = it.next_fetch_offset()
        batches = self._log.read(offset)
        full = it.in_flight_records >= self._limits.max_record_locks
        if full and batches[0].base_offset > it.end_offset:
            return None
        aborted = [batch for batch in batches if batch.abort_marker and batch.base_offset > self._read_end]
        member, wanted = chance.choice(MEMBERS), chance.choice((1, 3, 10, 500))
        size, limited = chance.choice((1, 5, 100)), chance.random() < 0.3
        acquired = it.acquire(
            member,
            batches,
            fetch_offset=offset,
            max_records=wanted,
            batch_size=size,
            record_limit=limited,
            aborted=aborted,
            now_ms=self._now_ms,
        )
        read = joined(f"{batch.base_offset}-{batch.last_offset}-{int(batch in aborted)}" for batch in batches)
        given = "".join(f"{first}-{last}-{count}," for first, last, count in acquired)
        return f"A {member} {offset} {wanted} {size} {int(limited)} {read}", given

    def _acknowledge(self) -> tuple[str, str] | None:
        chance = self._chance
        member = chance.choice(MEMBERS)
        found = [self._range(member) for _ in range(chance.choice((1, 1, 2)))]
        ranges = [each for each in found if each is not None]
        if not ranges:
            return None
        asked = joined(f"{first}-{last}-{'.'.join(map(str, types))}" for first, last, types in ranges)
        try:
            result = self._started(self._partition.acknowledge(member, ranges, self._now_ms))
        except KafkaError as error:
            result = error.code.name
        return f"K {member} {asked}", result

    def _range(self, member: str) -> Acknowledgement | None:
        chance, batches = self._chance, list(self._partition._window.batches)
        own = [batch for batch in batches if any(state.member_id == member for state in batch.states())]
        if not batches:
            return None
        batch = chance.choice(own or batches)
        first = last = batch.first_offset + next(
            (at for at, state in enumerate(batch.states()) if state.member_id == member), 0
        )
        if batch.offsets is None or chance.random() < 0.1:
            last = batch.last_offset
        while batch.offsets is not None and last < batch.last_offset and batch.at(last + 1).member_id == member:
            last += 1
        if chance.random() < 0.2:
            last = chance.randint(first, last + 3)
        kinds = (1, 1, 2, 2, 2, 3, 4, 0) if chance.random() < 0.97 else (1, 9)
        count = 1 if chance.random() < 0.6 else last - first + 1
        return Acknowledgement(first, last, [chance.choice(kinds) for _ in range(count)])

    def _release(self) -> tuple[str, str]:
        member = self._chance.choice(MEMBERS)
        return f"R {member}", self._started(self._partition.release(member))

    def _pass_time(self) -> tuple[str, str]:
        passed = self._chance.choice((1, 100, 600))
        self._now_ms += passed
        return f"T {passed}", self._started(self._partition.expire(self._now_ms)).partition("@")[0]

    def _started(self, write: Write | None) -> str:
        if write is None:
            return ""
        self._writes.append(write)
        return f"{written(write.batches)}@{write.start_offset}/{write.delivery_complete_count}"

    def _finish(self) -> tuple[str, str] | None:
        if not self._writes:
            return None
        index = self._chance.randrange(len(self._writes))
        write = self._writes.pop(index)
        left_the_log = any(batch.first_offset < self._partition.start_offset for batch in write.batches)
        if self._chance.random() < 0.9 or left_the_log:
            self._partition.committed(write, self._now_ms)
            return f"C {index}", ""
        self._partition.failed(write, self._now_ms)
        return f"F {index}", ""

    def _move_log_start(self) -> tuple[str, str] | None:
        it = self._partition
        bases = [batch.base_offset for batch in self._log.batches if batch.base_offset > it.start_offset]
        offset = self._chance.choice([base for base in bases if self._in_flight(base)] or [-1])
        if offset < 0 or self._writes or offset <= self._read_end:
            return None
        self._log.start = offset
        it.move_log_start(offset)
        return f"L {offset}", ""

    def _in_flight(self, offset: int) -> bool:
        batch = self._partition._window.batches.floor(offset)
        return batch is not None and batch.last_offset >= offset


def joined(words: Iterable[str]) -> str:
    """Words with commas."""
    return ",".join(words)


def written(batches: Sequence[StateBatch]) -> str:
    """What is written, sorted, adjacent batches with the same state as one."""
    merged: list[StateBatch] = []
    for batch in sorted(batches):
        before = merged[-1] if merged else None
        if before is not None and before.last_offset + 1 == batch.first_offset and before[2:] == batch[2:]:
            merged[-1] = before._replace(last_offset=batch.last_offset)
        else:
            merged.append(batch)
    return "".join(f"{first}-{last}-{int(state)}-{count}," for first, last, state, count in merged)


def counts_of(answer: str) -> dict[str, int]:
    """What happened in a case."""
    results = [result.split(" ")[0] for result in answer.split(";")]
    return {
        "operations": len(results) - 1,
        "writes": sum("@" in result for result in results),
        "INVALID_RECORD_STATE": results.count("INVALID_RECORD_STATE"),
        "INVALID_REQUEST": results.count("INVALID_REQUEST"),
    }


CAMPAIGN: Final = OracleCampaign("share.kafka", __doc__, SOURCE, OperationsCase, counts_of, "operations")

if __name__ == "__main__":
    raise SystemExit(CAMPAIGN.main())
