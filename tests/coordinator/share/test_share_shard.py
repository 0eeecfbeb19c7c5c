"""The machine of the share coordinator: epochs, snapshots, and what may be deleted from its log."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.runtime.machine import CoordinatorRecord, Instant, Result, settle
from kwire.coordinator.share import records
from kwire.coordinator.share.batches import StateBatch
from kwire.coordinator.share.records import SharePartitionKey, ShareState
from kwire.coordinator.share.shard import NOTHING, ShareShard

TOPIC = bytes(range(16))
KEY = SharePartitionKey("group", TOPIC, 0)
OTHER = SharePartitionKey("group", TOPIC, 1)
BATCH = StateBatch(0, 9, 1, 2)


class Settings:
    share_coordinator_snapshot_update_records_per_snapshot = 3
    share_coordinator_cold_partition_snapshot_interval_ms = 1000


class Bench:
    """A shard and its log. ``topics``: topic id -> number of partitions."""

    def __init__(self) -> None:
        self.topics = {TOPIC: 2}
        self.log: list[CoordinatorRecord] = []
        self.start = 0
        self.now = Instant(0, 1_000_000)
        self.shard = self.fresh()

    def fresh(self) -> ShareShard:
        return ShareShard(Settings(), lambda topic_id: self.topics.get(topic_id, 0))

    def run(self, result: Result[Any]) -> Any:
        def append(written: list[CoordinatorRecord]) -> int:
            self.log += written
            return len(self.log) - len(written)

        settle(result, self.now, append, lambda record, offset: self.apply(self.shard, record, offset))
        return result.response

    @staticmethod
    def apply(shard: ShareShard, record: CoordinatorRecord, offset: int) -> None:
        shard.apply(record.key, record.value, offset, wall_ms=0)

    def loaded(self, start: int = 0) -> ShareShard:
        """A shard that has loaded the log from an offset on."""
        shard = self.fresh()
        for offset, record in enumerate(self.log[start:], start):
            self.apply(shard, record, offset)
        return shard

    def initialize(self, key: SharePartitionKey = KEY, state_epoch: int = 0, start: int = 0) -> None:
        self.run(self.shard.initialize(key, state_epoch, start, self.now))

    def write(self, *batches: StateBatch, key: SharePartitionKey = KEY, epoch: int = 0, leader: int = 0) -> None:
        self.run(self.shard.write(key, ShareState(0, epoch, leader, -1, -1, batches), self.now))

    def state(self, shard: ShareShard | None = None, key: SharePartitionKey = KEY) -> ShareState:
        found = (shard or self.shard).summary(key).response
        assert found is not None
        return found

    def kinds(self) -> str:
        """The log: S for snapshots, U for updates, T for tombstones."""
        kinds = []
        for record in self.log:
            _, is_snapshot = records.parse_key(record.key)
            kinds.append("T" if record.value is None else "S" if is_snapshot else "U")
        return "".join(kinds)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


def test_nothing_is_written_or_read_before_it_is_initialised(bench: Bench) -> None:
    with refused(ErrorCode.INVALID_REQUEST):
        bench.write(BATCH)
    with refused(ErrorCode.INVALID_REQUEST):
        bench.shard.read(KEY, 0, bench.now)
    assert bench.state() == NOTHING
    assert not bench.log


def test_a_snapshot_follows_enough_updates(bench: Bench) -> None:
    bench.initialize()
    for number in range(8):
        bench.write(StateBatch(number, number, 1, 2))
    assert bench.kinds() == "SUUUSUUUS"
    assert bench.state().batches == (StateBatch(0, 7, 1, 2),)
    assert bench.state().snapshot_epoch == 2


def test_a_former_leader_is_fenced_also_after_a_reset(bench: Bench) -> None:
    """A reset sets the leader epoch of the state to 0, and must not let a former leader write."""
    bench.initialize()
    bench.run(bench.shard.read(KEY, 7, bench.now))
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        bench.write(BATCH, leader=6)
    bench.initialize(state_epoch=1)
    assert bench.state().leader_epoch == 0
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        bench.write(BATCH, epoch=1, leader=6)
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        bench.shard.read(KEY, 6, bench.now)
    bench.write(BATCH, epoch=1, leader=7)


def test_a_leader_that_does_not_know_of_a_reset_is_fenced(bench: Bench) -> None:
    bench.initialize()
    bench.initialize(state_epoch=2, start=50)
    with refused(ErrorCode.FENCED_STATE_EPOCH):
        bench.write(BATCH, epoch=1)
    with refused(ErrorCode.FENCED_STATE_EPOCH):
        bench.initialize(state_epoch=1)
    assert bench.state().start_offset == 50


def test_a_write_that_was_overtaken_does_not_set_the_start_offset_back(bench: Bench) -> None:
    """Otherwise what was accepted before the start offset is delivered again (simulated cluster, seed 20000004)."""
    bench.initialize()
    bench.write(StateBatch(0, 4, 1, 2), StateBatch(5, 5, 1, 0))
    bench.run(bench.shard.write(KEY, ShareState(0, 0, 0, 5, 0, (StateBatch(6, 6, 1, 2),)), bench.now))
    bench.run(bench.shard.write(KEY, ShareState(0, 0, 0, 0, 0, (StateBatch(7, 7, 1, 2),)), bench.now))
    expected = (StateBatch(5, 5, 1, 0), StateBatch(6, 7, 1, 2))
    for shard in (bench.shard, bench.loaded()):
        assert (bench.state(shard).start_offset, bench.state(shard).batches) == (5, expected)


def test_a_second_initialisation_without_a_start_offset_changes_nothing(bench: Bench) -> None:
    """It was sent again, or comes late: what was accepted meanwhile must not come again (simulated cluster, seed
    21000018)."""
    bench.initialize(state_epoch=4, start=-1)
    bench.write(BATCH, epoch=4)
    for state_epoch in (4, 5):
        bench.initialize(state_epoch=state_epoch, start=-1)
    assert bench.kinds() == "SU"
    assert bench.state().batches == (BATCH,)
    bench.write(StateBatch(10, 10, 1, 2), epoch=4)


def test_a_read_writes_a_new_leader_epoch_once(bench: Bench) -> None:
    bench.initialize()
    for _ in range(3):
        bench.run(bench.shard.read(KEY, 4, bench.now))
    assert bench.kinds() == "SU"
    assert bench.state().leader_epoch == 4


def test_a_deleted_share_partition_begins_anew(bench: Bench) -> None:
    bench.initialize(state_epoch=5)
    bench.write(BATCH, epoch=5, leader=3)
    bench.run(bench.shard.delete(KEY))
    bench.run(bench.shard.delete(KEY))
    assert bench.kinds() == "SUT"
    bench.initialize(state_epoch=0, start=1)
    bench.write(BATCH, epoch=0, leader=1)
    assert len(bench.shard) == 1


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (KEY._replace(partition=2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (KEY._replace(topic_id=bytes(16)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (KEY._replace(partition=-1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_only_partitions_that_exist_have_a_state(bench: Bench, key: SharePartitionKey, code: ErrorCode) -> None:
    for operation in (bench.shard.summary, bench.shard.delete):
        with refused(code):
            operation(key)
    with refused(code):
        bench.initialize(key)


def test_the_states_of_deleted_topics_are_deleted(bench: Bench) -> None:
    bench.initialize()
    bench.initialize(OTHER)
    bench.run(bench.shard.forget_topics({bytes(16)}))
    assert len(bench.shard) == 2
    bench.run(bench.shard.forget_topics({TOPIC}))
    assert bench.kinds() == "SSTT"
    assert len(bench.shard) == 0


def test_what_all_snapshots_have_passed_may_be_deleted(bench: Bench) -> None:
    bench.initialize()
    bench.initialize(OTHER)
    assert bench.shard.redundant_offset() is None
    for _ in range(4):
        bench.write(BATCH)
    assert bench.kinds() == "SSUUUS"
    assert bench.shard.redundant_offset() == 1  # the other one's only snapshot
    bench.now = Instant(0, bench.now.wall_ms + 1000)
    bench.run(bench.shard.refresh(bench.now))
    assert bench.kinds() == "SSUUUSSS"
    assert bench.shard.redundant_offset() == 6
    bench.run(bench.shard.delete(KEY))
    bench.run(bench.shard.delete(OTHER))
    assert bench.shard.redundant_offset() == 9


def test_a_refresh_changes_no_state_and_happens_once(bench: Bench) -> None:
    bench.initialize()
    bench.write(BATCH)
    before = bench.state()
    bench.now = Instant(0, bench.now.wall_ms + 1000)
    bench.run(bench.shard.refresh(bench.now))
    after = bench.state()
    assert after == before._replace(snapshot_epoch=1, write_ms=bench.now.wall_ms)
    bench.now = Instant(0, bench.now.wall_ms + 5000)
    bench.run(bench.shard.refresh(bench.now))
    assert bench.kinds() == "SUS"


@pytest.mark.parametrize("seed", range(30))
def test_a_loader_finds_the_same_states_wherever_the_log_begins(bench: Bench, seed: int) -> None:
    choose = random.Random(seed)
    steps: list[Callable[[SharePartitionKey], object]] = [
        lambda key: bench.initialize(key, choose.randrange(3), choose.randrange(20)),
        lambda key: bench.run(bench.shard.delete(key)) if choose.random() < 0.2 else None,
        lambda key: bench.run(bench.shard.read(key, choose.randrange(-1, 4), bench.now)),
        *[lambda key: bench.write(*_batches(choose), key=key, epoch=-1, leader=choose.randrange(-1, 4))] * 6,
        lambda key: bench.run(bench.shard.refresh(bench.now)),
    ]
    for _ in range(80):
        bench.now = Instant(0, bench.now.wall_ms + choose.randrange(400))
        try:
            choose.choice(steps)(choose.choice((KEY, OTHER)))
        except KafkaError:
            continue
        for start in {0, bench.shard.redundant_offset() or 0}:
            shard = bench.loaded(start)
            assert [bench.state(shard, key) for key in (KEY, OTHER)] == [bench.state(key=key) for key in (KEY, OTHER)]


def _batches(choose: random.Random) -> list[StateBatch]:
    found = []
    for _ in range(choose.randrange(4)):
        first = choose.randrange(30)
        found.append(StateBatch(first, first + choose.randrange(5), choose.randrange(1, 4), choose.choice((0, 2, 4))))
    return found
