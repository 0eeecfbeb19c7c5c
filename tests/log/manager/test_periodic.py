"""Periodic work: its steps, its failures, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from harness.waiting import until
from kwire.log.manager.periodic import PeriodicWork


class Steps:
    """Work of three steps. ``turns``: in which turns of the loop they were done."""

    def __init__(self) -> None:
        self.turns: list[int] = []
        self.turn = 0

    def __call__(self) -> Iterator[None]:
        for _ in range(3):
            self.turns.append(self.turn)
            yield


async def test_each_step_has_a_turn_of_its_own() -> None:
    periodic, work = PeriodicWork(), Steps()
    periodic.every_in_steps("work", 1, work)
    while len(work.turns) < 3:
        await asyncio.sleep(0)
        work.turn += 1
        if work.turns:
            periodic._timers["work"].cancel()  # one pass is enough
    assert [turn - work.turns[0] for turn in work.turns] == [0, 1, 2]
    periodic.stop()


async def test_no_step_is_done_after_the_end() -> None:
    periodic, done = PeriodicWork(), asyncio.Event()
    steps: list[int] = []

    def work() -> Iterator[None]:
        for number in range(3):
            steps.append(number)
            periodic.stop()
            done.set()
            yield

    periodic.every_in_steps("work", 1, work)
    await done.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert steps == [0]


async def test_work_that_failed_is_done_again_at_its_next_time() -> None:
    periodic, count = PeriodicWork(), 0

    def fails() -> None:
        nonlocal count
        count += 1
        raise OSError("the disk")

    periodic.every("work", 1, fails)
    await until(lambda: count > 2)
    periodic.stop()
