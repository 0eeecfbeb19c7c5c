"""The start offsets of share groups: set, deleted, and what is noted meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from tests.coordinator.groups.share.test_share_groups import ShareBench


@pytest.fixture
def bench() -> ShareBench:
    return ShareBench()


def topic_id(bench: ShareBench, name: str = "t") -> bytes:
    found = bench.topics().id(name)
    assert found is not None
    return found


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


def alter(bench: ShareBench, **offsets: list[tuple[int, int]]) -> Any:
    return bench.run(bench.shard.shares.alter_offsets(bench.group, offsets)).response


def forget(bench: ShareBench, *names: str) -> Any:
    return bench.run(bench.shard.shares.forget_offsets(bench.group, names)).response


def leave(bench: ShareBench, *members: str) -> None:
    for member in members:
        bench.share(member, -1)


def test_offsets_are_sent_with_the_epoch_of_the_group(bench: ShareBench) -> None:
    bench.arrive("a")
    leave(bench, "a")
    request = alter(bench, t=[(1, 5), (0, 7)])
    (topic,) = request.topics
    assert topic.topic_id == topic_id(bench)
    assert [(each.partition, each.start_offset) for each in topic.partitions] == [(0, 7), (1, 5)]
    assert {each.state_epoch for each in topic.partitions} == {bench.shares.epoch}


def test_a_group_that_does_not_exist_begins_with_its_offsets(bench: ShareBench) -> None:
    request = alter(bench, t=[(0, 7)])
    known = {request.topics[0].topic_id: {0}}
    bench.run(bench.shard.shares.initialized(bench.group, known, {}))
    found = bench.shard.shares.offsets.initialized(bench.group)
    assert {one.name: sorted(one.partitions) for one in found.values()} == {"t": [0]}
    assert bench.shares.is_empty


def test_nothing_to_set_makes_no_group(bench: ShareBench) -> None:
    assert alter(bench, t=[]).topics == []
    assert bench.shard.groups.find(bench.group) is None
    assert bench.shard.shares.offsets.initialized(bench.group) == {}


def test_offsets_of_a_group_with_members_are_left_alone(bench: ShareBench) -> None:
    bench.arrive("a")
    with refused(ErrorCode.NON_EMPTY_GROUP):
        alter(bench, t=[(0, 1)])
    with refused(ErrorCode.NON_EMPTY_GROUP):
        forget(bench, "t")


def test_a_topic_is_forgotten_in_two_steps(bench: ShareBench) -> None:
    bench.arrive("a")
    leave(bench, "a")
    forgetting = forget(bench, "t", "unknown")
    (topic,) = forgetting.request.topics
    assert [each.partition for each in topic.partitions] == [0, 1, 2, 3]
    assert [(name, error.code) for name, error in forgetting.failed] == [
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ]
    assert bench.shard.shares.offsets.initialized(bench.group) == {}
    assert list(bench.shares.states.deleting) == [topic_id(bench)]
    bench.run(bench.shard.shares.offsets_forgotten(bench.group, [topic_id(bench)]))
    assert not bench.shares.states.deleting


def test_a_deletion_that_failed_is_repeated_for_all_partitions(bench: ShareBench) -> None:
    bench.arrive("a")
    leave(bench, "a")
    forget(bench, "t")
    (topic,) = forget(bench, "t").request.topics
    assert [each.partition for each in topic.partitions] == [0, 1, 2, 3]


def test_a_topic_without_offsets_cannot_be_forgotten(bench: ShareBench) -> None:
    bench.arrive("a")
    leave(bench, "a")
    forget(bench, "t")
    bench.run(bench.shard.shares.offsets_forgotten(bench.group, [topic_id(bench)]))
    forgetting = forget(bench, "t")
    assert forgetting.request is None
    assert [error.code for _, error in forgetting.failed] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_group_that_does_not_exist_has_nothing_to_forget(bench: ShareBench) -> None:
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        forget(bench, "t")
