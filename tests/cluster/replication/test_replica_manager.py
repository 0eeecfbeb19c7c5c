"""This broker's replicas follow the image."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Any, cast

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import STEP_S
from kwire.cluster.controller.adoption import adopt_logs
from kwire.cluster.controller.controller import ConfigUpdate, CreatedTopic, NewPartitions
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.metadata.image import ConfigResource
from kwire.cluster.replication import replica_manager as replica_manager_module
from kwire.cluster.replication.partition import Partition
from kwire.cluster.replication.replica_manager import ReplicaManager
from tests.cluster.helpers import FakeLog, FakeLogs, Node, log_of, node, replica_manager


@dataclass(kw_only=True)
class RunningNode(Node):
    """A broker whose replicas follow the image."""

    logs: FakeLogs
    replicas: ReplicaManager

    def log(self, topic: str, index: int) -> FakeLog:
        log = self.logs.get(topic, index)
        assert log is not None
        return log


async def running(made: Node | None = None, logs: FakeLogs | None = None, **properties: Any) -> RunningNode:
    made, logs = made or await node(**properties), logs or FakeLogs()
    running = RunningNode(**vars(made), logs=logs, replicas=replica_manager(made, logs))
    running.replicas.start()
    return running


async def create(made: Node, *topics: NewTopic | str) -> list[bytes]:
    results = await made.controller.create_topics(
        [topic if isinstance(topic, NewTopic) else NewTopic(topic) for topic in topics]
    )
    return [topic.id for topic in results.values() if isinstance(topic, CreatedTopic)]


def code(action: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        action()
    return caught.value.code


async def test_a_created_topic_accepts_appends_at_once() -> None:
    made = await running()
    (topic_id,) = await create(made, NewTopic("a", partitions=2))
    partition = made.replicas.partition("a", 1)
    assert partition.append(memoryview(b"x"), required_acks=-1).first_offset == 0
    assert made.replicas.partition_by_id(topic_id, 1) is partition
    assert made.replicas.topic_name(topic_id) == "a"
    assert made.log("a", 1).topic_id == topic_id


async def test_look_ups_raise_the_error_for_what_is_missing() -> None:
    made = await running()
    (topic_id,) = await create(made, "a")
    assert code(lambda: made.replicas.partition("a", 1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(lambda: made.replicas.partition("a", -1)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(lambda: made.replicas.partition("none", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(lambda: made.replicas.partition_by_id(b"x" * 16, 0)) == ErrorCode.UNKNOWN_TOPIC_ID
    assert code(lambda: made.replicas.partition_by_id(topic_id, 7)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert made.replicas.get("none", 0) is None


async def test_a_partition_of_other_brokers_only_is_not_led_here() -> None:
    made = await running()
    await node(made.store, 2)
    await create(made, NewTopic("a", assignments=[(0, [2])]))
    assert code(lambda: made.replicas.partition("a", 0)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert made.logs.logs == {}


async def test_a_deleted_topic_fails_its_waiters_and_loses_its_logs() -> None:
    made = await running()
    (topic_id,) = await create(made, NewTopic("a", partitions=2))
    partition = made.replicas.partition("a", 0)
    waiting = partition.wait_committed(5)
    assert waiting is not None
    await made.controller.delete_topics([topic_id])
    with pytest.raises(KafkaError) as caught:
        await waiting
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(lambda: made.replicas.partition("a", 0)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await made.replicas.close()
    assert made.logs.deleted == [("a", 0), ("a", 1)]


async def test_logs_of_many_deleted_topics_are_deleted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_manager_module, "DELETIONS_PER_STEP", 3)
    made = await running()
    ids = await create(made, *(NewTopic(f"t{number}", partitions=1) for number in range(7)), NewTopic("u", 2))
    await made.controller.delete_topics(ids)
    steps = [len(made.logs.deleted)]
    while len(made.logs.deleted) < 9:
        await asyncio.sleep(0)
        steps.append(len(made.logs.deleted))
    assert max(after - before for before, after in pairwise(steps)) == 3
    assert made.logs.deleted == [*((f"t{number}", 0) for number in range(7)), ("u", 0), ("u", 1)]
    await made.replicas.close()


async def test_a_recreated_topic_waits_until_the_old_log_is_deleted() -> None:
    made = await running()
    (first,) = await create(made, "a")
    made.logs.gate = asyncio.Event()
    await made.controller.delete_topics([first])
    (second,) = await create(made, "a")
    assert code(lambda: made.replicas.partition("a", 0)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    made.logs.gate.set()
    await made.replicas.close()
    await asyncio.sleep(0)
    assert made.replicas.partition("a", 0).topic_id == second


async def test_many_partitions_are_created_in_several_steps() -> None:
    made = await running()
    await create(made, NewTopic("a", partitions=500))
    await made.replicas.close()
    assert len(made.logs.logs) == 500
    assert made.replicas.partition("a", 499).leading


@pytest.mark.parametrize(
    ("partitions", "first", "look_s", "step"), [(64, 64, 0, 0), (200, 4, 0, 5), (200, 4, 2 * STEP_S, 1)]
)
async def test_a_step_takes_few_milliseconds(partitions: int, first: int, look_s: float, step: int) -> None:
    """``look_s``: how much later it is each time when somebody looks at the clock."""
    made = await running()
    made.doors.clock.perf_counter = (each * look_s for each in count()).__next__
    created: list[int] = []
    made.metadata.add_listener(lambda _image, _delta: created.append(len(made.logs.logs)))
    await create(made, NewTopic("a", partitions=partitions))
    assert max(created) == first
    before = len(made.logs.logs)
    while before < partitions:
        await asyncio.sleep(0)
        after = len(made.logs.logs)
        assert after - before <= step
        before = after
    await made.replicas.close()


async def test_added_partitions_leave_the_old_ones_untouched() -> None:
    made = await running()
    await create(made, "a")
    old = made.replicas.partition("a", 0)
    await made.controller.create_partitions([NewPartitions("a", 3)])
    assert made.replicas.partition("a", 0) is old
    assert made.replicas.partition("a", 2).leading


async def test_topic_properties_reach_the_log_and_the_partition() -> None:
    made = await running(min_insync_replicas="1")
    await create(made, NewTopic("a", configs={"retention.ms": "7"}))
    log = made.log("a", 0)
    assert log.config.retention_ms == 7
    change = ConfigUpdate(ConfigResource.TOPIC, "a", lambda old: {"min.insync.replicas": "2", "segment.ms": "9"})
    await made.controller.alter_configs([change])
    assert (log.config.segment_ms, log.config.retention_ms) == (9, 604_800_000)
    assert made.replicas.partition("a", 0)._min_isr == 2


async def test_the_brokers_own_properties_reach_logs_that_set_none() -> None:
    made = await running()
    await create(made, "a", NewTopic("b", configs={"segment.bytes": "2000000"}))
    made.config.apply_dynamic({"log.segment.bytes": "3000000"}, {})
    assert made.log("a", 0).config.segment_bytes == 3_000_000
    assert made.log("b", 0).config.segment_bytes == 2_000_000


async def test_a_log_that_cannot_be_created_is_a_storage_error_not_a_crash() -> None:
    made = await running()
    made.logs.broken = True
    await create(made, "a")
    assert code(lambda: made.replicas.partition("a", 0)) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_leadership_is_reported_at_once_and_at_every_change() -> None:
    made = await running()
    (topic_id,) = await create(made, NewTopic("a", partitions=2))
    reported: list[tuple[int, bool]] = []
    made.replicas.on_leadership("a", lambda index, partition: reported.append((index, partition is not None)))
    assert reported == [(0, True), (1, True)]
    await made.controller.create_partitions([NewPartitions("a", 3)])
    await made.controller.delete_topics([topic_id])
    assert reported[2:] == [(2, True), (0, False), (1, False), (2, False)]


async def test_at_the_start_known_logs_are_taken_over_and_strays_set_aside() -> None:
    made = await running()
    await create(made, NewTopic("a", partitions=2))
    await made.membership.leave()
    logs = made.logs
    log = made.log("a", 0)
    logs.create("a", 2, b"x" * 16, None)  # a partition that the topic does not have
    logs.create("b", 0, b"y" * 16, None)
    again = await running(await node(made.store), logs)
    await again.replicas.close()
    assert log_of(again.replicas.partition("a", 0)) is log
    assert again.replicas.partition("a", 0).leader_epoch == 1
    assert logs.aside == [("a", 2), ("b", 0)]


async def test_logs_of_another_broker_are_adopted_under_their_ids() -> None:
    made = await node()
    assert made.membership.founded
    logs = FakeLogs()
    for topic, partition, topic_id in (("a", 0, b"a" * 16), ("a", 2, b"a" * 16), ("b", 0, b"b" * 16)):
        logs.create(topic, partition, topic_id, None)
    logs.create("two", 0, b"c" * 16, None)
    logs.create("two", 1, b"d" * 16, None)
    assert await adopt_logs(made.controller, cast(Any, logs)) == ["a", "b"]
    made = await running(made, logs)
    assert made.replicas.partition_by_id(b"a" * 16, 2).leading
    assert made.replicas.partition("a", 1).topic_id == b"a" * 16
    assert logs.aside == [("two", 0), ("two", 1)]


async def test_isrs_shrink_in_several_turns_until_the_broker_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_manager_module, "ISRS_PER_STEP", 2)
    made = await running()
    await node(made.store, 2)
    await create(made, NewTopic("a", assignments=[(index, [1, 2]) for index in range(5)]))
    looked_at: list[int] = []
    monkeypatch.setattr(Partition, "shrink_isr", lambda partition, _lag_ms: looked_at.append(partition.index))
    counts = []
    made.replicas._shrink_isrs()
    while len(looked_at) < 5:
        counts.append(len(looked_at))
        await asyncio.sleep(0)
    assert counts == [2, 4]
    looked_at.clear()
    made.replicas._shrink_isrs()
    await made.replicas.close()
    await asyncio.sleep(0)
    assert looked_at == [0, 1]
