"""Compressing large batches anew (`compression.type` of the topic): what has to be done, and the child that does it.

A batch of 10 MB takes half a second in Python. On a thread that would make every request of other clients wait for the
interpreter's lock, several times each. So a helper process of low priority does it, and the bytes go there and back
through memory that both share; on the event loop there is only the message that they are there. It is started for the
first batch and ends when there was nothing to do for `IDLE_S`. Batches wait for each other. What lives elsewhere: the
child (`recompression_worker`), which batches these are (`validator`).
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.buffers import buffer_of
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.logging import get_logger
from kwire.base.processes.helpers import HelperDied, HelperProcess
from kwire.log.partition.validator import BatchValidator

if TYPE_CHECKING:
    from kwire.base.doors import Doors, Files
    from kwire.log.common.log_config import LogConfig

MODULE: Final = "kwire.log.partition.recompression_worker"

IDLE_S: Final = 60.0

_logger = get_logger("kwire.log")


class Recompress(NamedTuple):
    """Read a batch of ``size`` bytes from the shared memory, and put the one to append in its place; the response is
    its size, or why the batch is refused. ``name``: the partition's."""

    size: int
    config: LogConfig
    name: str
    now_ms: int


class Recompression(NamedTuple):
    """A client's batch that has to be compressed anew before it is appended to a log."""

    records: memoryview
    config: LogConfig
    name: str
    now_ms: int

    def carry_out(self) -> memoryview:
        """What to append in its place; on any thread. KafkaError, which the append itself would raise."""
        return recompressed(self.records, self.config, self.name, self.now_ms)


def recompressed(records: memoryview, config: LogConfig, name: str, now_ms: int) -> memoryview:
    """The batch in the form in which a log of this configuration takes it at once. KafkaError."""
    return memoryview(BatchValidator(config, name, lambda: now_ms).accept(records).data)


class Recompressor:
    """Has batches compressed anew by one helper process, one after the other; where there are none (the simulation), or
    it has died, by a thread."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._turn = asyncio.Lock()
        self._process: HelperProcess[Recompress, int | KafkaError] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._ending: asyncio.Future[None] | None = None
        self._closed = False

    async def run(self, wanted: Recompression) -> memoryview:
        """What to append in the batch's place. KafkaError if it is refused."""
        if self._doors.processes is None:
            return await self._doors.executor.run(wanted.carry_out)
        # A client that goes away must not leave a response behind, which would be taken for that of the next request.
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(wanted)))

    async def _in_turn(self, wanted: Recompression) -> memoryview:
        async with self._turn:
            self._check_open()
            self._keep()
            try:
                return await self._by_helper(wanted)
            except (HelperDied, OSError) as error:
                await self._end()
                self._check_open()
                _logger.warning("a batch is compressed without a helper process", reason=str(error))
            finally:
                if self._process is not None:
                    self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._on_idle)
        return await self._doors.executor.run(wanted.carry_out)

    def _check_open(self) -> None:
        if self._closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def _by_helper(self, wanted: Recompression) -> memoryview:
        doors = self._doors
        if self._process is None:
            assert doors.processes is not None
            self._process = doors.processes.start(MODULE, shares=True)
        process, records = self._process, wanted.records
        assert process.area is not None
        await doors.executor.run(write_area, doors.files, process.area, records)
        size = await process.call(Recompress(len(records), wanted.config, wanted.name, wanted.now_ms))
        if isinstance(size, KafkaError):
            raise size
        return await doors.executor.run(take_area, doors.files, process.area, size)

    def _keep(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _on_idle(self) -> None:
        self._idle = None
        self._ending = asyncio.ensure_future(self._end_idle())

    async def _end_idle(self) -> None:
        async with self._turn:
            if self._idle is None:
                await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await self._doors.executor.run(process.close)

    async def close(self) -> None:
        """End the process; batches that wait get an error."""
        self._closed = True
        if self._process is not None:
            self._process.kill()
        async with self._turn:  # nothing uses the shared memory any more
            self._keep()
            await self._end()


def write_area(files: Files, area: int, data: bytes | bytearray | memoryview) -> None:
    """Put data in the place of what is in the shared memory. OSError."""
    files.ftruncate(area, 0)
    rest, position = memoryview(data), 0
    while rest:
        written = files.pwrite(area, rest, position)
        rest, position = rest[written:], position + written


def take_area(files: Files, area: int, size: int) -> memoryview:
    """The ``size`` bytes that are in the shared memory, which is given back. OSError."""
    data = memoryview(buffer_of(size))[:size]
    rest, position = data, 0
    while rest:
        read = files.preadv(area, [rest], position)
        if not read:
            raise OSError(errno.EIO, "the shared memory ends early")
        rest, position = rest[read:], position + read
    files.ftruncate(area, 0)
    return data
