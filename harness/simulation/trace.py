"""The trace of a simulation: every event that passes a door, folded into one hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from zlib import crc32

Buffer = bytes | bytearray | memoryview


class Trace:
    """Folds events into a hash. ``keep``: how many of the newest events stay readable, to search for a difference."""

    def __init__(self, now: Callable[[], float], keep: int = 0) -> None:
        self._now = now
        self._hash = hashlib.blake2b(digest_size=16)
        self._keep = keep
        self.events = 0
        self.kept: list[str] = []

    def record(self, kind: str, *facts: object, data: Buffer | None = None) -> None:
        """Record one event: its time, kind and facts, and the checksum of the bytes that moved."""
        line = f"{self._now():.9f} {kind} {facts}"
        if data is not None:
            line += f" {len(data)} {crc32(data):08x}"
        self._hash.update(line.encode())
        self.events += 1
        if self._keep:
            self.kept.append(line)
            del self.kept[: -self._keep]

    def digest(self) -> str:
        """The hash of all events so far."""
        return self._hash.hexdigest()
