"""Requests about very many groups, of which some change between two slices: each group has the result of its slice."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.coordinator.groups.offsets import protocol
from kwire.handlers.groups import delete_groups, describe_groups, group_calls, offset_commit, offset_fetch
from tests.coordinator.fakes import FakeMetadata, FakePartition
from tests.coordinator.groups.test_group_coordinator import Service
from tests.handlers.groups.test_group_handlers import Broker

NAMES = [f"g{number}" for number in range(6)]
DELETE = (delete_groups.API, DeleteGroupsRequest(groups_names=NAMES), 2)
DESCRIBE = (describe_groups.API, DescribeGroupsRequest(groups=NAMES), 6)
FETCH = (
    offset_fetch.API,
    OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in NAMES], require_stable=True
    ),
    9,
)


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """A broker that does two groups in a slice; six groups have an offset each."""
    monkeypatch.setattr(group_calls, "SLICE_GROUPS", 2)
    monkeypatch.setattr(delete_groups, "SLICE_DELETED", 2)
    service = Service(FakePartition())
    await service.groups.start()
    for name in NAMES:
        service.commit(5, group=name)
    yield Broker(service)
    await service.groups.close()


async def begun(broker: Broker, asked: tuple[Any, Any, int]) -> asyncio.Task[Any]:
    """A request of which the first slice is done."""
    task = asyncio.ensure_future(broker.ask(*asked))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_group_that_changes_meanwhile_is_deleted_as_it_is_then(broker: Broker) -> None:
    service = broker.service
    deletion = await begun(broker, DELETE)
    assert [facts["group"] for facts in service.groups.dump()] == NAMES[2:]
    service.commit(6, group="g0")  # deleted, and there again
    service.commit(6, group="g2")
    service.join(group="g3")
    assert service.groups.delete_group("g4") is ErrorCode.NONE
    results = {each.group_id: each.error_code for each in (await deletion).results}
    assert results == {
        **dict.fromkeys(NAMES, 0),
        "g3": ErrorCode.NON_EMPTY_GROUP,
        "g4": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert {facts["group"]: facts["offsets"] for facts in service.groups.dump()} == {"g3": 1, "g0": 1}


async def test_offsets_that_a_transaction_holds_are_deleted_with_their_group(broker: Broker) -> None:
    service = broker.service
    deletion = await begun(broker, DELETE)
    service.commit_in_transaction(6, "g3")
    await deletion
    service.groups.write_marker(0, (7, 0), commit=True, coordinator_epoch=0)
    assert service.committed("g3") == []


@pytest.mark.parametrize("asked", [DELETE, DESCRIBE, FETCH], ids=["delete", "describe", "fetch"])
async def test_groups_whose_coordinator_has_moved_away_are_refused(broker: Broker, asked: Any) -> None:
    request = await begun(broker, asked)
    written = len(broker.service.partition.log.batches)
    broker.service.replicas.callback(0, None)
    response = await request
    results = response.results if asked is DELETE else response.groups
    assert {each.group_id: each.error_code for each in results} == {
        **dict.fromkeys(NAMES, ErrorCode.NOT_COORDINATOR),
        **dict.fromkeys(NAMES[:2], 0),
    }
    assert len(broker.service.partition.log.batches) == written


async def test_a_transaction_that_begins_meanwhile_makes_an_offset_unstable(broker: Broker) -> None:
    fetch = await begun(broker, FETCH)
    broker.service.commit_in_transaction(6, "g1")
    broker.service.commit_in_transaction(6, "g4")
    groups = (await fetch).groups
    codes = {each.group_id: each.topics[0].partitions[0].error_code for each in groups}
    assert codes == {**dict.fromkeys(NAMES, 0), "g4": ErrorCode.UNSTABLE_OFFSET_COMMIT}


async def test_a_group_is_described_as_it_is_then(broker: Broker) -> None:
    description = await begun(broker, DESCRIBE)
    broker.service.join(group="g1")
    broker.service.join(group="g4")
    states = {each.group_id: each.group_state for each in (await description).groups}
    assert states == {**dict.fromkeys(NAMES, "Empty"), "g4": "CompletingRebalance"}


async def test_no_deletion_waits_for_the_commit_of_an_earlier_one(broker: Broker) -> None:
    partition = broker.service.partition
    partition.hold = True
    deletion = asyncio.ensure_future(broker.ask(*DELETE))
    for _ in NAMES:
        await asyncio.sleep(0)
    assert not deletion.done() and list(broker.service.groups.dump()) == []
    partition.commit()
    assert {each.error_code for each in (await deletion).results} == {0}


async def test_deletions_that_are_not_committed_are_refused(broker: Broker) -> None:
    partition = broker.service.partition
    partition.hold = True
    deletion = await begun(broker, DELETE)
    partition.resign()
    broker.service.replicas.callback(0, None)
    assert {each.error_code for each in (await deletion).results} == {ErrorCode.NOT_COORDINATOR}


@pytest.mark.parametrize("is_named", [False, True])
async def test_groups_with_many_offsets_are_fewer_in_a_slice(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, is_named: bool
) -> None:
    """Groups count for more, the more offsets they have."""
    monkeypatch.setattr(group_calls, "SLICE_GROUPS", 4)
    monkeypatch.setattr(offset_fetch, "OFFSETS_PER_GROUP", 1)
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])] if is_named else None

    async def fetched(names: list[str]) -> tuple[list[int], Any]:
        """How many groups each turn fetches, and the response."""
        begun: list[str] = []
        counts: list[int] = []
        groups = broker.service.groups
        fetch = groups.fetch_offsets

        def noted(request: Any, **arguments: Any) -> Any:
            begun.append(request.group_id)
            return fetch(request, **arguments)

        with monkeypatch.context() as patch:
            patch.setattr(groups, "fetch_offsets", noted)
            asked = [OffsetFetchRequestGroup(group_id=name, topics=topics) for name in names]
            task = asyncio.ensure_future(broker.ask(offset_fetch.API, OffsetFetchRequest(groups=asked), 9))
            while not task.done():
                before = len(begun)
                await asyncio.sleep(0)
                counts.append(len(begun) - before)
        return [count for count in counts if count], task.result()

    counts, response = await fetched(NAMES[:5])  # each has one offset, so it counts for two groups
    assert counts == [2, 2, 1]
    absent = [f"absent-{number}" for number in range(3)]
    counts, _ = await fetched(absent)
    assert counts == ([2, 1] if is_named else [3])
    monkeypatch.setattr(group_calls, "SLICE_GROUPS", 100)
    counts, at_once = await fetched(NAMES[:5])
    assert counts == [5] and at_once == response


async def test_offsets_of_very_many_topics_are_fetched_as_those_of_few(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = broker.service.metadata.image
    ids = [image.topics["t"].id, b"of no topic at a", image.topics["t"].id]

    def asked(version: int) -> tuple[Any, Any, int]:
        topics = [
            OffsetFetchRequestTopics(name="t" if at != 1 else "absent", topic_id=topic_id, partition_indexes=[at, 0])
            for at, topic_id in enumerate(ids)
        ]
        groups = [OffsetFetchRequestGroup(group_id="g1", topics=topics)]
        return offset_fetch.API, OffsetFetchRequest(groups=groups), version

    for version in (9, 10):
        monkeypatch.setattr(offset_fetch, "SLICE_TOPICS", 100)
        expected = await broker.ask(*asked(version))
        monkeypatch.setattr(offset_fetch, "SLICE_TOPICS", 1)
        response = await (await begun(broker, asked(version)))
        assert response == expected and len(response.groups[0].topics) == 3
    refused = await begun(broker, asked(9))
    broker.service.replicas.callback(0, None)
    assert [each.error_code for each in (await refused).groups] == [ErrorCode.NOT_COORDINATOR]


# -- OffsetCommit: prepared in slices, committed in one ----------------------------------------------------------------

TOPICS = {"t": 4, "u": 3, "v": 2}
TOO_LONG = "x" * 5000
COMMIT = (
    offset_commit.API,
    OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=at,
                        committed_offset=10 * at,
                        committed_metadata=TOO_LONG if (name, at) == ("t", 1) else name,
                    )
                    for at in range(4)
                ],
            )
            for name in ("t", "absent", "u", "v")
        ],
    ),
    8,
)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
async def committing(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Broker]:
    """A broker that prepares one topic in a slice, and two records."""
    monkeypatch.setattr(offset_commit, "SLICE_PARTITIONS", 3)
    monkeypatch.setattr(protocol, "RECORDS_PER_STEP", 2)
    service = Service(FakePartition(), metadata=FakeMetadata(1, TOPICS))
    await service.groups.start()
    yield Broker(service)
    await service.groups.close()


async def commit_begun(broker: Broker) -> asyncio.Task[Any]:
    """A commit of which all topics are looked up and the first records made."""
    commit = await begun(broker, COMMIT)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not commit.done() and not broker.service.partition.log.batches
    return commit


def codes_of(response: Any) -> dict[str, dict[int, int]]:
    return {
        topic.name: {each.partition_index: each.error_code for each in topic.partitions} for topic in response.topics
    }


def offsets_of(broker: Broker) -> dict[tuple[str, int], tuple[int, str, bytes]]:
    offsets = broker.service.groups._runtimes[0].shard.offsets
    return {(topic, at): (one.offset, one.metadata, one.topic_id) for topic, at, one in offsets.walk("g")}


async def test_very_many_offsets_are_committed_in_one_batch(
    committing: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(offset_commit, "SLICE_PARTITIONS", 100)
        expected, offsets = codes_of(await committing.ask(*COMMIT)), offsets_of(committing)
    assert {key: one[:2] for key, one in offsets.items()} == {
        (topic, at): (10 * at, topic)
        for topic, count in TOPICS.items()
        for at in range(count)
        if (topic, at) != ("t", 1)
    }
    assert expected["t"] == {0: 0, 1: ErrorCode.OFFSET_METADATA_TOO_LARGE, 2: 0, 3: 0}
    assert committing.service.groups.delete_group("g") is ErrorCode.NONE
    committing.service.partition.log.batches.clear()
    commit = await commit_begun(committing)
    assert codes_of(await commit) == expected
    assert offsets_of(committing) == offsets
    assert len(committing.service.partition.log.batches) == 1


async def test_offsets_of_a_topic_that_is_deleted_meanwhile_are_not_committed(committing: Broker) -> None:
    commit = await commit_begun(committing)
    metadata = committing.service.metadata
    metadata.image = copy.copy(metadata.image)
    metadata.image.topics = {name: topic for name, topic in metadata.image.topics.items() if name != "u"}
    assert codes_of(await commit)["u"] == dict.fromkeys(range(4), UNKNOWN)
    assert {topic for topic, _ in offsets_of(committing)} == {"t", "v"}


async def test_offsets_of_a_topic_that_is_made_anew_meanwhile_have_its_id(committing: Broker) -> None:
    commit = await commit_begun(committing)
    metadata = committing.service.metadata
    metadata.image = copy.copy(metadata.image)
    anew = copy.copy(metadata.image.topics["u"])
    anew.id = b"another id of u."
    metadata.image.topics = metadata.image.topics | {"u": anew}
    assert codes_of(await commit)["u"] == {0: 0, 1: 0, 2: 0, 3: UNKNOWN}
    assert {key: one[2] for key, one in offsets_of(committing).items() if key[0] == "u"} == dict.fromkeys(
        [("u", 0), ("u", 1), ("u", 2)], anew.id
    )


async def test_a_commit_to_a_group_that_a_member_joins_meanwhile_is_refused(committing: Broker) -> None:
    commit = await commit_begun(committing)
    committing.service.join()
    written = len(committing.service.partition.log.batches)
    assert codes_of(await commit)["v"] == {0: ErrorCode.UNKNOWN_MEMBER_ID, 1: ErrorCode.UNKNOWN_MEMBER_ID} | {
        2: UNKNOWN,
        3: UNKNOWN,
    }
    assert len(committing.service.partition.log.batches) == written and not offsets_of(committing)


async def test_a_commit_to_a_coordinator_that_moves_away_meanwhile_is_refused(committing: Broker) -> None:
    commit = await commit_begun(committing)
    committing.service.replicas.callback(0, None)
    assert codes_of(await commit)["v"][0] == ErrorCode.NOT_COORDINATOR
    assert not committing.service.partition.log.batches
