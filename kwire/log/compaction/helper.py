"""Where the cleaner's records are processed: in a helper process, or inline where there are none (the simulation)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kwire.base.doors import Doors
from kwire.base.processes.helpers import HelperDied, HelperProcess
from kwire.log.compaction.messages import CleaningRequest, CleaningResponse

if TYPE_CHECKING:
    from kwire.log.compaction.job import CleaningJob

MODULE = "kwire.log.compaction.worker"


class CleanerHelper:
    """Carries out the requests of `compaction.messages`. The first request starts the process, `stop` ends it."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._process: HelperProcess[CleaningRequest, CleaningResponse] | None = None
        self._inline: CleaningJob | None = None
        self._killed = False

    @property
    def running(self) -> bool:
        """Whether there is a process (or an inline job) that may hold an offset map."""
        return self._process is not None or self._inline is not None

    async def call(self, request: CleaningRequest, bytes_per_second: float = 0.0) -> CleaningResponse:
        """Carry out a request at a limited rate (0: no limit). HelperDied, also after `kill`; OSError if the process
        cannot be started."""
        self._killed = False
        if self._doors.processes is None:
            return await self._call_inline(request, bytes_per_second)
        if self._process is None:
            self._process = self._doors.processes.start(MODULE)
        try:
            return await self._process.call(request, bytes_per_second)
        except BaseException:  # a late response would be taken for that of the next request
            await self.stop()
            raise

    async def _call_inline(self, request: CleaningRequest, bytes_per_second: float) -> CleaningResponse:
        if self._inline is None:
            from kwire.log.compaction.job import CleaningJob

            self._inline = CleaningJob(self._doors.files)
        steps = self._inline.run(request)
        try:
            while True:
                done = next(steps)
                await asyncio.sleep(done / bytes_per_second if bytes_per_second > 0 else 0)
                if self._killed:
                    raise HelperDied("it was killed")
        except StopIteration as end:
            response: CleaningResponse = end.value
            return response
        finally:
            steps.close()

    def kill(self) -> None:
        """Stop the work under way at once."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    async def stop(self) -> None:
        """End the process, if there is one."""
        self._inline = None
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await self._doors.executor.run(process.close)
