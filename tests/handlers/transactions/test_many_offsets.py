"""TxnOffsetCommit of very many offsets: prepared in slices, committed in steps. What changes meanwhile counts."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from harness.waiting import until
from kwire.base.errors import ErrorCode
from kwire.base.futures import resolved
from kwire.cluster.metadata.image import OFFSETS_TOPIC
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codec.protocol import encode
from kwire.coordinator.runtime import long_operations
from kwire.coordinator.runtime.machine import Result
from kwire.coordinator.runtime.runtime import Runtime
from kwire.handlers.context import RequestContext
from kwire.handlers.topics import create_topics, delete_topics
from kwire.handlers.transactions import txn_offset_commit
from tests.handlers.admin_broker import Guard
from tests.handlers.transactions.test_overtaken_transactions import Delayed
from tests.handlers.transactions.test_transactions import NONE, Client, client_of_a_broker, offsets
from tests.server.slices.counted_turns import CountedTurns

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
INVALID = ErrorCode.INVALID_TXN_STATE
TOO_LONG = "x" * 5000
VERSIONS = (3, 5)
"""Before and since the broker adds the group to the transaction."""


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a broker with the topics t and u of two partitions."""
    async with client_of_a_broker(tmp_path) as opened:
        await make(opened, "u")
        yield opened


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each offset is a slice, and a step of its own."""
    monkeypatch.setattr(txn_offset_commit, "SLICE_PARTITIONS", 1)
    monkeypatch.setattr(long_operations, "STEP_US", 1)


async def make(client: Client, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    await client.ask(create_topics, CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)


async def delete(client: Client, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5000)
    await client.ask(delete_topics, request, 6)


def many(who: Any, offset: int = 5) -> TxnOffsetCommitRequest:
    """Offsets of three partitions each of t, of a topic that does not exist, and of u."""
    request = offsets(who, offset)
    request.topics = [
        TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=at,
                    committed_offset=offset + at,
                    committed_metadata=TOO_LONG if (name, at) == ("u", 0) else name,
                )
                for at in range(3)
            ],
        )
        for name in ("t", "absent", "u")
    ]
    return request


async def end(client: Client, who: Any, version: int, *, commit: bool = True) -> Any:
    return await client.end(who, commit=commit, version=5 if version == 5 else 4)


def runtime(client: Client) -> Runtime[Any]:
    return client.broker.services.groups._runtime("g", may_be_empty=False)


def stored(client: Client) -> dict[tuple[str, int], tuple[int, str]]:
    walk = runtime(client).shard.offsets.walk("g")
    return {(topic, index): (one.offset, one.metadata) for topic, index, one in walk}


def batches(client: Client) -> int:
    return runtime(client).partition.log.log_end_offset


async def held(client: Client) -> None:
    """Returns when a long operation of the group's coordinator has begun."""
    while not runtime(client).is_held:  # noqa: ASYNC110
        await asyncio.sleep(0)


def is_nothing_open(client: Client) -> bool:
    index = client.broker.services.groups.partition_of("g")
    assert index is not None
    log = client.broker.replicas.partition(OFFSETS_TOPIC, index).log
    return log.last_stable_offset == log.log_end_offset


def codes(response: Any) -> dict[str, dict[int, int]]:
    return {
        topic.name: {each.partition_index: each.error_code for each in topic.partitions} for topic in response.topics
    }


def wait_for(condition: list[bool]) -> Any:
    """A long operation that is over when ``condition`` has an entry."""

    def operation(_now: Any) -> Generator[None, None, Result[str]]:
        while not condition:
            yield
        return Result("over")

    return operation


async def answered(client: Client, who: Any, version: int) -> tuple[int, bytes]:
    """In how many turns a commit is answered, and how."""
    context = RequestContext(client.broker.services, api_version=version)
    counted = CountedTurns()
    response = await resolved(txn_offset_commit.API.handle(many(who), context))
    counted.stop()
    body = bytes(encode(response, version))
    assert context.charged is None or context.charged == [body]
    return counted.count, body


