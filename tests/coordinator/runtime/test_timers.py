"""Timers: order, moving, cancelling, and a heap that stays small."""

from __future__ import annotations

import random
from typing import Any

from kwire.coordinator.runtime.timers import Timers


def action(name: object) -> Any:
    """Stands for an action: timers hand it out and never call it."""
    return name


def drain(timers: Timers, now_ms: int) -> list[Any]:
    """Take all timers that are due; returns their actions."""
    fired = []
    while (due := timers.pop_due(now_ms)) is not None:
        fired.append(due[1])
    return fired


def test_timers_fire_at_their_deadline_in_order() -> None:
    timers = Timers()
    timers.schedule("b", 20, action("b"))
    timers.schedule("a", 10, action("a"))
    timers.schedule("c", 10, action("c"))
    assert drain(timers, 9) == []
    assert drain(timers, 10) == ["a", "c"]
    assert drain(timers, 30) == ["b"]
    assert timers.next_wake_ms() is None


def test_a_timer_moved_later_fires_once_and_late() -> None:
    timers = Timers()
    for deadline in (10, 20, 30):
        timers.schedule("a", deadline, action(str(deadline)))
    assert timers.next_wake_ms() == 10, "the heap is not touched"
    assert drain(timers, 10) == []
    assert timers.next_wake_ms() == 30
    assert drain(timers, 30) == ["30"]


def test_a_timer_moved_earlier_fires_once_and_early() -> None:
    timers = Timers()
    timers.schedule("a", 30, action("late"))
    timers.schedule("a", 10, action("early"))
    assert drain(timers, 10) == ["early"]
    assert drain(timers, 40) == []


def test_a_cancelled_timer_does_not_fire() -> None:
    timers = Timers()
    timers.schedule("a", 10, action("a"))
    timers.cancel("a")
    assert timers.next_wake_ms() is None
    assert drain(timers, 10) == []


def test_heartbeats_and_cancellations_do_not_grow_the_heap() -> None:
    timers = Timers()
    for now in range(10_000):
        timers.schedule("member", now + 1000, action("m"))
        timers.schedule("join", now, action("j"))
        timers.cancel("join")
    assert len(timers._heap) <= 66


def test_timers_agree_with_a_plain_table_of_deadlines() -> None:
    chance = random.Random(5)
    timers, model = Timers(), {}
    for now in range(3000):
        key = chance.randrange(12)
        if chance.random() < 0.7:
            deadline = now + chance.randrange(60)
            timers.schedule(key, deadline, action(key))
            model[key] = deadline
        else:
            timers.cancel(key)
            model.pop(key, None)
        wake = timers.next_wake_ms()
        assert (wake is None) == (not model)
        assert wake is None or wake <= min(model.values())
        if chance.random() < 0.3:
            due = sorted(key for key, deadline in model.items() if deadline <= now)
            assert sorted(drain(timers, now)) == due
            for key in due:
                del model[key]
