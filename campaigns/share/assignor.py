"""Random share groups through Kafka's `SimpleAssignor` and kwire's `assign_simple`: no difference is allowed.

    .venv/bin/python -m campaigns.share.assignor --cases 100000 --seed 1

A case is a group of up to 20 members and up to four topics, all of which or some of which a member subscribes to; not
every partition can be assigned. It is new, and then the numbers are compared: how many partitions each member has, and
how many members each partition has (Kafka takes partitions in the order of its hash maps). Or it is settled: its
members have what they would get, and none of both may change that. A line of JSON is printed, then the first
differences. The exit status is 1 if there is any.

Groups that have changed are left out: Kafka's class keeps partitions of topics that a member no longer subscribes to
and such as cannot be assigned any more, leaves some partitions with fewer members than others, and fails for some
groups (NoSuchElementException).
"""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Final

from campaigns.java.oracle import OracleCampaign
from harness.paths import ROOT
from kwire.coordinator.groups.share.assignor import ShareMemberSpec, assign_simple

SOURCE: Final = ROOT / "campaigns" / "java" / "ShareAssignorOracle.java"

Group = dict[str, ShareMemberSpec]
Partitions = dict[bytes, list[int]]


def _id(topic: int) -> bytes:
    """The topic id that the oracle makes of a number."""
    return (1).to_bytes(8, "big") + topic.to_bytes(8, "big")


def _number(topic_id: bytes) -> str:
    return str(int.from_bytes(topic_id[8:], "big"))


class Case:
    """A group and what can be assigned to it."""

    def __init__(self, chance: random.Random) -> None:
        topics = [_id(number) for number in range(chance.choice((1, 1, 2, 3, 4)))]
        self.assignable = _assignable(chance, topics)
        self.members = _members(chance, topics)
        self.is_settled = chance.random() < 0.5
        if self.is_settled:
            had = assign_simple(self.members, self.assignable)
            self.members = {one: spec._replace(assigned=had[one]) for one, spec in self.members.items()}

    def question(self) -> str:
        """The line that asks Java."""
        members = [
            [
                one,
                sorted(map(_number, spec.topics)),
                {_number(each): sorted(had) for each, had in spec.assigned.items()},
            ]
            for one, spec in self.members.items()
        ]
        assignable = {_number(each): indexes for each, indexes in self.assignable.items()}
        return json.dumps([members, assignable, self.is_settled])

    def answer(self) -> str:
        """kwire's answer, in the oracle's form."""
        assigned = assign_simple(self.members, self.assignable)
        named = {
            one: {_number(each): sorted(assigned[one][each]) for each in sorted(assigned[one])}
            for one in sorted(assigned)
            if assigned[one]
        }
        return json.dumps(named if self.is_settled else _numbers(named), separators=(",", ":"))


def _numbers(assigned: dict[str, dict[str, list[int]]]) -> list[dict[str, int]]:
    """The number of partitions of each member, and of members of each partition."""
    holders = Counter(
        f"{topic}-{index}" for had in assigned.values() for topic, indexes in had.items() for index in indexes
    )
    held = {one: sum(map(len, had.values())) for one, had in assigned.items()}
    return [held, {one: holders[one] for one in sorted(holders)}]


def _assignable(chance: random.Random, topics: list[bytes]) -> Partitions:
    found: Partitions = {}
    for topic in topics:
        count, all_known = chance.choice((1, 2, 3, 4, 6, 9, 12)), chance.random() < 0.7
        known = [index for index in range(count) if all_known or chance.random() < 0.7]
        if known:
            found[topic] = known
    return found


def _members(chance: random.Random, topics: list[bytes]) -> Group:
    """Members, which all subscribe to the same topics or each to some of them."""
    ids = [f"m{chance.getrandbits(32):x}" for _ in range(chance.randrange(1, 21))]
    if chance.random() < 0.6:
        return {one: ShareMemberSpec(frozenset(topics), {}) for one in ids}
    return {one: ShareMemberSpec(frozenset(chance.sample(topics, chance.randint(0, len(topics)))), {}) for one in ids}


def _counts(answer: str) -> dict[str, int]:
    found = json.loads(answer)
    if isinstance(found, dict):
        return {"settled": 1, "assigned": sum(len(indexes) for each in found.values() for indexes in each.values())}
    return {"new": 1, "assigned": sum(found[0].values())}


CAMPAIGN: Final = OracleCampaign("share.assignor", __doc__, SOURCE, Case, _counts, "groups")
run, run_seeds = CAMPAIGN.run, CAMPAIGN.run_seeds

if __name__ == "__main__":
    raise SystemExit(CAMPAIGN.main())
