"""`CpuTime`: what a piece of code costs, whatever else its process does.

    with CpuTime() as spent:
        ...
    assert spent.seconds < 0.5

Only the CPU time of this thread counts, and no garbage collection runs meanwhile: in a process that holds all unit
tests, a full collection alone takes more than half a second.
"""

from __future__ import annotations

import gc
import time
from typing import Self


class CpuTime:
    """``seconds``: the CPU time of the ``with`` block, once it has ended, also with an exception."""

    __slots__ = ("_collects", "_started", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._collects = False
        self._started = 0.0

    def __enter__(self) -> Self:
        self._collects = gc.isenabled()
        gc.disable()
        self._started = time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.thread_time() - self._started
        if self._collects:
            gc.enable()
