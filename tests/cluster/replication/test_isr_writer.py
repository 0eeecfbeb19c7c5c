"""Writing a leader's ISR changes to the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from harness.waiting import until
from kwire.base.metrics import MetricsRegistry
from kwire.cluster.controller.plan import SHARDS_MAX
from kwire.cluster.replication.isr_writer import IsrWriter
from kwire.cluster.store.store import SessionLost
from tests.cluster.helpers import default_rules, node


class UnknownPartition:
    """A partition that the image does not have, so that its proposals are refused."""

    topic, index, leader_epoch, partition_epoch = "unknown", 0, 0, 0

    def __init__(self) -> None:
        self.refused = 0

    def isr_refused(self) -> None:
        self.refused += 1


@pytest.fixture
async def writer() -> AsyncIterator[IsrWriter]:
    broker = await node()
    writer = IsrWriter(broker.store, broker.metadata, 1, default_rules, MetricsRegistry())
    yield writer
    await writer.close()


async def test_a_proposal_between_the_end_of_a_task_and_its_callbacks_is_decided(writer: IsrWriter) -> None:
    first: Any = UnknownPartition()
    second: Any = UnknownPartition()
    writer.propose(first, (1, 2))
    asyncio.get_running_loop().call_soon(
        writer.propose, second, (1, 2)
    )  # runs between the task's end and its callbacks
    await until(lambda: second.refused)
    assert first.refused == second.refused == 1


async def test_an_isr_can_be_proposed_again_after_the_session_was_lost(
    writer: IsrWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(_batch: object) -> None:
        raise SessionLost

    monkeypatch.setattr(writer, "_write", lost)
    partition: Any = UnknownPartition()
    writer.propose(partition, (1, 2))
    await until(lambda: partition.refused)


async def test_one_commit_writes_no_more_shards_than_the_store_accepts(
    writer: IsrWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    async def count(batch: dict[Any, object]) -> None:
        sizes.append(len(batch))

    monkeypatch.setattr(writer, "_write", count)
    for number in range(SHARDS_MAX + 5):
        for index in (0, 1):
            partition: Any = UnknownPartition()
            partition.topic, partition.index = f"t{number}", index
            writer.propose(partition, (1, 2))
    await until(lambda: len(sizes) == 2)
    assert sizes == [2 * SHARDS_MAX, 10]
