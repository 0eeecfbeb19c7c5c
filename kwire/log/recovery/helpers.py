"""Recovery of many partitions at once by helper processes: `RecoveryHelpers` is the broker's side.

Checking batches is pure Python, which threads of one process cannot do in parallel. So partitions go in parcels to
`num.recovery.threads.per.data.dir` processes for each directory (not more than there are processors), the largest
first. The broker itself recovers the partitions of a helper that died or met an OSError. The work is in
`recovery.worker`, the messages are in `recovery.messages`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from kwire.base.doors import Doors, Files
from kwire.base.processes.helpers import HelperDied, HelperProcess
from kwire.log.common import names
from kwire.log.common.log_config import INT64_MAX
from kwire.log.recovery.messages import PartitionsRecovered, RecoverPartitions, RecoveryReport, UncleanPartition

MODULE: Final = "kwire.log.recovery.worker"

PARCEL_BYTES: Final = 64 << 20
PARCEL_PARTITIONS: Final = 32

PARTITION_BYTES_MIN: Final = 1 << 20
"""Smaller partitions are recovered by the broker, beside the helpers: handing them over takes as long."""

WORTHWHILE_BYTES: Final = 64 << 20
"""For less, starting a process takes longer than the work."""


def bytes_to_scan(files: Files, directory: str, recovery_point: int) -> int:
    """How many bytes of a partition recovery will read: its segments from the recovery point on. OSError."""
    found = sorted(
        parsed[0]
        for parsed in map(names.parse_file_name, files.listdir(directory))
        if parsed is not None and parsed[1] == names.LOG_SUFFIX
    )
    ends = [*found[1:], INT64_MAX]
    dirty = [base for base, end in zip(found, ends, strict=False) if end > recovery_point]
    return sum(files.stat(f"{directory}/{names.file_name(base, names.LOG_SUFFIX)}").st_size for base in dirty)


def are_worthwhile(doors: Doors, unclean: list[UncleanPartition]) -> bool:
    """Whether helpers would finish sooner than the broker alone."""
    if doors.processes is None or len(unclean) < 2:
        return False
    return sum(each.bytes for each in unclean) >= WORTHWHILE_BYTES


class RecoveryHelpers:
    """Processes that recover partitions. ``on_done(place, report)`` is called for each partition as it is done, with
    None for one that the broker has to recover itself."""

    def __init__(
        self,
        doors: Doors,
        count: int,
        producer_expiration_ms: int,
        on_done: Callable[[int, RecoveryReport | None], None],
    ) -> None:
        self._doors = doors
        self._count = max(min(count, os.cpu_count() or 1), 1)
        self._producer_expiration_ms = producer_expiration_ms
        self._on_done = on_done

    async def run(self, unclean: list[UncleanPartition]) -> None:
        """Recover partitions; return when all are done."""
        parcels = _parcels(unclean)
        await asyncio.gather(*[self._work(unclean, parcels) for _ in range(min(self._count, len(parcels)))])

    async def _work(self, unclean: list[UncleanPartition], parcels: list[list[int]]) -> None:
        process: HelperProcess[RecoverPartitions, PartitionsRecovered] | None = None
        try:
            while parcels:
                places = parcels.pop(0)
                reports: list[RecoveryReport | None] = [None] * len(places)
                try:
                    if process is None and self._doors.processes is not None:
                        process = self._doors.processes.start(MODULE)
                    if process is not None:
                        partitions = [unclean[place] for place in places]
                        request = RecoverPartitions(partitions, self._producer_expiration_ms)
                        reports = (await process.call(request)).reports
                except (HelperDied, OSError):
                    await self._end(process)
                    process = None
                for place, report in zip(places, reports, strict=True):
                    self._on_done(place, report)
                    await asyncio.sleep(0)
        finally:
            await self._end(process)

    async def _end(self, process: HelperProcess[RecoverPartitions, PartitionsRecovered] | None) -> None:
        if process is not None:
            await self._doors.executor.run(process.close)


def _parcels(unclean: list[UncleanPartition]) -> list[list[int]]:
    """The indexes of partitions in parcels, the largest partitions first."""
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
