"""The changes of a share partition are written in their order, and those that wait together in one request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.handlers.share.writing import Outcome, StateWriter
from kwire.share.partition import SharePartition, Write
from kwire.share.values import Acknowledgement, FetchedBatch, Limits, PersistedState


def changes(count: int) -> list[Write]:
    """Changes of one share partition: the acceptance of one record each."""
    machine = SharePartition(lambda: Limits(100, 5, 1000, True), PersistedState(0, 0, []))
    batches = [FetchedBatch(offset, offset) for offset in range(count)]
    machine.acquire("m", batches, fetch_offset=0, max_records=count, batch_size=1, record_limit=False, now_ms=0)
    writes = [machine.acknowledge("m", [Acknowledgement(offset, offset, [1])], 0) for offset in range(count)]
    return [write for write in writes if write is not None]


class Sent:
    """A share coordinator that answers when it is told to."""

    def __init__(self) -> None:
        self.requests: list[list[Write]] = []
        self.completed: list[tuple[Write, Outcome]] = []
        self._answers: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.writer = StateWriter(
            self._send, lambda write, outcome: self.completed.append((write, outcome)), self._spawn
        )

    async def _send(self, writes: Sequence[Write]) -> None:
        self.requests.append(list(writes))
        self._answers.append(asyncio.get_running_loop().create_future())
        await self._answers[-1]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def answer(self, number: int, error: Exception | None = None) -> None:
        """Answer a request, once it was sent."""
        await self.until(lambda: len(self._answers) > number)
        if error is None:
            self._answers[number].set_result(None)
        else:
            self._answers[number].set_exception(error)


async def test_a_change_waits_for_those_before_it() -> None:
    sent, (first, second, third) = Sent(), changes(3)
    outcomes = [sent.writer.write(first)]
    await sent.until(lambda: len(sent.requests) == 1)
    outcomes += [sent.writer.write(second), sent.writer.write(third)]
    assert sent.writer.is_writing
    await sent.answer(0)
    await sent.answer(1)
    assert await asyncio.gather(*outcomes) == [None, None, None]
    assert sent.requests == [[first], [second, third]]
    assert [write for write, _ in sent.completed] == [first, second, third]
    await sent.writer.idle()
    assert not sent.writer.is_writing


async def test_a_change_that_cannot_be_written_does_not_take_later_ones_with_it() -> None:
    sent, (first, second, third) = Sent(), changes(3)
    outcomes = [sent.writer.write(first)]
    await sent.until(lambda: len(sent.requests) == 1)
    outcomes.append(sent.writer.write(second))
    await sent.answer(0, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    await sent.answer(1, ValueError("unforeseen"))
    codes = [error and error.code for error in await asyncio.gather(*outcomes)]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR]
    later = sent.writer.write(third)
    await sent.answer(2)
    assert await later is None
