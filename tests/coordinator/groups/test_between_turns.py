"""What changes between two turns of work on very many groups: groups are deleted or made anew, members join, offsets
are committed, the coordinator moves away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.metadata.image import OFFSETS_TOPIC
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.coordinator.groups import coordinator, shard
from kwire.coordinator.runtime.java_hash import partitions_order
from kwire.coordinator.runtime.machine import Caller
from tests.coordinator.fakes import FakePartition
from tests.coordinator.groups.test_group_coordinator import Config, Service
from tests.log.log_tools import ManualClock, doors_at

NAMES = [f"g{number}" for number in range(6)]
MINUTE_MS = 60_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def service(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A coordinator that does three groups in a turn; six groups have an offset each."""
    monkeypatch.setattr(shard, "GROUPS_PER_STEP", 3)
    monkeypatch.setattr(coordinator, "GROUPS_PER_STEP", 3)
    made = Service(FakePartition(), config=Config(offsets_retention_minutes=1), doors=doors_at(clock))
    await made.groups.start()
    for name in NAMES:
        made.commit(5, group=name)
    yield made
    await made.groups.close()


# -- ListGroups --------------------------------------------------------------------------------------------------------


def listing_begun(service: Service) -> Generator[None, None, list[Any]]:
    """A list of which the first turn is over."""
    steps = service.groups.list_groups(frozenset(), frozenset())
    next(steps)
    return steps


def rest_of(steps: Generator[None, None, list[Any]]) -> dict[str, str]:
    """The groups of a list with their types."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return {each.group_id: each.group_type for each in end.value}


async def test_a_group_is_listed_as_it_is_in_its_turn(service: Service) -> None:
    steps = listing_begun(service)
    assert service.groups.delete_group("g3") is ErrorCode.NONE
    assert service.groups.delete_group("g4") is ErrorCode.NONE
    request = ConsumerGroupHeartbeatRequest(
        group_id="g4",
        member_id="m",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["absent"],
        topic_partitions=[],
    )
    service.groups.consumer_heartbeat(request, Caller("c", "/h", 1))
    assert rest_of(steps) == {"g0": "classic", "g1": "classic", "g2": "classic", "g4": "consumer", "g5": "classic"}


@pytest.fixture
async def pair(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A coordinator of two partitions that lists three groups in a turn, and has more in each partition."""
    monkeypatch.setattr(shard, "GROUPS_PER_STEP", 3)
    made = Service(FakePartition(0), FakePartition(1))
    await made.groups.start()
    for number in range(20):
        made.commit(5, group=f"g{number}")
    yield made
    await made.groups.close()


FIRST, SECOND = partitions_order(OFFSETS_TOPIC, (0, 1))


async def test_groups_of_a_coordinator_that_moves_away_are_not_listed(pair: Service) -> None:
    steps = listing_begun(pair)
    pair.replicas.callback(FIRST, None)
    listed = rest_of(steps)
    assert listed and {pair.groups.partition_of(name) for name in listed} == {SECOND}


async def test_groups_of_a_coordinator_that_moved_away_before_its_turn_are_not_listed(pair: Service) -> None:
    steps = listing_begun(pair)
    pair.replicas.callback(SECOND, None)
    listed = rest_of(steps)
    assert listed and {pair.groups.partition_of(name) for name in listed} == {FIRST}


async def test_a_coordinator_that_is_loaded_anew_meanwhile_ends_the_list(pair: Service) -> None:
    steps = listing_begun(pair)
    pair.replicas.callback(SECOND, FakePartition(SECOND, pair.replicas.partitions[SECOND].log))
    with pytest.raises(KafkaError) as refused:
        rest_of(steps)
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def test_a_coordinator_that_closes_does_not_list_a_part(service: Service) -> None:
    steps = listing_begun(service)
    await service.groups.close()
    with pytest.raises(KafkaError) as refused:
        rest_of(steps)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_groups_of_many_small_partitions_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "GROUPS_PER_STEP", 3)
    service = Service(*(FakePartition(index) for index in range(5)))
    await service.groups.start()
    for number in range(20):
        service.commit(5, group=f"g{number}")
    assert sum(1 for _ in service.groups.list_groups(frozenset(), frozenset())) == 20 // 3
    await service.groups.close()


# -- offsets expire ----------------------------------------------------------------------------------------------------


async def expiry_begun(service: Service, clock: ManualClock) -> asyncio.Task[None]:
    """All offsets are too old, and the first three groups are gone."""
    clock.now_ms += 2 * MINUTE_MS
    task = asyncio.ensure_future(service.groups._expire_in_slices())
    await asyncio.sleep(0)
    assert groups_of(service) == NAMES[3:]
    return task


def groups_of(service: Service) -> list[str]:
    return [facts["group"] for facts in service.groups.dump()]


async def test_an_offset_that_is_committed_meanwhile_stays(service: Service, clock: ManualClock) -> None:
    expiry = await expiry_begun(service, clock)
    service.commit(6, group="g4")
    await expiry
    assert groups_of(service) == ["g4"] and service.committed("g4") == [6]


async def test_an_offset_that_a_transaction_commits_stays(service: Service, clock: ManualClock) -> None:
    expiry = await expiry_begun(service, clock)
    service.commit_in_transaction(6, "g4")
    await expiry
    assert groups_of(service) == ["g4"] and service.committed("g4") == [5]
    service.groups.write_marker(0, (7, 0), commit=True, coordinator_epoch=0)
    assert service.committed("g4") == [6]


async def test_a_group_that_a_member_joins_stays(service: Service, clock: ManualClock) -> None:
    expiry = await expiry_begun(service, clock)
    service.join(group="g4")
    await expiry
    assert groups_of(service) == ["g4"]


async def test_a_group_of_the_same_name_that_a_member_joins_stays(service: Service, clock: ManualClock) -> None:
    expiry = await expiry_begun(service, clock)
    assert service.groups.delete_group("g4") is ErrorCode.NONE
    service.join(group="g4")
    await expiry
    assert groups_of(service) == ["g4"]
    assert next(service.groups.dump())["members"] == 1


async def test_a_coordinator_that_has_moved_away_writes_no_more(service: Service, clock: ManualClock) -> None:
    expiry = await expiry_begun(service, clock)
    written, expired = len(service.partition.log.batches), service.groups._counters.offset_expirations
    service.replicas.callback(0, None)
    await expiry
    assert len(service.partition.log.batches) == written
    assert service.groups._counters.offset_expirations == expired == 3
