"""Transactions that end while requests of theirs are pending: late verifications, lost markers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from harness.waiting import until
from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.transactions.markers import MarkerWriter
from kwire.coordinator.transactions.remote_markers import Marker
from kwire.handlers.transactions import txn_offset_commit
from tests.handlers.transactions.test_transactions import (
    NEW,
    OLD,
    Client,
    client_of_a_broker,
    committed_offset,
    offsets,
)

NONE = ErrorCode.NONE


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with client_of_a_broker(tmp_path) as opened:
        yield opened


class Delayed:
    """The coordinator's results of one operation, held back until `go` is called."""

    def __init__(self, client: Client, operation: str) -> None:
        self._transactions = client.broker.services.transactions
        self._operation = operation
        self._go: asyncio.Event = asyncio.Event()
        self.verified = asyncio.Event()

    def patched(self) -> Any:
        real = getattr(self._transactions, self._operation)

        async def late(result: Any) -> Any:
            if isinstance(result, asyncio.Future):
                result = await result
            self.verified.set()
            await self._go.wait()
            return result

        return patch.object(
            self._transactions, self._operation, lambda *arguments: asyncio.ensure_future(late(real(*arguments)))
        )

    def go(self) -> None:
        self._go.set()


async def end_in_between(client: Client, delayed: Delayed, who: Any, pending: asyncio.Future[Any], version: int) -> Any:
    """The verification of a request completes when the transaction has already ended."""
    await delayed.verified.wait()
    assert (await client.end(who, commit=False, version=version)).error_code == NONE
    await until(lambda: client.state().state.text == "CompleteAbort")
    delayed.go()
    return await pending


async def nothing_is_open(client: Client) -> bool:
    end = client.broker.replicas.partition("t", 0).log
    return end.last_stable_offset == end.log_end_offset


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_write_that_was_verified_before_the_end_is_refused_after_it(client: Client, version: int) -> None:
    who = await client.init()
    if version == OLD:
        await client.add(who, 0)
    delayed = Delayed(client, "verify" if version == OLD else "add_partitions")
    with delayed.patched():
        pending = asyncio.ensure_future(client.write(who, 0, version=version))
        error = await end_in_between(client, delayed, who, pending, 4 if version == OLD else 5)
    assert error in (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert await nothing_is_open(client)


@pytest.mark.parametrize("version", [3, 5])
async def test_offsets_verified_before_the_end_are_refused_after_it(client: Client, version: int) -> None:
    who = await client.begin_offsets(version)
    delayed = Delayed(client, "verify" if version < 5 else "add_partitions")
    with delayed.patched():
        pending = asyncio.ensure_future(client.ask(txn_offset_commit, offsets(who, 5), version))
        response = await end_in_between(client, delayed, who, pending, 4 if version < 5 else 5)
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_TXN_STATE
    assert await committed_offset(client) == (-1, 0)


@pytest.mark.parametrize("commit", [True, False])
async def test_a_marker_that_was_lost_with_its_leader_is_written_again(client: Client, commit: bool) -> None:
    who = await client.init()
    await client.add(who, 0, 1)
    await client.write(who, 0)
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    lost.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    written: list[list[Any]] = []
    write = MarkerWriter.write

    def losing(self: MarkerWriter, marker: Marker, partitions: Any) -> Any:
        written.append(list(partitions))
        if len(written) > 1:
            return write(self, marker, written[-1])
        return dict.fromkeys(written[-1], NONE), {("t", 0): lost}

    with patch.object(MarkerWriter, "write", losing):
        assert (await client.end(who, commit=commit)).error_code == NONE
        await until(lambda: client.state().state.text.startswith("Complete"))
    assert written == [[("t", 0), ("t", 1)], [("t", 0)]]
    assert await client.values() == ([b"v"] if commit else [])
    assert await nothing_is_open(client)


async def test_a_transaction_is_complete_only_when_all_its_markers_are_committed(client: Client) -> None:
    who = await client.init()
    await client.add(who, 0, 1)
    await client.write(who, 0)
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    write = MarkerWriter.write

    def slow(self: MarkerWriter, marker: Marker, partitions: Any) -> Any:
        errors, commits = write(self, marker, partitions)
        return errors, {**commits, ("t", 1): waiting}

    with patch.object(MarkerWriter, "write", slow):
        assert (await client.end(who, commit=True)).error_code == NONE
        for _ in range(5):
            await asyncio.sleep(0)
            assert client.state().state.text == "PrepareCommit"
        assert (await client.add(who, 0)) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        waiting.set_result(None)
        await until(lambda: client.state().state.text == "CompleteCommit")
