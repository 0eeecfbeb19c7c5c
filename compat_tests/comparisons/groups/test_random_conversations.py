"""Random conversations with classic groups: members, driven by a seed, send valid and invalid requests to both brokers.

Session timeouts are long, so that only requests change the groups. After each request the script collects responses
until no more arrive. The test's id has the seed; a campaign runs many (`KWIRE_GROUP_SEEDS=FIRST:END`).
"""

from __future__ import annotations

import os
import random
import select
import time
from collections.abc import Iterable
from typing import Any

import pytest

from compat_tests.comparisons.groups.script import Script, commit, fetch, heartbeat, join, leave
from compat_tests.names import Names
from harness.processes.brokers import wait_until
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.join_group_request import JoinGroupRequest
from kwire.codec.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

SEEDS = range(*map(int, os.environ.get("KWIRE_GROUP_SEEDS", "0:2").split(":")))
STEPS = 50
QUIET_S = 0.25
MAY_BE_PARKED = ("joins", "syncs")
PROTOCOLS = ({"range": b"1"}, {"range": b"2", "sticky": b"2"}, {"sticky": b"3", "range": b"3"}, {"range": b"1"})


class Actor:
    """A member's state on the client's side; it may have several requests in flight, each on its own connection."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.leads: list[str] = []
        self.protocols = 0
        self.sent: tuple[str, int, int, int] | None = None


class Conversation:
    """Actors that send random requests of one group."""

    def __init__(self, script: Script, group: str, seed: int) -> None:
        self.script = script
        self.group = group
        self.chance = random.Random(seed)
        self.leader = ""
        self.actors = [Actor(f"actor{n}", None if n < 3 else f"i{n % 2}") for n in range(6)]

    def run(self) -> None:
        for _ in range(STEPS):
            what = ""
            free = [actor for actor in self.actors if actor.sent is None]
            speaker = self.chance.choice(free) if free else None
            if speaker is None:
                self.remove_somebody()
            else:
                what, request, version = self.next_request(speaker)
                self.script.see(f"{speaker.name} {what}", version)
                before = self.script.state(self.group)
                speaker.sent = self.script.send(request, version, speaker.name)
                self.come_to_rest(before)
            self.listen(what, speaker)
            if self.chance.random() < 0.2:
                self.script.describe("the group", self.group)

    def come_to_rest(self, before: str) -> None:
        """Wait until the coordinator has processed the request; it processes a group's requests one by one. The first
        rebalance of an empty group ends with a timer, which has no delay but takes a while."""
        probe = heartbeat(self.group, "nobody", 1)
        for _ in range(2):
            time.sleep(0.02)
            self.script.client("watch").call(probe, 4)
        if before in ("Empty", "Dead"):
            wait_until(lambda: self.script.state(self.group) != "PreparingRebalance", 20, "the first rebalance")

    def remove_somebody(self) -> None:
        victim = self.chance.choice(self.actors)
        if not self.may_go(victim.member_id):
            return
        member = ("", victim.instance) if victim.instance and self.chance.random() < 0.5 else (victim.member_id, None)
        self.script.call(f"{victim.name} is removed", leave(self.group, member), 5, "admin")

    def next_request(self, actor: Actor) -> tuple[str, Any, int]:
        chance = self.chance.random()
        if chance < 0.4 or not actor.member_id:
            return "joins", self.join(actor), self.chance.choice((3, 5, 8, 9) if actor.instance is None else (5, 8, 9))
        if chance < 0.7:
            given = {member_id: f"{actor.generation}".encode() for member_id in actor.leads}
            generation = actor.generation if self.chance.random() < 0.9 else actor.generation + 1
            request = SyncGroupRequest(
                group_id=self.group,
                generation_id=generation,
                member_id=actor.member_id,
                group_instance_id=actor.instance,
                assignments=[
                    SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                    for member_id, data in given.items()
                ],
            )
            return "syncs", request, 4
        if chance < 0.8:
            return "beats", heartbeat(self.group, actor.member_id, actor.generation, actor.instance), 4
        if chance < 0.88:
            commits = commit(
                self.group,
                {("tt", 0): self.chance.randrange(100)},
                member_id=actor.member_id,
                generation_id_or_member_epoch=actor.generation,
                group_instance_id=actor.instance,
            )
            return "commits", commits, self.chance.choice((8, 9))
        if chance < 0.92:
            return "reads", fetch(8, self.group, None), 8
        if chance < 0.94:
            return "deletes", DeleteGroupsRequest(groups_names=[self.group]), 2
        if not self.may_go(actor.member_id):
            return "beats", heartbeat(self.group, actor.member_id, actor.generation, actor.instance), 4
        return "leaves", leave(self.group, (actor.member_id, actor.instance)), 5

    def may_go(self, member_id: str) -> bool:
        """Whether the member may leave. With three or more, hashes of random ids would determine the next leader."""
        request = DescribeGroupsRequest(groups=[self.group])
        members = [found.member_id for found in self.script.client("watch").call(request, 5).groups[0].members]
        if member_id == self.leader and len(members) > 2:
            return False
        if member_id == self.leader:
            self.leader = next((other for other in members if other != member_id), "")
        return True

    def join(self, actor: Actor) -> JoinGroupRequest:
        if self.chance.random() < 0.2:
            actor.protocols = self.chance.randrange(len(PROTOCOLS))
        if actor.instance and self.chance.random() < 0.4:
            actor.member_id = ""
        return join(self.group, actor.member_id, instance=actor.instance, protocols=PROTOCOLS[actor.protocols])

    def listen(self, what: str, speaker: Actor | None) -> None:
        """Record all responses, in a stable order, until none arrives for a while and none has to."""
        came: dict[str, Any] = {}
        if speaker is not None and what not in MAY_BE_PARKED:
            select.select([self.script.client(speaker.name).socket], [], [], 20)
        while waiting := {self.script.client(a.name).socket: a for a in self.actors if a.sent is not None}:
            ready = select.select(list(waiting), [], [], QUIET_S)[0]
            if not ready and self.may_be_parked(waiting.values()):
                break
            for socket in ready:
                actor = waiting[socket]
                assert actor.sent is not None
                client, key, version, correlation_id = actor.sent
                actor.sent = None
                came[actor.name] = (key, self.script.client(client).receive(key, version, correlation_id))
        for actor in self.actors:
            if actor.name in came:
                self.hear(actor, *came[actor.name])

    def may_be_parked(self, actors: Iterable[Actor]) -> bool:
        """Whether the group's state lets all their requests wait: joins for other members, syncs for the leader's."""
        parked = {"PreparingRebalance": JoinGroupRequest.API_KEY, "CompletingRebalance": SyncGroupRequest.API_KEY}
        key = parked.get(self.script.state(self.group))
        return all(actor.sent is not None and actor.sent[1] == key for actor in actors)

    def hear(self, actor: Actor, key: int, response: Any) -> None:
        if key == JoinGroupRequest.API_KEY:
            if response.member_id:
                actor.member_id = response.member_id
            if response.error_code == 0:
                actor.generation = response.generation_id
                self.leader = response.leader
                actor.leads = [member.member_id for member in response.members]
            elif response.error_code in (25, 82):
                actor.member_id = ""
        self.script.see(f"{actor.name} hears", response)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_conversation(script: Script, new_name: Names, seed: int) -> None:
    group = new_name("group")
    script.ready(group)
    script.topic("tt")
    Conversation(script, group, seed).run()
    script.written(group)
