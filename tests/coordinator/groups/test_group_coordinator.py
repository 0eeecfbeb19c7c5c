"""The group coordinator: loading, leadership, responses that wait for commits, timers on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from harness.waiting import PATIENCE_S, until
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codec.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.codec.messages.leave_group_response import LeaveGroupResponse
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequestGroup
from kwire.codec.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codec.records import ABORT, COMMIT, Record, build_batch, build_control_batch
from kwire.coordinator.groups import records as group_records
from kwire.coordinator.groups.coordinator import GroupCoordinator
from kwire.coordinator.groups.records import CommittedOffset
from kwire.coordinator.runtime import runtime
from kwire.coordinator.runtime.machine import Caller
from tests.coordinator.bench import Settings
from tests.coordinator.fakes import FakeLog, FakeMetadata, FakePartition, FakeReplicas


class Config(Settings):
    offsets_commit_timeout_ms = 5_000
    offsets_topic_compression_codec = 0
    offsets_retention_check_interval_ms = 600_000


class Service:
    """A coordinator with fakes, and short forms of requests."""

    def __init__(
        self,
        *partitions: FakePartition,
        config: Config | None = None,
        metadata: Any = None,
        doors: Doors | None = None,
    ) -> None:
        self.partition = partitions[0]
        self.replicas = FakeReplicas(*partitions)
        self.metadata = metadata or FakeMetadata(len(partitions), {"t": 2})
        self.config = config or Config(group_min_session_timeout_ms=10)
        self.groups = GroupCoordinator(doors or Doors(), self.config, self.replicas, self.metadata)  # type: ignore[arg-type]

    def join(self, member_id: str = "", version: int = 3, session_ms: int = 10_000, group: str = "g") -> Any:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        return self.groups.join(request, Caller("c", "/h", version))

    def sync(self, joined: Any) -> Any:
        assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"A")]
        return self.groups.sync(
            SyncGroupRequest(
                group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, assignments=assignments
            )
        )

    def heartbeat(self, member_id: str, generation: int = 1) -> Any:
        return self.groups.heartbeat(HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation))

    def commit(self, offset: int, group: str = "g", topic: str = "t") -> Any:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
        return self.groups.commit_offsets(OffsetCommitRequest(group_id=group, topics=topics), Caller("c", "/h", 8))

    def commit_in_transaction(self, offset: int, group: str, producer: tuple[int, int] = (7, 0)) -> Any:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        return self.groups.commit_transactional_offsets(request, 3, lambda: True)

    def committed(self, group: str = "g") -> Any:
        response = self.groups.fetch_offsets(OffsetFetchRequestGroup(group_id=group, topics=None), require_stable=False)
        if isinstance(response, asyncio.Future):
            return response
        return [p.committed_offset for topic in response.topics for p in topic.partitions]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service(FakePartition())
    await made.groups.start()
    yield made
    await made.groups.close()


def error_of(call: Any, *arguments: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        call(*arguments)
    return refused.value.code


async def test_a_member_joins_and_syncs(service: Service) -> None:
    joined = await service.join()
    assert joined.error_code == 0 and joined.leader == joined.member_id
    synced = await service.sync(joined)
    assert synced.assignment == b"A"
    assert service.heartbeat(joined.member_id).error_code == 0
    assert [facts["state"] for facts in service.groups.dump()] == ["Stable"]


async def test_a_response_waits_until_its_records_are_committed(service: Service) -> None:
    service.partition.hold = True
    pending = service.commit(5)
    await asyncio.sleep(0)
    assert not pending.done()
    service.partition.commit()
    assert (await pending).topics[0].partitions[0].error_code == 0


async def test_uncommitted_offsets_are_not_returned(service: Service) -> None:
    service.partition.hold = True
    service.commit(5)
    reading = service.committed()
    await asyncio.sleep(0)
    assert not reading.done()
    service.partition.commit()
    assert (await reading).topics[0].partitions[0].committed_offset == 5


async def test_a_commit_that_takes_too_long_fails() -> None:
    config = Config()
    config.offsets_commit_timeout_ms = 5
    service = Service(FakePartition(), config=config)
    await service.groups.start()
    service.partition.hold = True
    with pytest.raises(KafkaError) as refused:
        await service.commit(5)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await service.groups.close()


async def test_a_leadership_lost_before_the_commit_fails_the_request(service: Service) -> None:
    service.partition.hold = True
    pending = service.commit(5)
    service.partition.resign()
    service.replicas.callback(0, None)
    with pytest.raises(KafkaError) as refused:
        await pending
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert error_of(service.commit, 5) is ErrorCode.NOT_COORDINATOR


async def test_a_refused_append_changes_nothing(service: Service) -> None:
    service.commit(5)
    service.partition.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert error_of(service.commit, 6) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert service.committed() == [5]


async def test_parked_requests_fail_when_the_broker_closes(service: Service) -> None:
    joined = await service.join()
    await service.sync(joined)
    parked = service.join()
    assert not parked.done()
    await service.groups.close()
    assert (await parked).error_code == ErrorCode.NOT_COORDINATOR
    assert error_of(service.heartbeat, joined.member_id) is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_member_without_heartbeats_expires_by_the_loops_clock(service: Service) -> None:
    joined = await service.join(session_ms=20)
    await service.sync(joined)
    deadline = asyncio.get_running_loop().time() + 5
    while next(service.groups.dump())["state"] != "Empty":
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)


async def test_a_rebalance_timer_completes_parked_requests(service: Service) -> None:
    first = await service.join()
    await service.sync(first)
    parked = service.join(version=3)
    left = service.groups.leave(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=first.member_id)]))
    assert isinstance(left, LeaveGroupResponse)
    assert left.members[0].error_code == 0
    assert (await parked).generation_id == 2


async def test_a_cancelled_request_does_no_harm(service: Service) -> None:
    first = await service.join()
    await service.sync(first)
    service.join().cancel()
    again = service.join(first.member_id)
    await asyncio.wait_for(again, PATIENCE_S)


async def test_group_ids_are_validated(service: Service) -> None:
    empty = HeartbeatRequest(group_id="", member_id="m")
    assert error_of(service.groups.heartbeat, empty) is ErrorCode.INVALID_GROUP_ID
    assert service.commit(5, group="").topics[0].partitions[0].error_code == 0
    assert service.groups.partition_of("whatever") == 0


async def test_groups_of_other_brokers_get_not_coordinator() -> None:
    service = Service(FakePartition(0), metadata=FakeMetadata(2))
    await service.groups.start()
    assert service.groups.partition_of("g") == 1
    assert error_of(service.heartbeat, "m") is ErrorCode.NOT_COORDINATOR
    await service.groups.close()


async def test_without_the_offsets_topic_there_is_no_coordinator() -> None:
    service = Service(FakePartition(0), metadata=FakeMetadata(0))
    await service.groups.start()
    assert service.groups.partition_of("g") is None
    assert error_of(service.heartbeat, "m") is ErrorCode.NOT_COORDINATOR
    await service.groups.close()


async def test_offsets_of_a_deleted_topic_are_deleted(service: Service) -> None:
    service.commit(5)
    service.commit(6, topic="u")
    service.metadata.delete("t")
    assert service.committed() == [6]


async def test_expired_offsets_are_deleted_in_batches() -> None:
    config = Config(offsets_retention_minutes=0)
    config.offsets_retention_check_interval_ms = 10
    service = Service(FakePartition(), config=config)
    await service.groups.start()
    partitions = [OffsetCommitRequestPartition(partition_index=index) for index in range(2500)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    service.groups.commit_offsets(OffsetCommitRequest(group_id="g", topics=topics), Caller("c", "/h", 8))
    deadline = asyncio.get_running_loop().time() + 5
    while service.committed():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)
    assert list(service.groups.dump()) == []
    assert len(service.partition.log.batches) == 1 + 6
    await service.groups.close()


async def test_the_offsets_of_very_many_groups_expire_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.coordinator.groups.coordinator.GROUPS_PER_STEP", 3)
    config = Config(offsets_retention_minutes=0)
    config.offsets_retention_check_interval_ms = 10
    service = Service(FakePartition(), config=config)
    await service.groups.start()
    for number in range(8):
        service.commit(5, group=f"g{number}")
    left = [8]
    async with asyncio.timeout(PATIENCE_S):
        while left[-1]:
            await asyncio.sleep(0)
            left.append(sum(1 for _ in service.groups.dump()))
    assert sorted({before - after for before, after in pairwise(left)}) == [0, 2, 3]
    await service.groups.close()


async def test_metrics_have_kafkas_names(service: Service) -> None:
    from kwire.base.metrics import MetricsRegistry

    metrics = MetricsRegistry()
    service.groups.add_metrics(metrics)
    joined = await service.join()
    await service.sync(joined)
    service.commit(5, group="simple")
    seen = metrics.snapshot()
    manager = "kafka.coordinator.group:type=GroupMetadataManager,name="
    assert [seen[manager + name] for name in ("NumGroups", "NumGroupsStable", "NumGroupsEmpty", "NumOffsets")] == [
        2,
        1,
        1,
        1,
    ]
    server = "kafka.server:type=group-coordinator-metrics,name="
    assert seen[server + "offset-commit-count"] == 1
    assert seen[server + "group-completed-rebalance-count"] == 1
    assert seen[server + "num-partitions,state=active"] == 1
    assert {name.removeprefix(server) for name in seen if "share" in name} == {
        "group-count,protocol=share",
        "share-group-rebalance-count",
        *(f"share-group-count,state={state}" for state in ("empty", "stable", "dead")),
    }
    assert {name.removeprefix(server) for name in seen if "streams" in name} == {
        "group-count,protocol=streams",
        "streams-group-rebalance-count",
        *(
            f"streams-group-count,state={state}"
            for state in ("empty", "notready", "assigning", "reconciling", "stable", "dead")
        ),
    }


# -- loading -----------------------------------------------------------------------------------------------------------


def restarted(service: Service, **changes: Any) -> Service:
    return Service(FakePartition(0, service.partition.log), **changes)


async def test_a_new_leader_loads_the_log(service: Service) -> None:
    joined = await service.join()
    await service.sync(joined)
    service.commit(7, group="other")
    again = restarted(service)
    await again.groups.start()
    assert again.heartbeat(joined.member_id).error_code == 0
    assert again.committed("other") == [7]
    await again.groups.close()


async def test_requests_fail_with_load_in_progress_while_the_log_is_loaded(service: Service) -> None:
    service.commit(7)
    again = Service(FakePartition())
    await again.groups.start()
    again.replicas.callback(0, FakePartition(0, service.partition.log))
    assert error_of(again.commit, 8) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    listing = again.groups.list_groups(frozenset(), frozenset())
    assert error_of(next, listing) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await asyncio.sleep(0.01)
    assert again.committed() == [7]
    await again.groups.close()


async def test_a_leadership_lost_while_loading_ends_the_loading(service: Service) -> None:
    service.commit(7)
    again = Service(FakePartition())
    await again.groups.start()
    again.replicas.callback(0, FakePartition(0, service.partition.log))
    again.replicas.callback(0, None)
    await asyncio.sleep(0)
    assert error_of(again.commit, 8) is ErrorCode.NOT_COORDINATOR
    await again.groups.close()


async def test_a_log_that_cannot_be_read_makes_the_shard_unavailable(service: Service) -> None:
    service.commit(7)
    service.partition.log.broken = True
    again = restarted(service)
    await again.groups.start()
    assert error_of(again.commit, 8) is ErrorCode.NOT_COORDINATOR
    await again.groups.close()


def appended(log: FakeLog, batch: bytes, count: int = 1) -> None:
    log.log_end_offset += count
    log.batches.append((log.log_end_offset, batch))


async def test_an_invalid_record_is_skipped(service: Service) -> None:
    log = FakeLog("__consumer_offsets", 0)
    good = group_records.offset_commit("g", "t", 0, CommittedOffset(5))
    strange = [Record(key=b"\0\1garbage", value=b""), Record(key=None, value=b"x"), Record(key=b"\0\x63", value=b"x")]
    appended(log, build_batch([*strange, Record(key=good.key, value=good.value)]), 4)
    service = Service(FakePartition(0, log))
    await service.groups.start()
    assert service.committed() == [5]
    await service.groups.close()


async def test_offsets_of_transactions_in_the_log_count_if_committed() -> None:
    log = FakeLog("__consumer_offsets", 0)

    def in_transaction(producer_id: int, group: str, offset: int) -> None:
        record = group_records.offset_commit(group, "t", 0, CommittedOffset(offset))
        batch = build_batch(
            [Record(key=record.key, value=record.value)],
            base_offset=log.log_end_offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        appended(log, batch)

    def marker(producer_id: int, kind: int) -> None:
        batch = build_control_batch(
            kind,
            producer_id=producer_id,
            producer_epoch=0,
            base_offset=log.log_end_offset,
            coordinator_epoch=0,
            timestamp=0,
        )
        appended(log, batch)

    in_transaction(1, "g", 5)
    in_transaction(2, "h", 6)
    in_transaction(3, "i", 7)
    marker(1, COMMIT)
    marker(2, ABORT)
    service = Service(FakePartition(0, log))
    await service.groups.start()
    assert (service.committed("g"), service.committed("h"), service.committed("i")) == ([5], [], [])
    await service.groups.close()


async def test_a_long_log_is_loaded_in_chunks(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for offset in range(500):
        service.commit(offset, group=f"g{offset % 7}")
    again = restarted(service)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr("kwire.coordinator.runtime.log_loader.load.__defaults__", (500,))
    counting = asyncio.create_task(count_turns())
    await again.groups.start()
    counting.cancel()
    assert turns > 5, "other tasks ran in between"
    assert again.committed("g0") == [497]
    await again.groups.close()


async def test_timers_that_are_due_together_fire_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "TIMERS_PER_TURN", 2)
    service = Service(FakePartition(), config=Config(group_min_session_timeout_ms=10))
    await service.groups.start()
    timers = service.groups._runtimes[0].shard.timers
    calls: list[object] = []
    for number in range(5):
        timers.schedule(f"due {number}", 0, lambda out, _now: calls.append(out))
    service.groups._runtimes[0]._on_alarm()
    assert len(calls) == 2
    await until(lambda: len(calls) == 5)
    assert timers.next_wake_ms() is None
    await service.groups.close()
