"""What is told while logs are loaded: a line every few seconds with partitions, bytes and the time that is left."""

from __future__ import annotations

from typing import Final, Protocol

from kwire.base.doors import Clock
from kwire.log.common.environment import logger

EVERY_S: Final = 5.0


class LogProgress(Protocol):
    """Told after every partition: partitions done and in all, bytes scanned so far."""

    def __call__(self, done: int, total: int, scanned_bytes: int, /) -> None: ...


class LoadProgress:
    """Counts. ``total_bytes`` is what is to be scanned where recovery is needed, as far as it is known before."""

    def __init__(self, clock: Clock, total: int, total_bytes: int, listener: LogProgress | None) -> None:
        self._clock = clock
        self._listener = listener
        self._begin_s = self._told_s = clock.monotonic()
        self.total = total
        self.total_bytes = total_bytes
        self.done = 0
        self.bytes = 0

    def scanned(self, size: int) -> None:
        """So many bytes were checked."""
        self.bytes += size
        now_s = self._clock.monotonic()
        if now_s - self._told_s >= EVERY_S:
            self._told_s = now_s
            logger.info(
                "recovering logs",
                done=self.done,
                total=self.total,
                scanned_bytes=self.bytes,
                total_bytes=self.total_bytes,
                seconds_left=self.seconds_left(),
            )

    def opened(self) -> None:
        """A partition is done."""
        self.done += 1
        self.scanned(0)
        if self._listener is not None:
            self._listener(self.done, self.total, self.bytes)

    def seconds_left(self) -> int | None:
        """By the bytes where there are any to scan, else by the partitions; None as long as nothing is done."""
        passed = self._clock.monotonic() - self._begin_s
        whole, part = (self.total_bytes, self.bytes) if self.total_bytes else (self.total, self.done)
        return None if not part else max(round(passed * (whole - part) / part), 0)
