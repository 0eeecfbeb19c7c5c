"""Random schedules of one classic group on a virtual clock: members join, work, stall, retry, crash and return.

Invariants after every step: no request gets two responses (the bench asserts that), each generation has one assignment,
counters are consistent, every member has a timer or a parked request, and loading the log restores the state.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from tests.coordinator.bench import Bench, Call, Settings

STEPS = 150
PROTOCOLS = ({"range": b"1"}, {"range": b"2", "sticky": b"2"}, {"sticky": b"3", "range": b"3"})


class Client:
    """The state of one client."""

    def __init__(self, number: int) -> None:
        self.instance = f"i{number}" if number % 3 == 0 else None
        self.member_id = ""
        self.generation = -1
        self.joining: Call | None = None
        self.syncing: Call | None = None
        self.joined: Any = None
        self.assignment: bytes | None = None


class Schedule:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        delay = self.chance.choice((0, 0, 3_000))
        limit = self.chance.choice((3, 100, 100))
        settings = Settings(group_initial_rebalance_delay_ms=delay, group_max_size=limit)
        self.bench = Bench(settings, seed=seed)
        self.clients = [Client(number) for number in range(6)]
        self.assigned: dict[tuple[int, str], bytes] = {}
        self.calls: list[Call] = []

    def run(self) -> None:
        for _ in range(STEPS):
            self.step(self.chance.choice(self.clients))
            for client in self.clients:
                self.hear(client)
            self.check()
        self.check_log()
        self.finish()

    # -- requests ------------------------------------------------------------------------------------------------------

    def step(self, client: Client) -> None:
        luck = self.chance.random()
        if luck < 0.35:
            self.join(client)
        elif luck < 0.6:
            self.sync(client)
        elif luck < 0.75 and client.member_id:
            error = self.bench.heartbeat(client.member_id, client.generation, client.instance)
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.member_id = ""
        elif luck < 0.8 and client.member_id:
            self.bench.leave((client.member_id, client.instance))
            self.restart(client)
        elif luck < 0.85:
            self.restart(client)  # without leaving: it crashed
        elif luck < 0.88 and client.member_id and self.bench.refuse is None:
            self.bench.commit({("t", 0): self.chance.randrange(9)}, client.member_id, client.generation)
        elif luck < 0.93:
            self.bench.refuse = None if self.bench.refuse else ErrorCode.NOT_ENOUGH_REPLICAS
        else:
            self.bench.advance(self.chance.choice((10, 1_000, 5_000, 20_000)))

    def restart(self, client: Client) -> None:
        number = self.clients.index(client)
        self.clients[number] = Client(number)

    def join(self, client: Client) -> None:
        if client.joining is not None and self.chance.random() < 0.8:
            return
        client.joining = self.bench.join(
            client.member_id,
            instance=client.instance,
            protocols=self.chance.choice(PROTOCOLS),
            version=9 if client.instance else self.chance.choice((3, 9)),
            session_ms=self.chance.choice((6_000, 20_000)),
            rebalance_ms=self.chance.choice((7_000, 30_000)),
        )
        self.calls.append(client.joining)

    def sync(self, client: Client) -> None:
        if client.joined is None or client.syncing is not None:
            return
        assignments = {
            member.member_id: f"{client.joined.generation_id}/{member.member_id}".encode()
            for member in client.joined.members
        }
        client.syncing = self.bench.sync(client.joined, assignments, instance=client.instance)
        self.calls.append(client.syncing)

    def hear(self, client: Client) -> None:
        call = client.joining
        if call is not None and not call.parked:
            client.joining = None
            if call.error is ErrorCode.NONE:
                client.joined, client.member_id = call.response, call.response.member_id
                client.generation = call.response.generation_id
            elif call.error is ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = call.response.member_id
            elif call.error is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                client.member_id = ""
        call = client.syncing
        if call is not None and not call.parked:
            client.syncing = None
            if call.error is ErrorCode.NONE:
                key = (client.joined.generation_id, client.joined.member_id)
                seen = self.assigned.setdefault(key, call.response.assignment)
                assert seen == call.response.assignment, "two assignments in one generation"
            client.joined = None

    # -- invariants ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        bench = self.bench
        group = bench.shard.groups.find(bench.group)
        if group is None:
            return
        group = bench.classic
        assert set(group.joining) <= set(group.members) and set(group.syncing) <= set(group.members)
        assert group.leader is None or group.leader in group.members
        assert bool(group.leader) == bool(group.members)
        assert {m.instance_id: m.member_id for m in group.members.values() if m.instance_id} == group.static_ids
        assert not set(group.pending) & set(group.members)
        for name, count in group.support.items():
            assert count == sum(name in member.protocols for member in group.members.values()) > 0
        timers = bench.shard.timers
        for member_id in (*group.members, *group.pending):
            waits = member_id in group.joining or member_id in group.syncing
            assert waits or ("session", bench.group, member_id) in timers, "this member would never expire"
        if group.state_name == "PreparingRebalance":
            assert ("join", bench.group) in timers
            assert not group.syncing
        if group.state_name in ("CompletingRebalance", "Stable"):
            assert not group.unsynced or ("sync", bench.group) in timers
            assert not group.joining
            assert all(group.protocol_name in member.protocols for member in group.members.values())
        if group.state_name == "Stable":
            assert not group.syncing and group.members
        if group.state_name == "Empty":
            assert not group.members

    def check_log(self) -> None:
        """Loading the log restores the last state that was Stable or Empty."""
        bench = self.bench
        bench.refuse = None
        if bench.state in ("Stable", "Empty") and not bench.refuse:
            before = bench.picture()
            after = Bench(bench.settings)
            after.log = list(bench.log)
            after.reload()
            if bench.state == "Stable":
                assert after.picture()[0] == before[0]
            assert after.picture()[1] == before[1]

    def finish(self) -> None:
        """After all clients have stopped, the group is empty and no request is parked."""
        self.bench.advance(10 * 60_000)
        assert self.bench.state in ("Empty", "Dead")
        assert all(not call.parked for call in self.calls), "a request is stuck"
        assert len(self.bench.shard.timers) == 0


@pytest.mark.parametrize("block", range(10))
def test_invariants_hold_in_every_schedule(block: int) -> None:
    for seed in range(block * 12, block * 12 + 12):
        Schedule(seed).run()


def test_a_group_without_failures_becomes_stable() -> None:
    for seed in range(20):
        schedule = Schedule(seed)
        schedule.bench.settings.group_max_size = 100
        schedule.run()
        chance, bench = random.Random(seed), schedule.bench
        bench.refuse = None
        bench.advance(10 * 60_000)
        clients = schedule.clients = [Client(number) for number in range(6)]
        for _ in range(600):
            client = chance.choice(clients)
            if client.joining is None and client.joined is None and client.syncing is None:
                if client.assignment is None or client.generation != bench.classic.generation:
                    client.joining = bench.join(client.member_id, instance=client.instance, session_ms=60_000)
                    client.assignment = None
                elif bench.heartbeat(client.member_id, client.generation, client.instance):
                    client.assignment = None
            schedule.sync(client)
            for other in clients:
                had = other.syncing
                schedule.hear(other)
                if had is not None and not had.parked and had.error is ErrorCode.NONE:
                    other.assignment = had.response.assignment
            bench.advance(50)
            schedule.check()
        assert bench.state == "Stable" and len(bench.classic.members) == 6
