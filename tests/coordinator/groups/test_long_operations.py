"""Operations on very many offsets take several turns of the event loop. Whatever comes meanwhile waits for their end.
When the coordinator moves away, they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from itertools import pairwise
from typing import Any

import pytest

from harness.waiting import until
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kwire.coordinator.groups import coordinator
from kwire.coordinator.groups.offsets import protocol
from kwire.coordinator.runtime import long_operations, runtime
from kwire.coordinator.runtime.machine import Caller, Result
from kwire.coordinator.runtime.runtime import Runtime
from tests.coordinator.fakes import FakeMetadata, FakePartition
from tests.coordinator.groups.test_group_coordinator import Config, Service
from tests.log.log_tools import ManualClock, doors_at

COUNT = 4
MINUTE_MS = 60_000


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than two offsets are many, and each is a step of its own."""
    monkeypatch.setattr(coordinator, "MANY_OFFSETS", 2)
    monkeypatch.setattr(protocol, "PARTITIONS_PER_PART", 1)
    monkeypatch.setattr(long_operations, "STEP_US", 1)
    monkeypatch.setattr(runtime, "WRITTEN_PER_TURN", 2)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def service(clock: ManualClock) -> AsyncIterator[Service]:
    """A coordinator of three partitions of its topic; the group g belongs to the first."""
    partitions = [FakePartition(index) for index in range(3)]
    config = Config(group_min_session_timeout_ms=10, offsets_retention_minutes=1)
    made = Service(*partitions, config=config, metadata=FakeMetadata(3, {"t": COUNT, "u": 1}), doors=doors_at(clock))
    made.partition = partitions[made.groups.partition_of("g") or 0]
    await made.groups.start()
    yield made
    await made.groups.close()


