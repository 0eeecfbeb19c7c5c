"""Replicas in failed log directories, and the leaders that are elected instead."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.waiting import until
from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller import elections
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.replication.replica_manager import ReplicaManager
from kwire.cluster.store.keys import PartitionState
from kwire.log.common.environment import StorageError
from kwire.log.common.log_dirs import LogDirectory
from tests.cluster.helpers import FakeLog, FakeLogs, Node, node, replica_manager

RULES = elections.ElectionRules(1, unclean=False)
STATE = PartitionState(replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=4, partition_epoch=9)


class DirectoryLogs(FakeLogs):
    """Even partitions are in one directory, odd ones in another."""

    def __init__(self) -> None:
        super().__init__()
        self.directories = [SimpleNamespace(path=name, online=True, cordoned=False) for name in ("even", "odd")]
        self.refuse: Exception | None = None

    def directory_of(self, topic: str, partition: int) -> SimpleNamespace | None:
        return self.directories[partition % 2] if (topic, partition) in self.logs else None

    def is_offline(self, topic: str, partition: int) -> bool:
        online: bool = self.directories[partition % 2].online
        return not online

    def create(self, topic: str, partition: int, topic_id: bytes, config: Any, *, is_new: bool = True) -> FakeLog:
        if self.refuse:
            raise self.refuse
        return super().create(topic, partition, topic_id, config, is_new=is_new)


async def leading(partitions: int = 4) -> tuple[Node, DirectoryLogs, ReplicaManager]:
    broker = await node()
    await broker.controller.create_topics([NewTopic("t", partitions, 1)])
    logs = DirectoryLogs()
    replicas = replica_manager(broker, logs)
    replicas.start()
    return broker, logs, replicas


def leaders(broker: Node) -> list[int]:
    return [state.leader for state in broker.image.topics["t"].partitions]


async def test_partitions_of_a_failed_directory_raise_a_storage_error_and_have_no_leader() -> None:
    broker, logs, replicas = await leading()
    reported: list[tuple[int, bool]] = []
    replicas.on_leadership("t", lambda index, partition: reported.append((index, partition is not None)))
    reported.clear()
    waiting = replicas.partition("t", 1).wait_committed(0)
    assert waiting is not None
    logs.directories[1].online = False
    lost = replicas.directory_failed(cast(LogDirectory, logs.directories[1]))
    assert lost == [("t", 1), ("t", 3)]
    assert reported == [(1, False), (3, False)]
    with pytest.raises(KafkaError) as error:
        replicas.partition("t", 3).require_leader()
    assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        await waiting
    replicas.partition("t", 0).require_leader()

    await broker.controller.leaders.replicas_failed(lost)
    assert leaders(broker) == [1, -1, 1, -1]
    state = broker.state("t", 1)
    assert (state.isr, state.elr, state.last_leader, state.leader_epoch) == ((), (1,), (1,), 1)
    assert [state.is_offline(1, broker.image.brokers) for state in broker.image.topics["t"].partitions] == [
        False,
        True,
        False,
        True,
    ]
    revision = broker.image.revision
    await broker.controller.leaders.replicas_failed(lost)
    assert broker.image.revision == revision
    await replicas.close()


@pytest.mark.parametrize(("election", "code"), [(0, "PREFERRED_LEADER_NOT_AVAILABLE"), (1, "ELIGIBLE_LEADERS_NOT")])
async def test_a_replica_in_a_failed_directory_is_not_elected(election: int, code: str) -> None:
    broker, _, replicas = await leading(1)
    await broker.controller.leaders.replicas_failed([("t", 0)])
    results = await broker.controller.leaders.elect_leaders(election, [("t", 0)])
    error = results["t", 0]
    assert error is not None
    assert error.code.name.startswith(code)
    await replicas.close()


async def test_a_restart_leads_the_online_replicas_and_all_when_the_directory_is_back() -> None:
    broker, _, replicas = await leading(2)
    await replicas.close()
    await broker.membership.leave()
    second = await node(broker.store, join=False)
    await second.membership.join(is_offline=lambda _topic, index: index == 1)
    assert leaders(second) == [1, -1]
    await second.membership.leave()
    third = await node(broker.store)
    assert leaders(third) == [1, 1]
    assert third.state("t", 1).leader_epoch == 2


async def test_a_replica_in_a_failed_directory_stays_offline_when_the_broker_registers_again() -> None:
    broker, _, replicas = await leading(2)
    await broker.controller.leaders.replicas_failed([("t", 1)])
    assert leaders(broker) == [1, -1]
    broker.store.expire(next(iter(broker.store.sessions)))
    await broker.membership.rejoin(lambda _topic, index: index == 1)
    assert leaders(broker) == [1, -1]
    assert [state.is_offline(1, broker.image.brokers) for state in broker.image.topics["t"].partitions] == [False, True]
    await replicas.close()


async def test_a_log_that_hit_a_full_disk_is_opened_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.cluster.replication.replica_manager.RETRY_S", 0.01)
    broker, logs, replicas = await leading(1)
    logs.refuse = StorageError("here", OSError(28, "No space left on device"))
    await broker.controller.create_topics([NewTopic("u", 1, 1)])
    with pytest.raises(KafkaError) as error:
        replicas.partition("u", 0)
    assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    await asyncio.sleep(0.03)
    assert replicas.get("u", 0) is None
    logs.refuse = None
    await until(lambda: replicas.get("u", 0) is not None)
    replicas.partition("u", 0).require_leader()
    await replicas.close()


async def test_a_move_from_or_to_a_failed_directory_is_refused() -> None:
    _, logs, replicas = await leading(2)
    logs.directories[0].path, logs.directories[1].path = "/even", "/odd"
    logs.directories[1].online = False
    for index, target in ((0, "/odd"), (1, "/even")):
        with pytest.raises(KafkaError) as error:
            replicas.move("t", index, target)
        assert error.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    await replicas.close()


def test_another_in_sync_broker_leads_when_one_loses_its_disk() -> None:
    lost = STATE._replace(offline=(1,))
    after = elections.after(lost, {1, 2, 3}, RULES)
    assert after == lost._replace(isr=(2,), leader=2, leader_epoch=5, partition_epoch=10)
    alone = lost._replace(isr=(1,))
    after = elections.after(alone, {1, 2, 3}, RULES)
    assert (after.leader, after.isr, after.elr, after.last_leader) == (-1, (), (1,), (1,))
    back = elections.after(after._replace(offline=(), elr=()), {1, 2, 3}, RULES)  # killed meanwhile
    assert (back.leader, back.isr, back.last_leader) == (1, (1,), ())
