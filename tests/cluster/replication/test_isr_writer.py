"""A leader's changes of the ISR on their way to the store."""

from __future__ import annotations

import asyncio

import pytest

from harness.waiting import until
from kwire.cluster.controller.membership import plain_rules
from kwire.cluster.replication.isr_writer import IsrWriter
from kwire.cluster.store.store import SessionLost
from tests.cluster.helpers import node


class Asking:
    """A partition that the image does not have, so that what it asks for is refused."""

    topic, index, leader_epoch, partition_epoch = "unknown", 0, 0, 0

    def __init__(self):
        self.refused = 0

    def isr_refused(self):
        self.refused += 1


@pytest.fixture
async def writer():
    broker = await node()
    writer = IsrWriter(broker.store, broker.metadata, 1, plain_rules)
    yield writer
    await writer.close()


async def test_what_is_asked_for_while_the_last_writing_has_just_ended_is_decided_too(writer: IsrWriter):
    first, second = Asking(), Asking()
    writer.propose(first, (1, 2))
    asyncio.get_running_loop().call_soon(
        writer.propose, second, (1, 2)
    )  # runs between the task's end and its callbacks
    await until(lambda: second.refused)
    assert first.refused == second.refused == 1


async def test_a_change_that_can_never_come_true_can_be_asked_for_anew(writer: IsrWriter, monkeypatch):
    async def lost(_batch):
        raise SessionLost

    monkeypatch.setattr(writer, "_write", lost)
    asking = Asking()
    writer.propose(asking, (1, 2))
    await until(lambda: asking.refused)
