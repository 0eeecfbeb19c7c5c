"""DeleteRecords waits for the followers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import until
from kwire.base.errors import ErrorCode
from kwire.base.futures import resolved
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.replication.partition import Partition
from kwire.cluster.store.keys import PartitionState
from kwire.codec.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.codec.messages.delete_records_response import DeleteRecordsResponse
from kwire.codec.protocol import decode, encode
from kwire.handlers.data import delete_records
from tests.cluster.helpers import Node, node
from tests.handlers.admin_broker import AdminBroker, admin_broker
from tests.log.log_tools import batch
from tests.server.slices.counted_turns import CountedTurns

LONG_MS = 600_000


class Led:
    """A partition of this broker with ten records and the follower 2."""

    def __init__(self, broker: AdminBroker, second: Node) -> None:
        self.broker = broker
        self.second = second
        self.partition: Partition = broker.replicas.partition("t", 0)
        self.partition.append(memoryview(bytearray(batch(10))), required_acks=1)
        self.follows(0)

    def follows(self, start: int) -> None:
        """A fetch of the follower at the end of the log, whose own log begins at ``start``."""
        self.partition.follower_at(2, 10, start_offset=start)

    def begin(self, offset: int, timeout_ms: int = LONG_MS) -> asyncio.Task[tuple[ErrorCode, int]]:
        """Ask to delete the records below an offset; the error and the low watermark."""
        return asyncio.get_running_loop().create_task(self._ask(offset, timeout_ms))

    async def _ask(self, offset: int, timeout_ms: int) -> tuple[ErrorCode, int]:
        topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        response: Any = await self.broker.call(
            delete_records, DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)
        )
        found = response.topics[0].partitions[0]
        return ErrorCode(found.error_code), found.low_watermark


@pytest.fixture
async def led(tmp_path: Path) -> AsyncIterator[Led]:
    broker = await admin_broker(tmp_path)
    second = await node(broker.node.store, 2)
    await broker.node.controller.create_topics([NewTopic("t", assignments=[(0, [1, 2])])])
    yield Led(broker, second)
    await broker.close()


async def test_the_response_comes_when_the_follower_has_deleted_the_records_too(led: Led) -> None:
    deleting = led.begin(4)
    await until(lambda: led.partition.log.log_start_offset == 4)
    led.follows(3)
    await asyncio.sleep(0.01)
    assert not deleting.done()
    led.follows(4)
    assert await deleting == (ErrorCode.NONE, 4)
    assert await led.begin(2) == (ErrorCode.NONE, 4), "both have deleted them already"


async def test_all_records_up_to_the_high_watermark_are_waited_for(led: Led) -> None:
    deleting = led.begin(-1)
    await until(lambda: led.partition.log.log_start_offset == 10)
    await asyncio.sleep(0.01)
    assert not deleting.done()
    led.follows(10)
    assert await deleting == (ErrorCode.NONE, 10)


async def test_a_follower_that_does_not_fetch_in_time(led: Led) -> None:
    assert await led.begin(4, timeout_ms=1) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert led.partition.log.log_start_offset == 4


async def test_a_follower_on_a_broker_that_dies_is_not_waited_for(led: Led) -> None:
    deleting = led.begin(4)
    await until(lambda: led.partition.log.log_start_offset == 4)
    await led.second.membership.leave()
    await until(lambda: 2 not in led.broker.image.brokers)
    partition = led.partition
    partition.update(PartitionState((1, 2), (1,), 1, partition.leader_epoch, partition.partition_epoch + 1))
    assert await deleting == (ErrorCode.NONE, 4)


async def test_the_leadership_is_lost_meanwhile(led: Led) -> None:
    deleting = led.begin(4)
    await until(lambda: led.partition.log.log_start_offset == 4)
    led.partition.fence()
    assert await deleting == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


async def test_fetch_sessions_are_told(led: Led) -> None:
    changes: list[int] = []
    led.partition.on_change(lambda: changes.append(led.partition.log.log_start_offset))
    deleting = led.begin(4)
    await until(lambda: changes)
    assert changes == [4]
    led.follows(4)
    await deleting


async def test_a_follower_that_deletes_them_at_once_is_seen(led: Led) -> None:
    """Before anyone waits."""
    request = request_of({"t": [(0, 4)]}, LONG_MS)
    deleting = delete_records.API.handle(request, led.broker.context(2))
    assert asyncio.iscoroutine(deleting)
    led.follows(4)
    assert found_in(await deleting) == {("t", 0): (0, 4)}


# -- very many partitions ----------------------------------------------------------------------------------------------


def request_of(offsets: dict[str, list[tuple[int, int]]], timeout_ms: int = 0) -> DeleteRecordsRequest:
    topics = [
        DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=at, offset=offset) for at, offset in each]
        )
        for name, each in offsets.items()
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def found_in(response: Any) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (topic.name, each.partition_index): (each.error_code, each.low_watermark)
        for topic in response.topics
        for each in topic.partitions
    }


@pytest.fixture
async def many(led: Led, monkeypatch: pytest.MonkeyPatch) -> Led:
    """A broker that also has the topics u and v of two partitions with ten records each, of which those of v have a
    follower, and that deletes the records of one partition in a slice."""
    monkeypatch.setattr(delete_records, "SLICE_PARTITIONS", 1)
    monkeypatch.setattr(delete_records, "SLICE_DELETED", 1)
    await led.broker.node.controller.create_topics(
        [NewTopic("u", assignments=[(0, [1]), (1, [1])]), NewTopic("v", assignments=[(0, [1, 2]), (1, [1, 2])])]
    )
    for name in "uv":
        for index in range(2):
            partition = led.broker.replicas.partition(name, index)
            partition.append(memoryview(bytearray(batch(10))), required_acks=1)
            if name == "v":
                partition.follower_at(2, 10, start_offset=0)
    return led


def followed(led: Led, index: int, start: int) -> None:
    led.broker.replicas.partition("v", index).follower_at(2, 10, start_offset=start)


def begin(led: Led, request: DeleteRecordsRequest) -> asyncio.Task[Any]:
    return asyncio.ensure_future(led.broker.call(delete_records, request))


async def test_the_response_is_that_of_one_turn(many: Led, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of(
        {"u": [(0, 3), (1, 11), (0, 4), (7, 0)], "absent": [(0, 0)], "v": [(0, 5), (1, -1)], "empty": []}
    )

    async def answered() -> tuple[int, bytes]:
        counted = CountedTurns()
        context = many.broker.context(2)
        response = await resolved(delete_records.API.handle(request, context))
        counted.stop()
        body = bytes(encode(response, 2))
        assert context.charged is None or context.charged == [body]
        return counted.count, body

    with monkeypatch.context() as patch:
        patch.setattr(delete_records, "SLICE_PARTITIONS", 100)
        turns, at_once = await answered()
    again, body = await answered()
    assert body == at_once and again >= turns + 5
    assert found_in(decode(DeleteRecordsResponse, 2, body)[0]) == {
        ("u", 0): (0, 4),
        ("u", 1): (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        ("u", 7): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("absent", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("v", 0): (ErrorCode.REQUEST_TIMED_OUT, 0),
        ("v", 1): (ErrorCode.REQUEST_TIMED_OUT, 0),
    }


async def test_partitions_that_change_between_two_slices_are_taken_as_they_are_then(many: Led) -> None:
    deleting = begin(many, request_of({"t": [(0, 20)], "u": [(0, 2), (1, 2)], "v": [(0, 2), (1, 2)]}, LONG_MS))
    while many.broker.replicas.partition("u", 0).log.log_start_offset != 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    many.broker.replicas.partition("u", 0).fence()  # too late for this one, whose records are deleted
    many.broker.replicas.partition("u", 1).fence()
    many.broker.replicas.partition("v", 0).fence()
    while many.broker.replicas.partition("v", 1).log.log_start_offset != 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    followed(many, 1, 2)
    lost = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert found_in(await deleting) == {
        ("t", 0): (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        ("u", 0): (0, 2),
        ("u", 1): (lost, -1),
        ("v", 0): (lost, -1),
        ("v", 1): (0, 2),
    }


async def test_a_follower_that_deletes_them_between_two_slices_is_seen(many: Led) -> None:
    deleting = begin(many, request_of({"v": [(0, 5), (1, 5)], "u": [(0, 1), (1, 1)]}, LONG_MS))
    while many.broker.replicas.partition("v", 0).log.log_start_offset != 5:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert many.broker.replicas.partition("v", 1).log.log_start_offset == 0
    followed(many, 0, 5)
    await until(lambda: many.broker.replicas.partition("v", 1).log.log_start_offset == 5)
    await asyncio.sleep(0.01)
    assert not deleting.done()
    followed(many, 1, 5)
    assert found_in(await deleting) == {("v", 0): (0, 5), ("v", 1): (0, 5), ("u", 0): (0, 1), ("u", 1): (0, 1)}


async def test_a_partition_that_changes_again_is_done_once(many: Led) -> None:
    deleting = begin(many, request_of({"v": [(0, 5), (1, 5)]}, LONG_MS))
    await until(lambda: many.broker.replicas.partition("v", 1).log.log_start_offset == 5)
    for start in (5, 6):
        followed(many, 0, start)
        await asyncio.sleep(0.01)
    assert not deleting.done()
    followed(many, 1, 5)
    assert found_in(await deleting) == {("v", 0): (0, 5), ("v", 1): (0, 5)}


@pytest.mark.parametrize("is_slow", [False, True], ids=["in time", "too late"])
async def test_the_leadership_of_one_of_many_is_lost_while_others_are_waited_for(many: Led, is_slow: bool) -> None:
    deleting = begin(many, request_of({"v": [(0, 5), (1, 5)]}, 300 if is_slow else LONG_MS))
    await until(lambda: many.broker.replicas.partition("v", 1).log.log_start_offset == 5)
    many.broker.replicas.partition("v", 0).fence()
    if not is_slow:
        followed(many, 1, 7)
    second = (int(ErrorCode.REQUEST_TIMED_OUT), 0) if is_slow else (0, 5)
    assert found_in(await deleting) == {("v", 0): (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), ("v", 1): second}


@pytest.mark.parametrize("timeout_ms", [0, LONG_MS], ids=["too late", "cancelled"])
async def test_nobody_listens_to_the_partitions_afterwards(many: Led, timeout_ms: int) -> None:
    deleting = begin(many, request_of({"v": [(0, 5), (1, 5)]}, timeout_ms))
    partitions = [many.broker.replicas.partition("v", index) for index in range(2)]
    if timeout_ms:
        await until(lambda: all(each._listeners for each in partitions))
        deleting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await deleting
    else:
        await deleting
    assert not any(each._listeners for each in partitions)
