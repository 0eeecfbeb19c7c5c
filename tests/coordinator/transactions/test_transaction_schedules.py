"""Random schedules of transactional producers on a virtual clock. They begin, stall, retry, crash and return, while the
coordinator loses its leadership at any step of a commit. Partitions are in-memory logs with Kafka's rules.

Invariants: a transaction whose commit was confirmed is completely visible, every other one is invisible; records of
fenced producers are never visible; after all producers have stopped, no transaction stays open.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.topic_partition import TopicPartition
from kwire.coordinator.runtime.machine import CoordinatorRecord, Instant, Result, settle
from kwire.coordinator.transactions.records import Transaction, TransactionState
from kwire.coordinator.transactions.shard import Producer, TransactionShard

NONE = ErrorCode.NONE
WALL_MS = 1_800_000_000_000
STEPS = 120
DAY_MS = 86_400_000


class Settings:
    transactional_id_expiration_ms = 7 * DAY_MS


class Log:
    """One partition: visible records, open transactions by producer id, and the epoch checks of the real log."""

    def __init__(self) -> None:
        self.visible: list[Any] = []
        self.open: dict[int, list[Any]] = {}
        self.epochs: dict[int, int] = {}

    def write(self, producer: Producer, value: Any, *, verified: bool) -> bool:
        if producer.epoch < self.epochs.get(producer.id, -1):
            return False
        ongoing = producer.id in self.open and self.epochs[producer.id] == producer.epoch
        if not ongoing and not verified:
            return False
        self.epochs[producer.id] = producer.epoch
        self.open.setdefault(producer.id, []).append(value)
        return True

    def mark(self, producer: Producer, *, commit: bool) -> None:
        assert producer.epoch >= self.epochs.get(producer.id, -1), "the marker has an older epoch than the records"
        self.epochs[producer.id] = producer.epoch
        values = self.open.pop(producer.id, [])
        if commit:
            self.visible += values


class Bench:
    """A coordinator with its log, and the partitions of the transactions."""

    def __init__(self, seed: int, level: int) -> None:
        self.chance = random.Random(seed)
        self.level = level
        self.now_ms = 0
        self.next_id = 0
        self.log: list[CoordinatorRecord] = []
        self.partitions: dict[TopicPartition, Log] = {("t", index): Log() for index in range(3)}
        self.marking: dict[str, tuple[Transaction, Producer, bool, list[TopicPartition]]] = {}
        self.refuse = False
        self.shard = self._new_shard()

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(Settings(), self._take_id, lambda: self.level)

    def _take_id(self) -> int:
        self.next_id += 1
        return self.next_id

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, WALL_MS + self.now_ms)

    def run(self, result: Result[Any]) -> Any:
        settle(result, self.now, self._append, lambda record, offset: self.shard.apply(*record, offset))
        self.queue_markers()
        return result.response

    def _append(self, records: list[CoordinatorRecord]) -> int:
        if self.refuse:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        self.log += records
        return len(self.log) - len(records)

    def queue_markers(self) -> None:
        """Queue the markers of prepared transactions."""
        for one in self.shard.take_unfinished():
            producer = Producer(one.producer_id, one.producer_epoch)
            commit = one.state is TransactionState.PREPARE_COMMIT
            self.marking[one.transactional_id] = (one, producer, commit, list(one.partitions))

    def mark_one(self) -> None:
        """One step of completing a transaction: a marker, or the Complete record."""
        if not self.marking:
            return
        name = self.chance.choice(list(self.marking))
        _, producer, commit, left = self.marking[name]
        if left:
            self.partitions[left.pop(self.chance.randrange(len(left)))].mark(producer, commit=commit)
        elif not self.refuse:
            del self.marking[name]
            assert self.run(self.shard.complete(name, producer, self.now))

    def crash(self) -> None:
        """A new leader loads the log and continues with the prepared transactions."""
        before = {one.transactional_id: _picture(one) for one in self.shard}
        self.marking.clear()
        self.shard = self._new_shard()
        for offset, record in enumerate(self.log):
            self.shard.apply(*record, offset)
        assert {one.transactional_id: _picture(one) for one in self.shard} == before
        self.run(self.shard.loaded(self.now))

    def finish(self) -> None:
        """All producers stop: open transactions time out and are completed."""
        self.refuse = False
        self.now_ms += DAY_MS
        self.run(self.shard.abort_timed_out(self.now))
        while self.marking:
            self.mark_one()


def _picture(one: Transaction) -> tuple[Any, ...]:
    return (
        one.producer_id,
        one.previous_producer_id,
        one.next_producer_id,
        one.producer_epoch,
        one.timeout_ms,
        one.state,
        set(one.partitions),
        one.start_ms,
        one.update_ms,
        one.client_version,
    )


class Client:
    """A producer. Producers with the same transactional id fence each other."""

    def __init__(self, bench: Bench, name: str, *, new: bool) -> None:
        self.bench = bench
        self.name = name
        self.version = 2 if new else 0
        self.producer: Producer | None = None
        self.values: dict[TopicPartition, list[Any]] = {}
        self.committed: list[dict[TopicPartition, list[Any]]] = []
        self.doubtful: list[dict[TopicPartition, list[Any]]] = []
        self.ending: bool | None = None
        self.count = 0

    def step(self) -> None:
        try:
            self._step()
        except KafkaError:  # the append to the coordinator's log failed: nothing changed
            assert self.bench.refuse

    def _step(self) -> None:
        chance, shard, now = self.bench.chance, self.bench.shard, self.bench.now
        if self.producer is None:
            outcome = self.bench.run(shard.init(self.name, 60_000, None, now))
            assert outcome.error in (NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
            if outcome.error is NONE:
                self.producer = outcome.producer
            return
        luck = chance.random()
        if self.ending is not None:
            self.end()
        elif luck < 0.6:
            self.write(chance.choice(list(self.bench.partitions)))
        elif luck < 0.95 and (self.values or self.version == 2):
            self.ending = bool(self.values) and chance.random() < 0.7
            self.end()
        elif luck > 0.97:
            self.give_up()

    def write(self, partition: TopicPartition) -> None:
        assert self.producer is not None
        bench, shard = self.bench, self.bench.shard
        asked = shard.add_partitions(self.name, self.producer, [partition], self.version, bench.now)
        error = bench.run(asked)
        if error is ErrorCode.CONCURRENT_TRANSACTIONS:
            return
        if error is not NONE:
            self.give_up()
            return
        verified = shard.verify(self.name, self.producer, [partition]).response
        assert verified == {partition: NONE}
        self.count += 1
        value = (self.name, id(self), self.producer, self.count)
        if bench.partitions[partition].write(self.producer, value, verified=True):
            self.values.setdefault(partition, []).append(value)
        else:
            self.give_up()

    def end(self) -> None:
        assert self.producer is not None
        if self.bench.chance.random() < 0.2:
            return  # the request is delayed
        commit = bool(self.ending)
        asked = self.bench.shard.end(
            self.name, self.producer, commit=commit, client_version=self.version, now=self.bench.now
        )
        outcome = self.bench.run(asked)
        if outcome.error is ErrorCode.CONCURRENT_TRANSACTIONS:
            self._in_doubt(commit)  # decided by this or an earlier attempt, or fenced
            return
        if outcome.error is not NONE:
            self.give_up()
            return
        if self.bench.chance.random() < 0.2:
            self._in_doubt(commit)  # the response is lost: try again
            return
        if commit:
            self.committed.append(self.values)
        self.values, self.ending = {}, None
        if self.version == 2:
            assert outcome.producer.id >= 0
            self.producer = outcome.producer

    def _in_doubt(self, commit: bool) -> None:
        if commit and self.values not in self.doubtful:
            self.doubtful.append(self.values)

    def give_up(self) -> None:
        """The producer crashes or is fenced, and may return."""
        if self.ending and self.values and self.values not in self.doubtful:
            self.doubtful.append(self.values)
        self.producer, self.values, self.ending = None, {}, None


def run(seed: int, level: int) -> None:
    bench = Bench(seed, level)
    clients = [
        Client(bench, name, new=level == 2 and number % 3 != 2) for number, name in enumerate(["a", "a", "a", "b", "b"])
    ]
    for _ in range(STEPS):
        luck = bench.chance.random()
        if luck < 0.6:
            bench.chance.choice(clients).step()
        elif luck < 0.85:
            bench.mark_one()
        elif luck < 0.9:
            bench.refuse = not bench.refuse
        elif luck < 0.95:
            bench.crash()
        else:
            bench.now_ms += bench.chance.choice((10, 1_000, 30_000))
            if not bench.refuse:
                bench.run(bench.shard.abort_timed_out(bench.now))
    bench.finish()
    check(bench, clients)


def check(bench: Bench, clients: list[Client]) -> None:
    visible = {partition: log.visible for partition, log in bench.partitions.items()}
    shown = [value for values in visible.values() for value in values]
    assert len(shown) == len(set(shown)), "a record is visible twice"
    allowed = set()
    for client in clients:
        for values in client.committed:
            for partition, records in values.items():
                assert set(records) <= set(visible[partition]), "a committed transaction is incomplete"
        for values in (*client.committed, *client.doubtful):
            allowed |= {record for records in values.values() for record in records}
        for values in client.doubtful:
            seen = {record in visible[partition] for partition, records in values.items() for record in records}
            assert len(seen) <= 1, "a part of a transaction is visible"
    assert set(shown) <= allowed, "an aborted record is visible"
    assert not any(log.open for log in bench.partitions.values()), "a transaction is still open"
    assert all(not one.state.is_prepared for one in bench.shard)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("block", range(5))
def test_transactions_are_atomic_in_every_schedule(block: int, level: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        run(seed, level)


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("commit", [False, True])
def test_a_transaction_is_completed_after_a_crash_at_any_step(commit: bool, level: int) -> None:
    """With three partitions there are four steps after the decision. The leader may crash after each of them."""
    for crash_at in range(6):
        bench = Bench(crash_at, level)
        client = Client(bench, "a", new=level == 2)
        client.step()
        for partition in bench.partitions:
            client.write(partition)
        assert client.producer is not None and len(client.values) == 3
        written = {partition: list(values) for partition, values in client.values.items()}
        bench.run(bench.shard.end("a", client.producer, commit=commit, client_version=client.version, now=bench.now))
        for step in range(12):
            if step == crash_at:
                bench.crash()
            bench.mark_one()
        assert not bench.marking and bench.shard.transactions["a"].state.text.startswith("Complete")
        for partition, log in bench.partitions.items():
            assert log.visible == (written[partition] if commit else []) and not log.open


def test_idle_ids_are_deleted() -> None:
    bench = Bench(1, 2)
    idle, busy = Client(bench, "idle", new=True), Client(bench, "busy", new=True)
    idle.step()
    busy.step()
    busy.write(("t", 0))
    bench.now_ms = 7 * DAY_MS - 1
    bench.run(bench.shard.expire(bench.now))
    assert set(bench.shard.transactions) == {"idle", "busy"}
    bench.now_ms += 1
    bench.run(bench.shard.expire(bench.now))
    assert set(bench.shard.transactions) == {"busy"}
    bench.crash()
    assert set(bench.shard.transactions) == {"busy"}


def test_a_producer_with_the_last_epoch_gets_a_new_id() -> None:
    for level in (0, 2):
        bench = Bench(1, level)
        first = bench.run(bench.shard.init("a", 1000, None, bench.now)).producer
        bench.shard.transactions["a"].producer_epoch = 32765
        last = bench.run(bench.shard.init("a", 1000, None, bench.now)).producer
        assert last == (first.id, 32766)
        following = bench.run(bench.shard.init("a", 1000, last, bench.now)).producer
        assert following.epoch == 0 and following.id != first.id
        again = bench.run(bench.shard.init("a", 1000, last, bench.now))  # a retry
        assert (again.error, again.producer) == (NONE, following)
