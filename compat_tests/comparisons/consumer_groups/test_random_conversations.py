"""Random conversations with consumer groups: members, driven by a seed, send valid and invalid requests.

A campaign runs many seeds (`KWIRE_GROUP_SEEDS=FIRST:END`)."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from compat_tests.comparisons.consumer_groups.script import LONG_MS, ConsumerScript, Owned, owned_of
from compat_tests.comparisons.groups.script import commit
from compat_tests.names import Names
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup

SEEDS = range(*map(int, os.environ.get("KWIRE_GROUP_SEEDS", "0:3").split(":")))
STEPS = 60


class Actor:
    """A member's state on the client's side."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.lives = 0
        self.instance = instance
        self.epoch = 0
        self.owned: Owned = {}

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.lives}"


class Conversation:
    """Actors that send random heartbeats of one group."""

    def __init__(self, script: ConsumerScript, group: str, topics: list[str], seed: int) -> None:
        self.script = script
        self.group = group
        self.topics = topics
        self.chance = random.Random(seed)
        self.assignor = self.chance.choice(("range", "uniform", None)) if len(topics) < 2 else "range"
        self.actors = [Actor(f"m{n}", f"i{n}" if n >= 3 else None) for n in range(5)]

    def run(self) -> None:
        for _ in range(STEPS):
            actor = self.chance.choice(self.actors)
            luck = self.chance.random()
            if actor.epoch <= 0 or luck < 0.05:
                self.join(actor)
            elif luck < 0.6:
                self.beat(actor)
            elif luck < 0.7:
                self.misbehave(actor)
            elif luck < 0.8:
                self.subscribe(actor)
            elif luck < 0.9:
                self.leave(actor)
            elif luck < 0.97:
                self.offsets(actor)
            else:
                self.script.call("deletes", DeleteGroupsRequest(groups_names=[self.group]), 2)
            self.script.look(self.group)

    def hear(self, actor: Actor, response: Any) -> None:
        if response.error_code:
            if response.error_code in (25, 110, 82):  # UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH: join again
                actor.epoch, actor.owned = 0, {}
            return
        actor.epoch = response.member_epoch
        given = owned_of(response)
        if given is not None:
            actor.owned = given

    def some_topics(self) -> list[str]:
        names = [*self.topics, "not-there"]
        return self.chance.sample(names, self.chance.randrange(1, len(names) + 1))

    def join(self, actor: Actor) -> None:
        if self.chance.random() < 0.5:
            actor.lives += 1
        fields: dict[str, Any] = {"instance_id": actor.instance, "subscribed_topic_names": self.some_topics()}
        if self.assignor is not None:
            fields["server_assignor"] = self.assignor
        if self.chance.random() < 0.2:
            fields["rack_id"] = "r1"
        response = self.script.enter(f"{actor.name} joins", self.group, actor.member_id, **fields)
        actor.owned = {}
        self.hear(actor, response)

    def beat(self, actor: Actor) -> None:
        fields: dict[str, Any] = {"instance_id": actor.instance}
        if self.chance.random() < 0.6:
            fields["owned"] = actor.owned
        if self.chance.random() < 0.1:
            fields |= {"rebalance_timeout_ms": LONG_MS, "subscribed_topic_names": self.some_topics()}
        self.hear(actor, self.script.beat(f"{actor.name} beats", self.group, actor.member_id, actor.epoch, **fields))

    def misbehave(self, actor: Actor) -> None:
        epoch = actor.epoch + self.chance.choice((-2, -1, 1))
        owned = self.chance.choice((None, {}, actor.owned, {bytes(15) + b"x": [1]}))
        instance = self.chance.choice((actor.instance, "i3", "i9", None))
        what = f"{actor.name} misbehaves"
        fields: dict[str, Any] = {"owned": owned, "instance_id": instance}
        if epoch == 0:
            fields |= {"subscribed_topic_names": [self.topics[0]]}
        response = self.script.beat(what, self.group, actor.member_id, epoch, **fields)
        if not response.error_code:
            self.hear(actor, response)

    def subscribe(self, actor: Actor) -> None:
        fields: dict[str, Any] = {"subscribed_topic_names": self.some_topics(), "instance_id": actor.instance}
        response = self.script.beat(
            f"{actor.name} subscribes", self.group, actor.member_id, actor.epoch, owned=actor.owned, **fields
        )
        self.hear(actor, response)

    def leave(self, actor: Actor) -> None:
        epoch = self.chance.choice((-1, -2)) if actor.instance else -1
        response = self.script.beat(
            f"{actor.name} leaves", self.group, actor.member_id, epoch, instance_id=actor.instance
        )
        if not response.error_code:
            actor.epoch, actor.owned = 0, {}

    def offsets(self, actor: Actor) -> None:
        epoch = actor.epoch + self.chance.choice((0, 0, -1, -1, -2, 1))
        if self.chance.random() < 0.3:
            requested = OffsetFetchRequestGroup(
                group_id=self.group, member_id=actor.member_id, member_epoch=epoch, topics=None
            )
            self.script.call("reads", OffsetFetchRequest(groups=[requested]), 9)
            return
        where = {(self.topics[0], self.chance.randrange(3)): self.chance.randrange(100)}
        request = commit(
            self.group,
            where,
            member_id=actor.member_id,
            generation_id_or_member_epoch=epoch,
            group_instance_id=actor.instance,
        )
        self.script.call("commits", request, self.chance.choice((8, 9, 9)))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_conversations(script: ConsumerScript, new_name: Names, seed: int) -> None:
    group = new_name(f"g{seed}")
    script.ready(group)
    topics = [new_name(f"t{seed}a")]
    script.topic(topics[0], 5)
    if seed % 2:  # the uniform assignor orders by topic ids, which differ
        topics.append(new_name(f"t{seed}b"))
        script.topic(topics[1], 3)
    Conversation(script, group, topics, seed).run()
    script.call("nobody asks", ConsumerGroupDescribeRequest(group_ids=["", new_name("nothing")]), 0)