def commit_many(service: Service, offset: int = 5, group: str = "g") -> asyncio.Future[Any]:
    """A commit of all partitions of a topic."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=at, committed_offset=offset, committed_leader_epoch=-1)
        for at in range(COUNT)
    ]
    topics = [OffsetCommitRequestTopic(name="t", topic_id=b"t".ljust(16, b"-"), partitions=partitions)]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    return service.groups.commit_many_offsets(request, Caller("c", "/h", 8), ())


def runtime_of(service: Service, group: str = "g") -> Runtime[Any]:
    return service.groups._runtime(group, may_be_empty=False)


def offsets(service: Service, group: str = "g") -> dict[tuple[str, int], int]:
    """The committed offsets in the present state, whatever is in progress."""
    walk = runtime_of(service, group).shard.offsets.walk(group)
    return {(topic, index): one.offset for topic, index, one in walk}


async def loaded_anew(service: Service) -> Service:
    """Another coordinator that has loaded the same log."""
    other = Service(FakePartition(0, service.partition.log), metadata=FakeMetadata(1))
    await other.groups.start()
    return other


def code_of(future: asyncio.Future[Any]) -> ErrorCode:
    error = future.exception()
    assert isinstance(error, KafkaError)
    return error.code


def endless(steps: list[str], name: str = "") -> Callable[[Any], Generator[None, None, Result[str]]]:
    """A long operation that is over when ``steps`` has an empty text."""

    def operation(_now: Any) -> Generator[None, None, Result[str]]:
        while "" not in steps:
            steps.append(name)
            yield
        return Result(name)

    return operation


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# -- the others wait ---------------------------------------------------------------------------------------------------


async def test_whatever_comes_during_a_commit_is_done_after_it_in_its_order(service: Service) -> None:
    service.commit(1)
    commit = commit_many(service)
    await asyncio.sleep(0)
    before, later, after = service.committed(), service.commit(6), service.committed()
    joined = service.join()
    await turns(3)
    assert not any(each.done() for each in (commit, before, later, after, joined))
    assert (await commit).topics[0].partitions[0].error_code == 0
    fetched = [[each.committed_offset for each in (await one).topics[0].partitions] for one in (before, after)]
    assert [sorted(each) for each in fetched] == [[5] * COUNT, [5] * (COUNT - 1) + [6]]
    assert (await later).topics[0].partitions[0].error_code == 0
    assert (await joined).error_code == 0
    assert len(service.partition.log.batches) == 3  # the first commit, all of the long one, and the second
    assert offsets(await loaded_anew(service)) == offsets(service)


async def test_a_commit_after_a_member_has_joined_is_refused(service: Service) -> None:
    first = commit_many(service)
    joined = service.join()
    second = commit_many(service, 7)
    await first
    assert (await joined).error_code == 0
    with pytest.raises(KafkaError) as refused:
        await second
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert set(offsets(service).values()) == {5}


async def test_an_offset_that_is_committed_during_the_deletion_of_its_group_stays(service: Service) -> None:
    await commit_many(service)
    deletion = service.groups.delete_group("g")
    assert isinstance(deletion, asyncio.Future)
    await asyncio.sleep(0)
    commit = service.commit(6)
    second = asyncio.ensure_future(resolved(service.groups.delete_group("g")))
    third = service.commit(7)
    assert await deletion is ErrorCode.NONE
    await commit
    assert await second is ErrorCode.NONE
    await third
    assert offsets(service) == {("t", 0): 7}
    assert offsets(await loaded_anew(service)) == {("t", 0): 7}


async def test_the_deletion_of_a_large_group_is_one_batch(service: Service) -> None:
    await commit_many(service)
    service.commit_in_transaction(6, "g")
    written = len(service.partition.log.batches)
    assert await resolved(service.groups.delete_group("g")) is ErrorCode.NONE
    assert len(service.partition.log.batches) == written + 1
    assert service.groups.write_marker(service.partition.index, (7, 0), commit=True, coordinator_epoch=0) is None
    assert offsets(service) == {} and list(service.groups.dump()) == []
    assert service.groups.delete_group("g") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_group_with_members_is_not_deleted(service: Service) -> None:
    await commit_many(service)
    await service.join()
    assert await resolved(service.groups.delete_group("g")) is ErrorCode.NON_EMPTY_GROUP
    assert len(offsets(service)) == COUNT


async def test_a_transaction_goes_on_after_the_deletion_in_its_order(service: Service) -> None:
    await commit_many(service)
    deletion = service.groups.delete_group("g")
    pending = service.commit_in_transaction(6, "g")
    marker = service.groups.write_marker(service.partition.index, (7, 0), commit=True, coordinator_epoch=0)
    assert isinstance(deletion, asyncio.Future) and isinstance(marker, asyncio.Future)
    await deletion
    await pending
    await marker
    assert offsets(service) == {("t", 0): 6}
    assert offsets(await loaded_anew(service)) == {("t", 0): 6}


async def test_offsets_of_a_topic_that_is_deleted_during_their_commit_do_not_stay(service: Service) -> None:
    commit = commit_many(service)
    await asyncio.sleep(0)
    waiting = service.commit(6, topic="u")
    service.metadata.delete("t")
    await commit
    await waiting
    service.metadata.delete("u")
    await turns(20)
    assert offsets(service) == {}


async def test_offsets_of_a_topic_that_is_made_anew_stay(service: Service) -> None:
    names = [f"g{number}" for number in range(9)]
    for name in names:
        service.commit(5, group=name)
    service.metadata.delete("t")
    waiting = [service.commit(6, group=name) for name in names]
    assert sum(isinstance(each, asyncio.Future) for each in waiting) > 6
    await turns(60)
    assert {name: offsets(service, name) for name in names} == {name: {("t", 0): 6} for name in names}


async def test_an_offset_that_is_committed_while_others_of_its_group_expire_stays(
    service: Service, clock: ManualClock
) -> None:
    await commit_many(service)
    clock.now_ms += 2 * MINUTE_MS
    service.groups.expire_offsets()
    await turns(2)
    commit = service.commit(6)
    assert not commit.done()
    await commit
    await turns(20)
    assert offsets(service) == {("t", 0): 6}
    clock.now_ms += 2 * MINUTE_MS
    service.groups.expire_offsets()
    await turns(20)
    assert list(service.groups.dump()) == []


async def test_sessions_do_not_end_during_a_long_operation(service: Service) -> None:
    joined = await service.join(session_ms=10)
    await service.sync(joined)
    steps: list[str] = []
    operation = runtime_of(service).perform_in_turns(endless(steps, "x"))
    await asyncio.sleep(0.03)
    beat = service.heartbeat(joined.member_id)
    await asyncio.sleep(0.03)
    assert not operation.done() and not beat.done()
    steps.append("")
    assert (await beat).error_code == 0
    assert next(service.groups.dump())["members"] == 1
    await until(lambda: next(service.groups.dump())["members"] == 0)


async def test_other_groups_do_not_wait(service: Service) -> None:
    commit_many(service)
    elsewhere = next(f"g{n}" for n in range(9) if service.groups.partition_of(f"g{n}") != service.partition.index)
    assert not isinstance(service.commit(5, group=elsewhere), asyncio.Future)


# -- turns -------------------------------------------------------------------------------------------------------------


async def test_one_step_of_all_shards_is_done_in_a_turn(service: Service) -> None:
    steps: list[str] = []
    operations = [
        service.groups._runtimes[index].perform_in_turns(endless(steps, name)) for index, name in enumerate("abc")
    ]
    for number in range(9):
        assert len(steps) == number + 1
        await asyncio.sleep(0)
    assert {name: steps.count(name) for name in "abc"} in (dict.fromkeys("abc", 3), {"a": 4, "b": 3, "c": 3})
    steps.append("")
    assert await asyncio.gather(*operations) == ["a", "b", "c"]


async def test_very_many_that_have_waited_run_in_several_turns(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_operations, "WAITING_PER_TURN", 3)
    steps: list[str] = []
    operation = runtime_of(service).perform_in_turns(endless(steps))
    waiting = [service.commit(number) for number in range(10)]
    await operation
    done = [sum(each.done() for each in waiting)]
    while done[-1] < 10:
        await asyncio.sleep(0)
        done.append(sum(each.done() for each in waiting))
    assert max(later - earlier for earlier, later in pairwise(done)) == 3
    last = service.commit(10)
    assert not isinstance(last, asyncio.Future)


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(12))
async def test_a_coordinator_that_moves_away_ends_a_commit(service: Service, count: int) -> None:
    commit = commit_many(service)
    waiting = service.commit(6)
    await turns(count)
    assert not commit.done()
    written = len(service.partition.log.batches)
    present = runtime_of(service).shard.offsets
    applied = len(present)
    service.replicas.callback(service.partition.index, None)
    await turns(3)
    assert code_of(commit) is code_of(waiting) is ErrorCode.NOT_COORDINATOR
    assert len(service.partition.log.batches) == written and len(present) == applied
    service.replicas.callback(service.partition.index, FakePartition(service.partition.index, service.partition.log))
    await turns(3)
    assert offsets(service) == ({} if not written else {("t", at): 5 for at in range(COUNT)})
    assert not isinstance(service.commit(7), asyncio.Future)


async def test_a_refused_append_changes_nothing(service: Service) -> None:
    service.commit(1)
    commit = commit_many(service)
    waiting = service.commit(6)
    service.partition.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError) as refused:
        await commit
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    service.partition.refuse = None
    assert (await waiting).topics[0].partitions[0].error_code == 0
    assert offsets(service) == {("t", 0): 6}


async def test_the_response_waits_for_the_commit_of_its_records(service: Service) -> None:
    service.partition.hold = True
    commit = commit_many(service)
    await turns(30)
    assert not commit.done() and len(service.partition.log.batches) == 1
    service.partition.commit()
    assert (await commit).topics[0].partitions[0].error_code == 0


async def test_a_defect_of_one_operation_does_not_stop_the_others(service: Service) -> None:
    def broken(_now: Any) -> Generator[None, None, Result[Any]]:
        yield
        raise ValueError("a defect")

    operation = runtime_of(service).perform_in_turns(broken)
    written = runtime_of(service).write_in_turns(broken)
    waiting = service.commit(6)
    with pytest.raises(ValueError, match="a defect"):
        await operation
    await written
    assert (await waiting).topics[0].partitions[0].error_code == 0


async def test_an_operation_goes_on_without_its_client(service: Service) -> None:
    commit = commit_many(service)
    waiting = service.commit(6)
    commit.cancel()
    waiting.cancel()
    await turns(30)
    assert offsets(service) == {("t", 0): 6} | {("t", at): 5 for at in range(1, COUNT)}


async def test_a_coordinator_that_closes_ends_everything(service: Service) -> None:
    commit = commit_many(service)
    waiting = [service.commit(6), service.join(), service.groups.delete_group("g")]
    await service.groups.close()
    assert {code_of(each) for each in (commit, *waiting)} == {ErrorCode.NOT_COORDINATOR}


# -- OffsetFetch in steps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stable", [False, True])
async def test_very_many_offsets_are_fetched_as_few_are(
    service: Service, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    await commit_many(service)
    service.commit(8, topic="u")
    service.commit_in_transaction(6, "g")
    other = b"another id of t."
    named = [("t", bytes(16), [3, 0, 7]), ("absent", bytes(16), [0, 1, 2]), ("t", other, [0, 1, 2]), ("u", other, [0])]
    topics = [
        OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=indexes)
        for name, topic_id, indexes in named
    ]
    for group in ("g", "absent"):
        for wanted in (None, topics):
            request = OffsetFetchRequestGroup(group_id=group, topics=wanted)
            monkeypatch.setattr(coordinator, "MANY_OFFSETS", 100)
            few = service.groups.fetch_offsets(request, require_stable=stable)
            monkeypatch.setattr(coordinator, "MANY_OFFSETS", 2)
            many = service.groups.fetch_offsets(request, require_stable=stable)
            assert isinstance(many, asyncio.Future) is (group == "g" or wanted is not None)
            assert not isinstance(few, asyncio.Future)
            found = await many if isinstance(many, asyncio.Future) else many
            assert found == few and (found.topics or wanted is None)


async def test_offsets_are_fetched_as_they_were(service: Service) -> None:
    await commit_many(service)
    fetched = service.committed()
    await asyncio.sleep(0)
    service.commit(6)
    service.groups.delete_group("g")
    assert [each.committed_offset for each in (await fetched).topics[0].partitions] == [5] * COUNT
