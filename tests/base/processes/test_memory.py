"""Freed memory goes back to the system when there has been work and then calm."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable

from kwire.base.processes.memory import LOOK_S, MemoryKeeper

FREED = """
import os
from kwire.base.processes.memory import give_back
from harness.inspection.process_usage import own_mb
blocks = [bytes(20_000) for _ in range(5_000)]
del blocks[::2]  # 50 MB, in holes
before = own_mb(os.getpid())
give_back()
print(before - own_mb(os.getpid()))
"""


class Process:
    """A process whose processor time is told, and the looks of its keeper."""

    def __init__(self) -> None:
        self.cpu_s = 0.3
        self.given_back = 0
        self._next: Callable[[], None] | None = None
        MemoryKeeper(self._call_later, lambda: self.cpu_s, self._give_back)

    def _call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        assert delay_s == LOOK_S
        self._next = action

    def _give_back(self) -> None:
        self.given_back += 1

    def work(self, *seconds: float) -> int:
        """Use so much processor time before each look. Returns how often memory has been given back."""
        for each in seconds:
            self.cpu_s += each
            assert self._next is not None
            self._next()
        return self.given_back


def test_nothing_happens_while_there_is_work() -> None:
    assert Process().work(9.0, 0.5, 9.0, 0.3) == 0


def test_memory_is_given_back_once_when_work_has_ended() -> None:
    process = Process()
    assert process.work(9.0) == 0
    assert process.work(0.1) == 1
    assert process.work(*[0.01] * 50) == 1


def test_memory_is_given_back_again_after_more_work() -> None:
    process = Process()
    assert process.work(9.0, 0.0) == 1
    assert process.work(2.0) == 1
    assert process.work(0.0) == 2


def test_little_work_adds_up() -> None:
    process = Process()
    assert process.work(*[0.15] * 6) == 0
    assert process.work(0.15) == 1


def test_what_only_its_own_cycle_holds_is_freed_before() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    process, freed = Process(), threading.Event()
    gc.disable()
    try:
        weakref.finalize(Cycle(), freed.set)
        assert not freed.is_set()
        assert process.work(9.0, 0.0) == 1
        assert freed.is_set()
    finally:
        gc.enable()


def test_memory_in_holes_is_given_back() -> None:
    child = subprocess.run([sys.executable, "-c", FREED], stdout=subprocess.PIPE, text=True, check=True)
    assert float(child.stdout) > 20
