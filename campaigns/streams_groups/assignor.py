"""Random streams groups through Kafka's `StickyTaskAssignor` and kwire's `assign_sticky`: no difference is allowed.

    .venv/bin/python -m campaigns.streams_groups.assignor --cases 100000 --seed 1

A case is a group of up to 14 members in a few processes, a topology of up to four subtopologies, and up to three
standby replicas. The assignment before is either kwire's own for a group that had other members, other tasks or another
number of standby replicas, or a random one: tasks that nobody has, that several members have, that do not exist any
more. A line of JSON is printed, then the first differences. The exit status is 1 if there is any.
"""

from __future__ import annotations

import json
import random
from typing import Final

from campaigns.java.oracle import OracleCampaign
from harness.paths import ROOT
from kwire.base.errors import KafkaError
from kwire.coordinator.assignors.streams import sticky
from kwire.coordinator.assignors.streams.model import (
    MemberTasks,
    StreamsGroupSpec,
    StreamsMemberSpec,
    SubtopologySpec,
)

SOURCE: Final = ROOT / "campaigns" / "java" / "StreamsAssignorOracle.java"
SUBTOPOLOGIES: Final = ("0", "1", "2", "10", "ä", "\ufb01", "\U0001f600")
"""Ids, of which Java sorts the last two the other way round."""

Topology = dict[str, SubtopologySpec]
Processes = dict[str, str]
"""Member id -> process id."""


class Case:
    """A group with its topology."""

    def __init__(self, chance: random.Random) -> None:
        processes = [f"process-{chance.randrange(1000)}" for _ in range(chance.randrange(1, 7))]
        pool = [f"{chance.choice(('m', 'é', 'thread-'))}{chance.getrandbits(32):x}" for _ in range(16)]
        self.subtopologies = _topology(chance)
        now = _members(chance, pool, processes)
        replicas = chance.choice((0, 1, 1, 2, 3))
        before = (
            _random_tasks(chance, now, self.subtopologies)
            if chance.random() < 0.4
            else _former_tasks(chance, pool, processes, self.subtopologies, now)
        )
        nothing = MemberTasks({}, {})
        specs = {one: StreamsMemberSpec(process, *before.get(one, nothing)) for one, process in now.items()}
        self.group = StreamsGroupSpec(specs, replicas)

    def question(self) -> str:
        """The line that asks Java."""
        members = [[one, spec.process_id, spec.active, spec.standby] for one, spec in self.group.members.items()]
        return json.dumps([self.group.standby_replicas, members, [[one, *s] for one, s in self.subtopologies.items()]])

    def answer(self) -> str:
        """kwire's answer, in the oracle's form."""
        try:
            assignment = sticky.assign_sticky(self.group, self.subtopologies)
        except KafkaError:
            return "TaskAssignorException"
        ordered = {one: [_ordered(part) for part in assignment[one]] for one in sorted(assignment)}
        return json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))


def _topology(chance: random.Random) -> Topology:
    names = chance.sample(SUBTOPOLOGIES, chance.choice((1, 1, 2, 3, 4)))
    return {name: SubtopologySpec(chance.choice((1, 2, 3, 4, 6, 9)), chance.random() < 0.6) for name in names}


def _members(chance: random.Random, pool: list[str], processes: list[str]) -> Processes:
    """Members with their processes. A member stays in its process."""
    count = 0 if chance.random() < 0.01 else chance.randrange(1, 15)
    return {one: processes[pool.index(one) % len(processes)] for one in chance.sample(pool, count)}


def _random_tasks(chance: random.Random, members: Processes, topology: Topology) -> dict[str, MemberTasks]:
    density = chance.choice((0.1, 0.3, 0.6))
    return {one: MemberTasks(_some(chance, topology, density), _some(chance, topology, density / 2)) for one in members}


def _some(chance: random.Random, topology: Topology, density: float) -> dict[str, list[int]]:
    picked = {
        name: [partition for partition in range(spec.tasks + 1) if chance.random() < density]
        for name, spec in topology.items()
    }
    return {name: partitions for name, partitions in picked.items() if partitions}


def _former_tasks(
    chance: random.Random, pool: list[str], processes: list[str], topology: Topology, now: Processes
) -> dict[str, MemberTasks]:
    """What the members of a former group had: mostly the members of now."""
    former = dict(now)
    for one, process in _members(chance, pool, processes).items():
        if chance.random() < 0.3:
            former.pop(one, None)
            if chance.random() < 0.5:
                former[one] = process
    tasks = topology
    if chance.random() < 0.2:
        tasks = {one: spec._replace(tasks=spec.tasks + 1) for one, spec in topology.items()}
    specs = {one: StreamsMemberSpec(process, {}, {}) for one, process in former.items()}
    return sticky.assign_sticky(StreamsGroupSpec(specs, chance.choice((0, 1, 2))), tasks) if former else {}


def _ordered(tasks: dict[str, list[int]]) -> dict[str, list[int]]:
    return {one: tasks[one] for one in sorted(tasks, key=lambda name: name.encode("utf-16-be"))}


def _counts(answer: str) -> dict[str, int]:
    if not answer.startswith("{"):
        return {"refused": 1}
    parts = json.loads(answer).values()
    active, standby = (sum(len(tasks) for part in parts for tasks in part[role].values()) for role in (0, 1))
    return {"members": len(parts), "active": active, "standby": standby}


CAMPAIGN: Final = OracleCampaign("streams_groups.assignor", __doc__, SOURCE, Case, _counts, "groups")
run, run_seeds = CAMPAIGN.run, CAMPAIGN.run_seeds

if __name__ == "__main__":
    raise SystemExit(CAMPAIGN.main())
