"""Recovery of many partitions at once, by helper processes: `RecoveryHelpers` is the broker's side.

Checking batches is Python's work, which threads of one process cannot share out; so partitions go in parcels to
`num.recovery.threads.per.data.dir` processes for each directory (not more than there are processors), the largest ones
first. What a helper has not done (it died, its disk failed), the broker does itself. The work is `recovery_worker`'s.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from kwire.base.doors import Doors, Files
from kwire.base.processes import HelperDied, HelperProcess
from kwire.log.common import names
from kwire.log.common.log_config import INT64_MAX, LogConfig
from kwire.log.recovery.recovery import LogRecovery
from kwire.log.segment.damage import Damage

MODULE: Final = "kwire.log.recovery.worker"

PARCEL_BYTES: Final = 64 << 20
PARCEL_PARTITIONS: Final = 32

PARTITION_BYTES_MIN: Final = 1 << 20
"""What is smaller the broker does itself, beside the helpers: to have it done takes as long."""

WORTHWHILE_BYTES: Final = 64 << 20
"""For less, starting a process takes longer than the work."""


@dataclass(slots=True)
class Unclean:
    """A partition that was not closed in order, and how much of it is to be looked at."""

    directory: str
    name: str
    config: LogConfig
    recovery_point: int
    log_start_offset: int
    cleaned_to: int
    bytes: int


@dataclass(slots=True)
class Recovered:
    """What a helper has found and put right on disk; `apply` tells it to a log that is opened as clean."""

    complaints: list[str]
    recovery_point: int
    log_start_offset: int
    log_end_offset: int
    verified: list[int]
    bad: dict[str, list[list[Any]]]
    rebuilt: list[int]

    def apply(self, opened: LogRecovery) -> None:
        opened.complaints[:0] = self.complaints
        opened.recovery_point = min(self.recovery_point, opened.log_end_offset)
        for segment in opened.segments:
            if segment.base_offset in self.verified:
                segment.trust_all()
            segment.bad = [Damage(*each) for each in self.bad.get(str(segment.base_offset), [])]
        opened.rebuilt = [segment for segment in opened.segments if segment.base_offset in self.rebuilt]


def bytes_to_scan(files: Files, directory: str, recovery_point: int) -> int:
    """How much of a partition recovery will read: its segments from the recovery point's on. OSError."""
    found = sorted(
        parsed[0]
        for parsed in map(names.parse_file_name, files.listdir(directory))
        if parsed is not None and parsed[1] == names.LOG_SUFFIX
    )
    ends = [*found[1:], INT64_MAX]
    dirty = [base for base, end in zip(found, ends, strict=False) if end > recovery_point]
    return sum(files.stat(f"{directory}/{names.file_name(base, names.LOG_SUFFIX)}").st_size for base in dirty)


def are_worthwhile(doors: Doors, unclean: list[Unclean]) -> bool:
    """Whether helpers would be done sooner than the broker alone."""
    if doors.processes is None or len(unclean) < 2:
        return False
    return sum(each.bytes for each in unclean) >= WORTHWHILE_BYTES


class RecoveryHelpers:
    """Some processes that recover partitions; ``on_done(place, recovered)`` is called for each as it is done, with
    None for one that the broker has to do itself."""

    def __init__(
        self,
        doors: Doors,
        count: int,
        producer_expiration_ms: int,
        on_done: Callable[[int, Recovered | None], None],
    ) -> None:
        self._doors = doors
        self._count = max(min(count, os.cpu_count() or 1), 1)
        self._producer_expiration_ms = producer_expiration_ms
        self._on_done = on_done

    async def run(self, unclean: list[Unclean]) -> None:
        """Until all are done."""
        parcels = _parcels(unclean)
        await asyncio.gather(*[self._work(unclean, parcels) for _ in range(min(self._count, len(parcels)))])

    async def _work(self, unclean: list[Unclean], parcels: list[list[int]]) -> None:
        process: HelperProcess | None = None
        try:
            while parcels:
                places = parcels.pop(0)
                answers: list[dict[str, Any] | None] = [None] * len(places)
                try:
                    if process is None and self._doors.processes is not None:
                        process = self._doors.processes.start(MODULE)
                    if process is not None:
                        request = {"partitions": [self._request(unclean[place]) for place in places]}
                        answers = (await process.call(request))["partitions"]
                except (HelperDied, OSError):
                    await self._end(process)
                    process = None
                for place, answer in zip(places, answers, strict=True):
                    self._on_done(place, None if answer is None else Recovered(**answer))
                    await asyncio.sleep(0)
        finally:
            await self._end(process)

    def _request(self, each: Unclean) -> dict[str, Any]:
        return {**asdict(each), "producer_expiration_ms": self._producer_expiration_ms}

    async def _end(self, process: HelperProcess | None) -> None:
        if process is not None:
            await self._doors.executor.run(process.close)


def _parcels(unclean: list[Unclean]) -> list[list[int]]:
    """The places of partitions in parcels, the largest partitions first."""
    parcels: list[list[int]] = []
    room = 0
    for place in sorted(range(len(unclean)), key=lambda place: -unclean[place].bytes):
        size = unclean[place].bytes
        if not parcels or len(parcels[-1]) >= PARCEL_PARTITIONS or size > room:
            parcels.append([])
            room = PARCEL_BYTES
        parcels[-1].append(place)
        room -= size
    return parcels
