"""The server-side assignors against Kafka's own classes: random groups that change over many rounds."""

from __future__ import annotations

import random
from pathlib import Path

from compat_tests.java_programs import answers
from kwire.base.uuids import uuid_to_text
from kwire.coordinator.assignors import ASSIGNORS, GroupAssignment, GroupSpec, MemberSpec

SOURCE = Path(__file__).with_name("AssignorOracle.java")
GROUPS = 400
ROUNDS = 6


class Group:
    """A group with random changes of members and topics."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.assignor = self.chance.choice(("uniform", "uniform", "range"))
        self.same = self.chance.random() < 0.5
        self.topics: dict[bytes, int] = {}
        self.members: dict[str, tuple[frozenset[bytes], str | None]] = {}
        self.assigned: GroupAssignment = {}
        for _ in range(self.chance.randrange(1, 30 if seed % 7 == 0 else 6)):
            self.new_topic()
        self.wanted = frozenset(self.topics)
        for _ in range(self.chance.randrange(1, 9)):
            self.new_member()

    def new_topic(self) -> None:
        topic_id = self.chance.randbytes(16)
        if not uuid_to_text(topic_id).startswith("-"):
            self.topics[topic_id] = self.chance.randrange(1, 20)

    def new_member(self) -> None:
        topics = self.wanted
        if not self.same:
            count = self.chance.randrange(1, len(self.topics) + 1)
            topics = frozenset(self.chance.sample(list(self.topics), count))
        instance = f"i{self.chance.randrange(10**6)}" if self.chance.random() < 0.3 else None
        self.members[f"m{self.chance.randrange(10**9)}"] = topics, instance

    def change(self) -> None:
        luck = self.chance.random()
        if luck < 0.35:
            self.new_member()
        elif luck < 0.6 and len(self.members) > 1:
            self.members.pop(self.chance.choice(list(self.members)))
        elif luck < 0.8:
            topic_id = self.chance.choice(list(self.topics))
            self.topics[topic_id] += self.chance.randrange(1, 5)
        elif self.same:
            self.new_topic()
            self.wanted = frozenset(
                self.chance.sample(list(self.topics), self.chance.randrange(1, len(self.topics) + 1))
            )
            self.members = {name: (self.wanted, instance) for name, (_, instance) in self.members.items()}
        else:
            name = self.chance.choice(list(self.members))
            instance = self.members[name][1]
            self.new_member()
            topics, _ = self.members.popitem()[1]
            self.members[name] = topics, instance

    def spec(self) -> GroupSpec:
        members = {
            name: MemberSpec(topics, self.assigned.get(name, {}), instance)
            for name, (topics, instance) in self.members.items()
        }
        kinds = {topics for topics, _ in self.members.values()}
        return GroupSpec(members, self.topics, len(kinds) == 1)


def line_of(assignor: str, spec: GroupSpec) -> str:
    topics = ",".join(f"{uuid_to_text(topic_id)}={count}" for topic_id, count in spec.partition_counts.items())
    words = [assignor, "HOMOGENEOUS" if spec.homogeneous else "HETEROGENEOUS", topics]
    for name, member in spec.members.items():
        wanted = ",".join(uuid_to_text(topic_id) for topic_id in sorted(member.topics))
        owned = ",".join(
            f"{uuid_to_text(topic_id)}={'.'.join(map(str, sorted(partitions)))}"
            for topic_id, partitions in member.assigned.items()
            if partitions
        )
        words.append(f"{name}|{member.instance_id or '-'}|{wanted}|{owned}")
    return " ".join(words)


def text_of(assignment: GroupAssignment) -> str:
    words = []
    for name, topics in sorted(assignment.items()):
        parts = {uuid_to_text(topic_id): ".".join(map(str, owned)) for topic_id, owned in topics.items() if owned}
        if parts:
            words.append(f"{name}|" + ",".join(f"{topic}={owned}" for topic, owned in sorted(parts.items())))
    return " ".join(words)


def test_assignments_equal_kafkas() -> None:
    questions: list[str] = []
    expected: list[str] = []
    for seed in range(GROUPS):
        group = Group(seed)
        for _ in range(ROUNDS):
            spec = group.spec()
            group.assigned = ASSIGNORS[group.assignor](spec)
            questions.append(line_of(group.assignor, spec))
            expected.append(text_of(group.assigned))
            for _ in range(group.chance.randrange(1, 4)):
                group.change()
    found = answers(SOURCE, questions)
    assert len(found) == len(questions)
    for question, ours, kafkas in zip(questions, expected, found, strict=True):
        assert ours == kafkas, question


def test_all_partitions_have_one_owner_who_wants_them() -> None:
    for seed in range(GROUPS):
        group = Group(seed)
        for _ in range(ROUNDS):
            spec = group.spec()
            group.assigned = ASSIGNORS[group.assignor](spec)
            owners = [
                (topic_id, partition)
                for name, topics in group.assigned.items()
                for topic_id, owned in topics.items()
                for partition in owned
                if topic_id in group.members[name][0]
            ]
            wanted = {topic_id for topics, _ in group.members.values() for topic_id in topics}
            everything = {(topic_id, index) for topic_id in wanted for index in range(group.topics[topic_id])}
            assert len(owners) == len(set(owners))
            assert set(owners) == everything
            group.change()
