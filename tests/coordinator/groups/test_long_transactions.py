"""A marker that ends very many offsets is written at once, and ends them in several turns of the event loop. Whatever
comes meanwhile waits until all of them are ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kwire.base.futures import resolved
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.coordinator.groups import shard
from tests.coordinator.fakes import FakePartition
from tests.coordinator.groups.test_group_coordinator import Service
from tests.coordinator.groups.test_long_operations import (
    COUNT,
    clock,
    commit_many,
    endless,
    loaded_anew,
    offsets,
    runtime_of,
    service,
    small_steps,
    turns,
)

__all__ = ["clock", "service", "small_steps"]  # fixtures

PRODUCER = (7, 0)


@pytest.fixture(autouse=True)
def many_are_few(small_steps: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "MANY_OFFSETS", 2)


async def commit_in_transaction(service: Service, offset: int = 6) -> None:
    """Pending offsets of all partitions of a topic."""
    partitions = [TxnOffsetCommitRequestPartition(partition_index=at, committed_offset=offset) for at in range(COUNT)]
    request = TxnOffsetCommitRequest(
        group_id="g",
        producer_id=PRODUCER[0],
        producer_epoch=PRODUCER[1],
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)],
    )
    await service.groups.commit_many_transactional_offsets(request, 3, (), lambda: True)


def write_marker(service: Service, *, commit: bool = True) -> asyncio.Future[None] | None:
    return service.groups.write_marker(service.partition.index, PRODUCER, commit=commit, coordinator_epoch=0)


@pytest.mark.parametrize("commit", [True, False])
async def test_very_many_offsets_of_a_transaction_are_ended_in_steps(service: Service, commit: bool) -> None:
    await commit_many(service)
    await commit_in_transaction(service)
    written = len(service.partition.log.batches)
    assert write_marker(service, commit=commit) is None
    assert len(service.partition.log.batches) == written + 1
    fetched = service.committed()
    seen = [sum(offset == 6 for offset in offsets(service).values())]
    while not fetched.done():
        await asyncio.sleep(0)
        seen.append(sum(offset == 6 for offset in offsets(service).values()))
    assert seen[0] == commit and len(seen) > COUNT
    assert {each.committed_offset for each in (await fetched).topics[0].partitions} == {6 if commit else 5}
    assert set(offsets(service).values()) == {6 if commit else 5}
    assert offsets(await loaded_anew(service)) == offsets(service)
    assert not runtime_of(service).shard.offsets.has_open_transaction("g")


async def test_an_offset_committed_after_the_marker_prevails(service: Service) -> None:
    await commit_in_transaction(service)
    assert write_marker(service) is None
    await service.commit(9)
    assert offsets(service) == {("t", 0): 9, **{("t", at): 6 for at in range(1, COUNT)}}
    assert offsets(await loaded_anew(service)) == offsets(service)


async def test_an_offset_committed_during_the_transaction_prevails(service: Service) -> None:
    await commit_in_transaction(service)
    service.commit(9)
    assert write_marker(service) is None
    await turns(COUNT + 1)
    assert offsets(service) == {("t", 0): 9, **{("t", at): 6 for at in range(1, COUNT)}}


async def test_a_marker_that_has_waited_ends_all_offsets_before_what_came_after_it(service: Service) -> None:
    await commit_in_transaction(service)
    steps: list[str] = []
    operation = runtime_of(service).perform_in_turns(endless(steps, "x"))
    marker, fetched, deletion = write_marker(service), service.committed(), service.groups.delete_group("g")
    later = service.commit(9)
    await turns(3)
    assert isinstance(marker, asyncio.Future) and not marker.done()
    steps.append("")
    await operation
    await marker
    assert {each.committed_offset for each in (await fetched).topics[0].partitions} == {6}
    assert await resolved(deletion) == 0
    await later
    assert offsets(service) == {("t", 0): 9} == offsets(await loaded_anew(service))
    assert not isinstance(service.commit(10), asyncio.Future)
    again = commit_many(service)
    await turns(30)
    assert again.done()


async def test_a_group_whose_offsets_are_being_ended_is_fetched_and_deleted_in_steps(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets cannot be counted before."""
    await commit_in_transaction(service)
    assert write_marker(service) is None

    def at_once(*_: Any, **__: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(shard.GroupShard, "fetch_offsets", at_once)
    monkeypatch.setattr(shard.GroupShard, "delete_group", at_once)
    fetched = service.committed()
    deleted = service.groups.delete_group("g")
    assert len((await fetched).topics[0].partitions) == COUNT
    assert await resolved(deleted) == 0
    assert offsets(service) == {}


@pytest.mark.parametrize("count", range(COUNT - 1))
async def test_a_coordinator_that_moves_away_ends_the_steps(service: Service, count: int) -> None:
    await commit_in_transaction(service)
    assert write_marker(service) is None
    await turns(count)
    former = runtime_of(service).shard.offsets
    ended = len(former)
    assert ended < COUNT
    service.replicas.callback(service.partition.index, None)
    await turns(3)
    assert len(former) == ended
    service.replicas.callback(service.partition.index, FakePartition(service.partition.index, service.partition.log))
    await turns(9)
    assert offsets(service) == {("t", at): 6 for at in range(COUNT)}
    assert not isinstance(service.commit(7), asyncio.Future)


async def test_few_offsets_are_ended_at_once(service: Service) -> None:
    service.commit_in_transaction(6, "g")
    assert write_marker(service) is None
    assert offsets(service) == {("t", 0): 6}
    assert not isinstance(service.commit(7), asyncio.Future)
