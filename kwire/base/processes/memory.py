"""Memory that was freed goes back to the system once the process is calm.

The C library keeps what it has freed between blocks that are still in use, for the next time; after a load with peaks
that is a good part of a broker's memory. To give it back takes from one to some tens of milliseconds, in which no
other thread can allocate, and a busy process would soon fetch it again. So it happens when there has been work, and
then next to none for a while. Young objects in cycles are collected first: they are few, and what they hold may be
large.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any, Final

LOOK_S: Final = 10.0
"""The time between two looks at what the process does."""

CALM_S: Final = 0.2
"""The process is calm if it has used less processor time between two looks."""

WORK_S: Final = 1.0
"""So much processor time since memory was last given back is worth the next time."""


class MemoryKeeper:
    """Gives back memory when the process is calm. ``call_later``: as an event loop's; ``cpu_s``: the processor time of
    this process in seconds; ``give_back``: does it, without making the loop wait."""

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], Any],
        cpu_s: Callable[[], float] = time.process_time,
        give_back: Callable[[], None] | None = None,
    ) -> None:
        self._call_later = call_later
        self._cpu_s = cpu_s
        self._give_back = give_back or give_back_soon
        self._given_back_at_s = self._looked_at_s = cpu_s()
        call_later(LOOK_S, self._look)

    def _look(self) -> None:
        now_s = self._cpu_s()
        if now_s - self._looked_at_s < CALM_S and now_s - self._given_back_at_s >= WORK_S:
            self._given_back_at_s = now_s
            gc.collect(1)  # a full collection would stop the loop for long, and what is old is seldom garbage
            self._give_back()
        self._looked_at_s = now_s
        self._call_later(LOOK_S, self._look)


def give_back_soon() -> None:
    """`give_back`, in a thread."""
    threading.Thread(target=give_back, name="kwire-memory", daemon=True).start()


def give_back() -> None:
    """Give back what this process has freed, if its C library can do that (glibc)."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
