"""Random schedules of one consumer group on a virtual clock. Members join, work, stall, lose responses, crash and
return; topics change, appends fail, the leadership moves.

Invariants after every step: no partition has two owners, neither in the coordinator nor among the clients; member
epochs are never ahead of the group's; every member has its timers; and loading the log restores the state, also when a
part of it has been compacted, so that members come before their group (KAFKA-20254). In the end, a group whose members
follow the protocol is stable with every partition assigned, and one without heartbeats is empty.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.coordinator.groups.consumer.group import ConsumerGroup
from kwire.coordinator.groups.consumer.member import MemberState
from tests.coordinator.consumer_bench import Consumer, ConsumerBench, settings

STEPS = 120
SEEDS = range(*map(int, os.environ.get("KWIRE_SCHEDULES", "0:120").split(":")))
TOPICS = ("t", "u", "v")


class Schedule:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        limit = self.chance.choice((3, 100, 100, 100))
        interval_ms = self.chance.choice((0, 0, 1_000))
        configured = settings(group_consumer_max_size=limit, group_consumer_assignment_interval_ms=interval_ms)
        self.bench = ConsumerBench(configured, seed=seed)
        self.clients = [Consumer(self.bench, number) for number in range(6)]
        self.epochs = (0, 0)

    def run(self) -> None:
        for _ in range(STEPS):
            self.step(self.chance.choice(self.clients))
            self.check()
        self.bench.refuse = None
        self.behave()
        self.stop_all()

    # -- events --------------------------------------------------------------------------------------------------------

    def step(self, client: Consumer) -> None:
        luck = self.chance.random()
        if luck < 0.6:
            self.work(client)
        elif luck < 0.66:
            client.leave(-2 if client.instance and self.chance.random() < 0.5 else -1)
        elif luck < 0.72:
            client.forget()  # a crash
            client.lives += self.chance.random() < 0.8
        elif luck < 0.76:
            if self.chance.random() < 0.5:
                self.bench.set_topics(t=3 + self.chance.randrange(5))
            else:
                self.bench.set_topics(**{self.chance.choice(TOPICS): self.chance.choice((2, 4, 7, 0))})
        elif luck < 0.79:
            self.bench.refuse = None if self.bench.refuse else ErrorCode.NOT_ENOUGH_REPLICAS
        elif luck < 0.82 and self.bench.refuse is None:
            self.reload()
        else:
            self.bench.refuse = None
            self.bench.advance(self.chance.choice((10, 1_000, 5_000, 20_000)))

    def work(self, client: Consumer) -> None:
        loses_response = self.chance.random() < 0.1
        before = client.epoch, client.owned
        if not client.is_in:
            fields: dict[str, Any] = {}
            if self.chance.random() < 0.2:
                fields = {"subscribed_topic_names": None, "subscribed_topic_regex": "[tu]"}
            assignor = self.chance.choice((None, None, "range", "uniform"))
            client.enter(self.some_topics(), server_assignor=assignor, **fields)
            loses_response = False
        elif self.chance.random() < 0.1:
            client.beat(subscribed_topic_names=list(self.some_topics()), subscribed_topic_regex="")
        else:
            client.beat(reports=self.chance.random() < 0.7)
        if loses_response and client.is_in:
            client.epoch, client.owned = before

    def some_topics(self) -> tuple[str, ...]:
        return tuple(self.chance.sample(TOPICS, self.chance.randrange(1, 3)))

    def reload(self) -> None:
        before = picture(self.bench)
        if self.chance.random() < 0.5:
            self.bench.compact(self.chance.randrange(len(self.bench.log) + 1), tombstones=self.chance.random() < 0.5)
        self.bench.reload()
        assert picture(self.bench) == before, "loading the log gives another state"

    # -- invariants ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        group = self.bench.shard.groups.find(self.bench.group)
        if group is None:
            self.epochs = (0, 0)
            return
        assert isinstance(group, ConsumerGroup)
        assert self.epochs <= (group.epoch, group.assignment_epoch)
        self.epochs = (group.epoch, group.assignment_epoch)
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            assert member.epoch <= group.assignment_epoch <= group.epoch
            assert ("consumer-session", group.group_id, member.member_id) in self.bench.shard.timers
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch > 0:
                assert member.revoking
                assert ("consumer-rebalance", group.group_id, member.member_id) in self.bench.shard.timers
            for part in (member.assigned, member.revoking):
                for topic, partitions in part.items():
                    for partition in partitions:
                        assert (topic, partition) not in owners, "two owners"
                        owners[topic, partition] = member.member_id
        table = {(topic, index): name for topic, part in group.owners.items() for index, name in part.items()}
        assert table == owners
        assert {m.instance_id: m.member_id for m in group.members.values() if m.instance_id} == group.static_ids
        held: dict[tuple[bytes, int], int] = {}
        for client in self.clients:
            if client.is_in and client.member_id in group.members:
                for topic, read in client.owned.items():
                    for partition in read:
                        assert (topic, partition) not in held, "two members read one partition"
                        held[topic, partition] = client.number

    def behave(self) -> None:
        """All members join and follow the protocol: the group becomes stable."""
        bench = self.bench
        bench.settings.group_consumer_max_size = 100
        bench.set_topics(t=0, u=0)
        bench.set_topics(t=5, u=3)
        for client in self.clients:
            client.forget()
            client.lives += 1
        bench.advance(10 * 60_000)
        for _ in range(40):
            for client in self.clients:
                if client.is_in:
                    client.beat()
                else:
                    client.enter(("t", "u") if client.number % 2 else ("t",))
                self.check()
            bench.advance(1_000)
        group = bench.consumers
        assert group.state_name == "Stable"
        owned = sorted(
            (topic, index) for client in self.clients for topic, part in client.owned.items() for index in part
        )
        wanted = [("t", index) for index in range(5)] + [("u", index) for index in range(3)]
        assert owned == sorted((bench.cluster.id(name), index) for name, index in wanted)
        self.reload()

    def stop_all(self) -> None:
        self.bench.advance(10 * 60_000)
        assert not self.bench.consumers.members and not self.bench.consumers.owners
        assert self.bench.consumers.state_name == "Empty"
        assert len(self.bench.shard.timers) == 0


def picture(bench: ConsumerBench) -> Any:
    """The state of the group that the log contains."""
    group = bench.shard.groups.find(bench.group)
    if not isinstance(group, ConsumerGroup):
        return None
    return (
        group.epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.assignment_ms,
        group.members,
        group.target,
        group.owners,
        group.names,
        group.regexes,
        group.resolved,
        group.assignors,
        group.static_ids,
    )


@pytest.mark.parametrize("block", range(6))
def test_invariants_hold_in_every_schedule(block: int) -> None:
    for seed in SEEDS[block::6]:
        try:
            Schedule(seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
