"""Progress while logs are loaded: a log line every few seconds with partitions, bytes and the time left."""

from __future__ import annotations

from typing import Final, Protocol

from kwire.base.doors import Clock
from kwire.log.common.environment import logger

EVERY_S: Final = 5.0


class LogProgress(Protocol):
    """Called after every partition with the partitions done and in all, and the bytes scanned so far."""

    def __call__(self, done: int, total: int, scanned_bytes: int, /) -> None:
        """Report progress."""


class LoadProgress:
    """Counts partitions and bytes. ``total_bytes`` is how much recovery will scan, as far as known before."""

    def __init__(self, clock: Clock, total: int, total_bytes: int, listener: LogProgress | None) -> None:
        self._clock = clock
        self._listener = listener
        self._begin_s = self._logged_s = clock.monotonic()
        self.total = total
        self.total_bytes = total_bytes
        self.done = 0
        self.bytes = 0

    def scanned(self, size: int) -> None:
        """Add bytes that were scanned."""
        self.bytes += size
        now_s = self._clock.monotonic()
        if now_s - self._logged_s >= EVERY_S:
            self._logged_s = now_s
            logger.info(
                "recovering logs",
                done=self.done,
                total=self.total,
                scanned_bytes=self.bytes,
                total_bytes=self.total_bytes,
                seconds_left=self.seconds_left(),
            )

    def opened(self) -> None:
        """Add a partition that was opened."""
        self.done += 1
        self.scanned(0)
        if self._listener is not None:
            self._listener(self.done, self.total, self.bytes)

    def seconds_left(self) -> int | None:
        """An estimate by bytes, or by partitions if there are none to scan; None before anything is done."""
        passed = self._clock.monotonic() - self._begin_s
        whole, part = (self.total_bytes, self.bytes) if self.total_bytes else (self.total, self.done)
        return None if not part else max(round(passed * (whole - part) / part), 0)
