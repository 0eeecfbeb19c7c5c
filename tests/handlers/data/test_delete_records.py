"""DeleteRecords waits for the followers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import until
from kwire.base.errors import ErrorCode
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.replication.partition import Partition
from kwire.cluster.store.keys import PartitionState
from kwire.codec.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.handlers.data import delete_records
from tests.cluster.helpers import Node, node
from tests.handlers.admin_broker import AdminBroker, admin_broker
from tests.log.log_tools import batch

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
