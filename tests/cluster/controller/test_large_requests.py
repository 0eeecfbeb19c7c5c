"""Requests about very many topics and partitions are decided in parts, so that no commit takes long to apply."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.quota import MutationQuota
from kwire.cluster.controller import controller, decisions
from kwire.cluster.controller.controller import ConfigUpdate, CreatedTopic, NewPartitions
from kwire.cluster.controller.decisions import PART_WORK, in_parts
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.metadata.image import ClusterImage, ConfigResource, Delta
from tests.cluster.helpers import Node, node


def by_itself(number: int) -> int:
    return number


@pytest.mark.parametrize(
    ("work", "parts"),
    [
        ([], [[]]),
        ([1, 2, 3], [[1, 2, 3]]),
        ([PART_WORK, 1], [[PART_WORK], [1]]),
        ([1, 9 * PART_WORK, 1], [[1], [9 * PART_WORK], [1]]),
        ([200, 200, 200, 200], [[200, 200], [200, 200]]),
    ],
)
def test_a_part_is_as_much_as_one_turn_may_take(work: list[int], parts: list[list[int]]) -> None:
    assert in_parts(work, by_itself) == parts


def changes(made: Node, size: Callable[[Delta], int]) -> list[int]:
    """How much each new image changes."""
    found: list[int] = []

    def note(_image: ClusterImage, delta: Delta) -> None:
        if size(delta):
            found.append(size(delta))

    made.metadata.add_listener(note)
    found.clear()
    return found


async def test_many_topics_are_created_in_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "PART_WORK", 6)
    monkeypatch.setattr(controller, "TOPIC_WORK", 1)
    made = await node()
    found = changes(made, lambda delta: len(delta.changed))
    topics = [NewTopic(f"t{number}", 2) for number in range(7)]
    outcomes = await made.controller.create_topics([*topics, NewTopic("t0.a"), NewTopic("t0_a")])
    assert all(isinstance(each, CreatedTopic) for each in outcomes.values())  # two of one request are not compared
    assert len(outcomes) == 9 and found == [3, 3, 3]
    grown = await made.controller.create_partitions([NewPartitions(each.name, 3) for each in topics])
    assert set(grown.values()) == {None}
    assert found[3:] == [2, 2, 2, 1]
    gone = changes(made, lambda delta: len(delta.deleted))
    deleted = await made.controller.delete_topics([made.image.topics[each.name].id for each in topics] + [bytes(16)])
    assert list(deleted.values())[:7] == [None] * 7 and deleted[bytes(16)] is not None
    assert gone == [2, 2, 2, 1]


async def test_a_topic_is_work_even_if_it_has_one_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "PART_WORK", 3 * controller.TOPIC_WORK)
    made = await node()
    found = changes(made, lambda delta: len(delta.changed) + len(delta.deleted))
    created = await made.controller.create_topics([NewTopic(f"t{number}", 1) for number in range(7)])
    await made.controller.delete_topics([each.id for each in created.values() if isinstance(each, CreatedTopic)])
    assert found == [3, 3, 1, 3, 3, 1]


async def test_properties_of_many_topics_are_changed_in_several_commits() -> None:
    made = await node()
    await made.controller.create_topics([NewTopic(f"t{number}", 1) for number in range(120)])
    found = changes(made, lambda delta: len(delta.configs))
    updates = [
        ConfigUpdate(ConfigResource.TOPIC, f"t{number}", lambda _: {"retention.ms": "1"}) for number in range(120)
    ]
    assert set((await made.controller.alter_configs(updates)).values()) == {None}
    assert found == [50, 50, 20]


class Purse(MutationQuota):
    """Counts what is spent."""

    def __init__(self) -> None:
        self.kept = self.spent = 0

    def spend(self, permits: int) -> None:
        self.spent += permits

    def restart(self) -> None:
        self.spent = self.kept

    def keep(self) -> None:
        self.kept = self.spent


async def test_every_part_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "PART_WORK", 6)
    monkeypatch.setattr(controller, "TOPIC_WORK", 1)
    made, purse = await node(), Purse()
    await made.controller.create_topics([NewTopic(f"t{number}", 4) for number in range(5)], quota=purse)
    assert purse.spent == purse.kept == 20


async def test_a_new_topic_collides_with_an_old_one_of_the_same_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "PART_WORK", 1)  # a commit for each topic
    made = await node()
    await made.controller.create_topics([NewTopic("a.b")])
    outcomes = await made.controller.create_topics([NewTopic("a.b"), NewTopic("a_b"), NewTopic("c.d"), NewTopic("c_d")])
    refused = {name: each.code for name, each in outcomes.items() if isinstance(each, KafkaError)}
    assert refused == {"a.b": ErrorCode.TOPIC_ALREADY_EXISTS, "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION}


async def test_small_topics_are_extended_in_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "PART_WORK", 2 * controller.TOPIC_WORK)
    made = await node()
    names = [f"t{number}" for number in range(5)]
    await made.controller.create_topics([NewTopic(name) for name in names])
    grown: list[int] = []
    made.metadata.add_listener(lambda _, delta: grown.append(len(delta.changed)))
    outcomes = await made.controller.create_partitions([NewPartitions(name, 2) for name in names])
    assert outcomes == dict.fromkeys(names)
    assert grown[1:] == [2, 2, 1]  # the listener is told of the present topics first
