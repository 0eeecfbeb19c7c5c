"""Random conversations with streams groups: threads of several processes, driven by a seed, join, move tasks and leave.

A campaign runs many seeds (`KWIRE_GROUP_SEEDS=FIRST:END`)."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from compat_tests.comparisons.streams_groups.script import StreamsScript, subtopology, tasks_of, topic_info, topology
from compat_tests.names import Names

SEEDS = range(*map(int, os.environ.get("KWIRE_GROUP_SEEDS", "0:3").split(":")))
STEPS = 60


class Member:
    """A thread as it knows itself."""

    def __init__(self, name: str, process: str) -> None:
        self.name = name
        self.process = process
        self.epoch = 0
        self.last_epoch = 0
        self.active: dict[str, list[int]] = {}
        self.standby: dict[str, list[int]] = {}

    def learn(self, response: Any) -> None:
        """Take over what a response says."""
        if response.error_code:
            self.forget()
            return
        self.last_epoch, self.epoch = self.epoch, response.member_epoch
        if response.active_tasks is not None:
            self.active, self.standby = tasks_of(response)

    def forget(self) -> None:
        """Begin anew."""
        self.epoch, self.active, self.standby = 0, {}, {}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_conversations(script: StreamsScript, new_name: Names, seed: int) -> None:
    chance = random.Random(seed)
    topic, group = new_name(), new_name("g")
    script.ready(group)
    changelog = f"{topic}-changelog"
    for name, partitions in ((topic, 5), (f"{topic}-other", 3), (changelog, 5)):
        super(StreamsScript, script).topic(name, partitions)
    script.settle()
    shape = topology(
        subtopology("0", [topic], changelogs=[topic_info(changelog)]), subtopology("1", [f"{topic}-other"])
    )
    script.configure(group, {"streams.num.standby.replicas": str(seed % 3)})
    script.settle()
    members = [Member(name, f"p{number % 3}") for number, name in enumerate("abcde")]
    for number in range(STEPS):
        member = chance.choice(members)
        what = f"{number} {member.name}"
        if not member.epoch:
            endpoint = (member.process, 1) if chance.random() < 0.3 else None
            response = script.enter(what, group, member.name, shape, process_id=member.process, endpoint=endpoint)
            member.learn(response)
        else:
            _go_on(script, chance, what, group, member)
        if number % 10 == 9:
            script.look(group)
    script.written(group)


def _go_on(script: StreamsScript, chance: random.Random, what: str, group: str, member: Member) -> None:
    action = chance.random()
    if action < 0.7:
        known = chance.randrange(4)
        member.learn(
            script.beat(
                what,
                group,
                member.name,
                member.epoch,
                active=member.active,
                standby=member.standby,
                endpoint_information_epoch=known,
            )
        )
    elif action < 0.8:
        member.learn(script.beat(f"{what} without tasks", group, member.name, member.epoch))
    elif action < 0.9:
        wrong = member.epoch + chance.choice([-1, 1, 5])
        script.beat(f"{what} in a wrong epoch", group, member.name, wrong, active=member.active, standby={})
        script.leave_out_tasks()
    elif action < 0.95:
        member.forget()
    else:
        script.beat(f"{what} leaves", group, member.name, -1)
        member.forget()
