"""Who works on records for the cleaner: a helper process, or this one where there are no others (the simulation)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kwire.base.doors import Doors
from kwire.base.processes import HelperDied, HelperProcess

if TYPE_CHECKING:
    from kwire.log.compaction.job import CleaningJob

Message = dict[str, Any]

MODULE = "kwire.log.compaction.worker"


class CleanerHelper:
    """Answers the requests of `cleaner_job`. The process is started by the first one and ends with `stop`."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        self._process: HelperProcess | None = None
        self._inline: CleaningJob | None = None
        self._killed = False

    @property
    def running(self) -> bool:
        return self._process is not None or self._inline is not None

    async def call(self, request: Message) -> Message:
        """HelperDied, also where `kill` cut the work off; OSError if there is no process to be had."""
        self._killed = False
        if self._doors.processes is None:
            return await self._call_inline(request)
        if self._process is None:
            self._process = self._doors.processes.start(MODULE)
        try:
            return await self._process.call(request)
        except BaseException:  # an answer may still be on its way: nothing more can be asked
            await self.stop()
            raise

    async def _call_inline(self, request: Message) -> Message:
        if self._inline is None:
            from kwire.log.compaction.job import CleaningJob

            self._inline = CleaningJob(self._doors.files)
        steps = self._inline.run(request)
        rate = float(request.get("bytes_per_second") or 0.0)
        try:
            while True:
                done = next(steps)
                await asyncio.sleep(done / rate if rate > 0 else 0)
                if self._killed:
                    raise HelperDied("it was told to stop")
        except StopIteration as end:
            answer: Message = end.value
            return answer
        finally:
            steps.close()

    def kill(self) -> None:
        """Stop at once what is under way."""
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
