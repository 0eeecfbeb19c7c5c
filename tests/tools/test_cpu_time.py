"""`CpuTime` leaves out what is not the code's own."""

from __future__ import annotations

import gc
import time
from threading import Thread

import pytest

from harness.processor.cpu_time import CpuTime


def _compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_what_the_block_computes_counts() -> None:
    with CpuTime() as spent:
        _compute(0.02)
    assert spent.seconds >= 0.02


def test_it_counts_if_the_block_fails() -> None:
    spent = CpuTime()
    with pytest.raises(ValueError, match="x"), spent:
        _compute(0.02)
        raise ValueError("x")
    assert spent.seconds >= 0.02


def test_other_threads_do_not_count() -> None:
    with CpuTime() as spent:
        other = Thread(target=_compute, args=(0.2,))
        other.start()
        other.join()
    assert spent.seconds < 0.2


def test_no_garbage_collection_runs_meanwhile() -> None:
    generations: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        generations.append(info["generation"])

    gc.callbacks.append(note)
    try:
        with CpuTime():
            assert [[] for _ in range(10 * gc.get_threshold()[0])]
            assert not gc.isenabled()
    finally:
        gc.callbacks.remove(note)
    assert not generations
    assert gc.isenabled()


def test_collections_stay_off_if_they_were() -> None:
    gc.disable()
    try:
        with CpuTime():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
