"""Streams groups (KIP-1071): what `compat_tests.comparisons.streams_groups` does not see, and random conversations."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from kwire.base.errors import ErrorCode
from kwire.coordinator.groups.streams.creations import FAILURES_MAX, TopicCreations
from kwire.coordinator.groups.streams.topology.configured import InternalTopic, Status
from kwire.coordinator.runtime.machine import CoordinatorRecord
from tests.coordinator.bench import Settings
from tests.coordinator.streams_bench import StreamsBench, active_of, reading, standby_of


@pytest.fixture
def bench() -> StreamsBench:
    return StreamsBench()


def compacted(log: list[CoordinatorRecord]) -> list[CoordinatorRecord]:
    """The newest record of each key, without tombstones."""
    newest = {record.key: position for position, record in enumerate(log)}
    return [
        record for position, record in enumerate(log) if newest[record.key] == position and record.value is not None
    ]


def test_a_lost_response_is_repeated(bench: StreamsBench) -> None:
    first = bench.arrive("a")
    bench.arrive("b")
    again = bench.stream("a", first.member_epoch, active_of(first))
    repeated = bench.stream("a", first.member_epoch, {"0": [0, 1]})
    assert (again.member_epoch, active_of(again)) == (2, {"0": [0, 1]})
    assert repeated.member_epoch == 3
    repeated = bench.stream("a", 2, {"0": [0, 1]})
    assert (repeated.member_epoch, active_of(repeated)) == (3, {"0": [0, 1]})


def test_a_full_group_accepts_nobody(bench: StreamsBench) -> None:
    bench.settings.group_streams_max_size = 1
    bench.arrive("a")
    assert bench.arrive("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.arrive("a").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED, "as in Kafka"


def test_missing_source_topics_do_not_fail_a_member_with_an_endpoint(bench: StreamsBench) -> None:
    """Kafka 4.3.1 answers UNKNOWN_SERVER_ERROR then."""
    response = bench.arrive("a", reading("nowhere"), endpoint="here")
    assert [one.status_code for one in response.status] == [Status.MISSING_SOURCE_TOPICS]
    assert response.partitions_by_user_endpoint[0].active_partitions == []


def test_missing_internal_topics_are_handed_to_the_handler(bench: StreamsBench) -> None:
    bench.arrive("a", reading("t", changelog="c"))
    assert bench.missing == (InternalTopic("c", 4, -1, {}),)
    bench.set_topics(c=4)
    assert active_of(bench.stream("a", 2, {})) == {"0": [0, 1, 2, 3]}
    assert not bench.missing


def test_properties_of_the_group_stay_within_the_limits_of_the_broker(bench: StreamsBench) -> None:
    bench.cluster.group_configs["g"] = {
        "streams.session.timeout.ms": "1",
        "streams.heartbeat.interval.ms": "60000",
        "streams.num.standby.replicas": "9",
    }
    bench.set_topics(c=4)
    response = bench.arrive("a", reading("t", changelog="c"))
    assert response.heartbeat_interval_ms == 15_000
    assert bench.streams.assignment_configs == {"num.standby.replicas": "2"}
    bench.advance(44_000)
    assert bench.streams.members
    bench.advance(1_000)
    assert bench.streams.is_empty


def test_a_deleted_group_leaves_no_timer() -> None:
    bench = StreamsBench(Settings(group_streams_initial_rebalance_delay_ms=60_000))
    response = bench.arrive("a")
    assert [one.status_code for one in response.status] == [Status.ASSIGNMENT_DELAYED]
    bench.stream("a", -1)
    bench.run(bench.shard.delete_group("g"))
    assert bench.shard.groups.find("g") is None
    assert len(bench.shard.timers) == 0


def test_the_delayed_assignment_is_computed_without_a_heartbeat() -> None:
    bench = StreamsBench(Settings(group_streams_initial_rebalance_delay_ms=3_000))
    bench.arrive("a")
    second = bench.arrive("b")
    bench.stream("a", 1, {})
    bench.advance(3_000)
    assert bench.streams.assignment_epoch == bench.streams.epoch
    assert active_of(bench.stream("b", second.member_epoch, {})) == {"0": [1, 3]}


def test_heartbeats_that_bump_the_group_epoch_are_counted(bench: StreamsBench) -> None:
    first = bench.arrive("a")
    bench.stream("a", first.member_epoch, active_of(first))
    assert bench.counters.streams_rebalances == 1
    bench.arrive("b")
    bench.stream("b", -1)
    assert bench.counters.streams_rebalances == 2, "as in Kafka, a member that leaves does not count"


def test_tombstones_of_a_group_that_is_not_there_are_ignored(bench: StreamsBench) -> None:
    """KAFKA-20254."""
    bench.arrive("a")
    bench.stream("a", -1)
    bench.run(bench.shard.delete_group("g"))
    bench.log = [record for record in bench.log if record.value is None]
    bench.reload()
    assert bench.shard.groups.find("g") is None


@pytest.mark.parametrize("seed", range(20))
def test_records_of_members_may_come_before_those_of_the_group(bench: StreamsBench, seed: int) -> None:
    """KAFKA-20254: after compaction, the first record of a group may be any of them."""
    first = bench.arrive("a")
    bench.arrive("b")
    bench.stream("a", first.member_epoch, active_of(first))
    seen = _view(bench)
    bench.log = compacted(bench.log)
    random.Random(seed).shuffle(bench.log)
    bench.reload()
    assert _view(bench) == seen


def test_a_group_of_offsets_before_the_records_of_the_streams_group_is_replaced(bench: StreamsBench) -> None:
    """The offsets of an older group of this id come first in the log."""
    bench.commit({("t", 0): 5})
    bench.arrive("a")
    bench.log = [record for record in compacted(bench.log) if record.key[:2] != b"\0\2"]
    bench.reload()
    assert bench.streams.state_name == "Stable"
    assert bench.commit({("t", 0): 6}, "a", 2) is ErrorCode.NONE


def test_failures_of_creations_are_forgotten() -> None:
    creations = TopicCreations()
    topics = [InternalTopic(name, 1, -1, {}) for name in ("a", "b")]
    assert creations.begin(topics, 0) == topics
    assert creations.begin(topics, 0) == []
    creations.end(topics, {"a": "no"}, 10)
    assert creations.reasons(topics, 9) == {"a": "no"}
    assert [topic.name for topic in creations.begin(topics, 9)] == ["b"]
    assert [topic.name for topic in creations.begin(topics, 10)] == ["a"]
    creations.end([], {f"t{number}": "no" for number in range(FAILURES_MAX + 1)}, 20)
    assert not creations.reasons([InternalTopic("t0", 1, -1, {})], 11)


# -- random conversations ----------------------------------------------------------------------------------------------


class Thread:
    """A client: a stream thread. It runs its tasks until it has reported that it gave them up."""

    def __init__(self, bench: StreamsBench, number: int) -> None:
        self.bench = bench
        self.number = number
        self.process = f"p{number % 3}"
        self.lives = 0
        self.epoch = 0
        self.active: dict[str, list[int]] = {}
        self.standby: dict[str, list[int]] = {}

    @property
    def member(self) -> str:
        """The present member id."""
        return f"m{self.number}-{self.lives}"

    def beat(self, *, loses_response: bool = False) -> None:
        """Send a heartbeat, or join."""
        if self.epoch:
            response = self.bench.stream(self.member, self.epoch, self.active, self.standby)
        else:
            shape = reading("t", changelog="c")
            response = self.bench.arrive(self.member, shape, process_id=self.process)
        if loses_response:
            return
        if response.error_code:
            self.start_again()
            return
        self.epoch = response.member_epoch
        if response.active_tasks is not None:
            self.active, self.standby = active_of(response), standby_of(response)

    def start_again(self) -> None:
        """Give everything up, and join as another member."""
        self.epoch, self.active, self.standby = 0, {}, {}
        self.lives += 1

    def leave(self) -> None:
        """Leave in order."""
        if self.epoch:
            self.active, self.standby = {}, {}
            self.bench.stream(self.member, -1)
            self.start_again()


@pytest.mark.parametrize("seed", range(25))
def test_random_conversations_never_give_a_task_to_two_threads(seed: int) -> None:
    chance = random.Random(seed)
    bench = StreamsBench(Settings(group_streams_num_standby_replicas=seed % 3), seed)
    bench.set_topics(c=6, t=6)
    threads = [Thread(bench, number) for number in range(6)]
    for _ in range(150):
        thread = chance.choice(threads)
        action = chance.random()
        if action < 0.85:
            thread.beat(loses_response=thread.epoch > 0 and chance.random() < 0.1)
        elif action < 0.9:
            thread.leave()
        elif action < 0.93:
            bench.advance(chance.choice([100, 5_000, 20_000]))
        elif action < 0.96:
            bench.cluster.group_configs["g"] = {"streams.num.standby.replicas": str(chance.randrange(3))}
        else:
            _reload(bench, chance)
        _check(bench, threads)
    for _ in range(14):
        bench.advance(5_000)  # the sessions of members that nobody is any more end
        for thread in threads:
            thread.beat()
            _check(bench, threads)
    assert bench.streams.state_name == "Stable"
    running = sorted(one for thread in threads for one in thread.active.get("0", ()))
    assert running == list(range(6))


def _check(bench: StreamsBench, threads: Iterable[Thread]) -> None:
    """No task that two threads of the group run; no process with two copies of a task."""
    if not bench.shard.groups.find("g"):
        return
    members = bench.streams.members
    there = [thread for thread in threads if thread.member in members]
    active = [one for thread in there for one in thread.active.get("0", ())]
    assert len(active) == len(set(active))
    copies = [
        (thread.process, one) for thread in there for one in (*thread.active.get("0", ()), *thread.standby.get("0", ()))
    ]
    assert len(copies) == len(set(copies))


def _reload(bench: StreamsBench, chance: random.Random) -> None:
    """Another broker loads the log, which may have been compacted: it has the same group."""
    if not bench.shard.groups.find("g"):
        return
    seen = _view(bench)
    if chance.random() < 0.5:
        bench.log = compacted(bench.log)
    bench.reload()
    assert _view(bench) == seen


def _view(bench: StreamsBench) -> object:
    group = bench.streams
    members = {member_id: group.members[member_id] for member_id in sorted(group.members)}
    target = {member_id: group.target[member_id] for member_id in sorted(group.target)}
    epochs = group.epoch, group.assignment_epoch, group.validated_topology_epoch, group.metadata_hash
    return members, target, epochs, group.topology, group.assignment_configs, group.state_name