@pytest.mark.parametrize("version", VERSIONS)
async def test_very_many_offsets_are_committed_in_steps_and_in_one_batch(
    client: Client, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    who = await client.begin_offsets(version)
    turns, at_once = await answered(client, who, version)
    assert turns <= 3
    await end(client, who, version)
    expected = {("t", 0): (5, "t"), ("t", 1): (6, "t"), ("u", 1): (6, "u")}
    assert stored(client) == expected
    runtime(client).shard.offsets._groups.clear()

    monkeypatch.setattr(txn_offset_commit, "SLICE_PARTITIONS", 1)
    monkeypatch.setattr(long_operations, "STEP_US", 1)
    who = await client.begin_offsets(version)
    appended = []
    append = Runtime._append_batch

    def noted(self: Any, data: bytes) -> int:
        appended.append(self)
        return append(self, data)

    with patch.object(Runtime, "_append_batch", noted):
        turns, body = await answered(client, who, version)
    assert body == at_once
    assert turns > 9 + 4 + 4 + 3 + 3  # looked up, made, taken, encoded, applied
    assert appended.count(runtime(client)) == 1
    assert stored(client) == {}
    await end(client, who, version)
    assert stored(client) == expected and is_nothing_open(client)


async def test_what_is_not_allowed_is_refused_in_slices(client: Client, small_steps: None) -> None:
    who = await client.begin_offsets(3)
    guard = Guard("t")
    services = dataclasses.replace(client.broker.services, authorizer=guard)
    response = await resolved(txn_offset_commit.API.handle(many(who), RequestContext(services, api_version=3)))
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes(response) == {
        "t": dict.fromkeys(range(3), refused),
        "absent": dict.fromkeys(range(3), UNKNOWN),
        "u": {0: ErrorCode.OFFSET_METADATA_TOO_LARGE, 1: 0, 2: UNKNOWN},
    }
    assert guard.decisions == 3


@pytest.mark.parametrize("anew", [False, True], ids=["deleted", "made anew"])
@pytest.mark.parametrize("late", [False, True], ids=["in slices", "while it is verified"])
async def test_offsets_of_a_topic_that_is_deleted_meanwhile_are_not_committed(
    client: Client, small_steps: None, anew: bool, late: bool
) -> None:
    who = await client.begin_offsets(3)
    delayed = Delayed(client, "verify")
    with delayed.patched():
        commit = asyncio.ensure_future(client.ask(txn_offset_commit, many(who), 3))
        if late:
            await delayed.verified.wait()
        else:
            for _ in range(12):
                await asyncio.sleep(0)
            assert not delayed.verified.is_set()
        await delete(client, "t")
        if anew:
            await make(client, "t")
        delayed.go()
        found = codes(await commit)
    assert found["t"] == ({0: 0, 1: 0} if anew else {0: UNKNOWN, 1: UNKNOWN}) | {2: UNKNOWN}
    assert found["u"] == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE, 1: 0, 2: UNKNOWN}
    await end(client, who, 3)
    expected = {("t", 0): (5, "t"), ("t", 1): (6, "t")} if anew else {}
    assert stored(client) == expected | {("u", 1): (6, "u")}


async def test_nothing_is_committed_if_all_topics_are_deleted_meanwhile(client: Client, small_steps: None) -> None:
    who = await client.begin_offsets(3)
    written = batches(client)
    delayed = Delayed(client, "verify")
    with delayed.patched():
        commit = asyncio.ensure_future(client.ask(txn_offset_commit, many(who), 3))
        await delayed.verified.wait()
        await delete(client, "t")
        await delete(client, "u")
        delayed.go()
        assert codes(await commit) == dict.fromkeys(("t", "absent", "u"), dict.fromkeys(range(3), int(UNKNOWN)))
    assert batches(client) == written


@pytest.mark.parametrize("is_large", [False, True], ids=["small", "large"])
async def test_offsets_that_wait_while_their_transaction_ends_are_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    """The transaction is open when they come, but its marker comes before them."""
    who = await client.begin_offsets(3)
    assert codes(await client.ask(txn_offset_commit, many(who, 1), 3))["t"] == {0: 0, 1: 0, 2: UNKNOWN}
    if is_large:
        monkeypatch.setattr(txn_offset_commit, "SLICE_PARTITIONS", 1)
    over: list[bool] = []
    holding = runtime(client).perform_in_turns(wait_for(over))
    assert (await end(client, who, 3)).error_code == NONE
    assert client.state().state.text == "PrepareCommit"
    commit = asyncio.ensure_future(client.ask(txn_offset_commit, many(who, 7), 3))
    for _ in range(40):
        await asyncio.sleep(0)
    assert not commit.done()
    over.append(True)
    assert codes(await commit)["t"] == {0: INVALID, 1: INVALID, 2: UNKNOWN}
    await holding
    await until(lambda: client.state().state.text == "CompleteCommit")
    assert stored(client)["t", 0] == (1, "t") and is_nothing_open(client)


@pytest.mark.parametrize("version", VERSIONS)
async def test_very_many_offsets_verified_before_the_end_are_refused_after_it(
    client: Client, small_steps: None, version: int
) -> None:
    who = await client.begin_offsets(version)
    delayed = Delayed(client, "verify" if version < 5 else "add_partitions")
    with delayed.patched():
        commit = asyncio.ensure_future(client.ask(txn_offset_commit, many(who), version))
        await delayed.verified.wait()
        assert (await end(client, who, version, commit=False)).error_code == NONE
        await until(lambda: client.state().state.text == "CompleteAbort")
        delayed.go()
        assert codes(await commit)["t"] == {0: INVALID, 1: INVALID, 2: UNKNOWN}
    assert stored(client) == {} and is_nothing_open(client)


async def test_a_marker_that_comes_during_the_commit_ends_all_of_its_offsets(client: Client, small_steps: None) -> None:
    who = await client.begin_offsets(3)
    commit = asyncio.ensure_future(client.ask(txn_offset_commit, many(who), 3))
    await held(client)
    assert (await end(client, who, 3)).error_code == NONE
    assert not commit.done()
    assert codes(await commit)["t"] == {0: 0, 1: 0, 2: UNKNOWN}
    await until(lambda: client.state().state.text == "CompleteCommit")
    assert stored(client) == {("t", 0): (5, "t"), ("t", 1): (6, "t"), ("u", 1): (6, "u")}
    assert is_nothing_open(client)


async def test_a_commit_is_refused_if_its_coordinator_moves_away_during_it(client: Client, small_steps: None) -> None:
    who = await client.begin_offsets(3)
    commit = asyncio.ensure_future(client.ask(txn_offset_commit, many(who), 3))
    await held(client)
    written = batches(client)
    runtime(client).end()
    assert codes(await commit)["t"] == {0: ErrorCode.NOT_COORDINATOR, 1: ErrorCode.NOT_COORDINATOR, 2: UNKNOWN}
    assert batches(client) == written
