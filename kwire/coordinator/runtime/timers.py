"""The timers of one shard: a heap of deadlines, each with a key.

There is no clock here. `runtime.runtime` polls `Timers.next_wake_ms` and calls `Timers.pop_due` with the current time.

Every heartbeat moves a deadline later, so that operation must not touch the heap. A timer therefore stays queued under
its first deadline and is queued again when that deadline turns out to be too early. Each key has at most one live heap
entry. Entries of cancelled timers are removed once they are the majority.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Any

from kwire.coordinator.runtime.machine import Instant, Result

Action = Callable[[Result[Any], Instant], None]
"""Runs when the timer is due. It fills the result, as any other operation does."""

_SWEEP_AT = 64


class _Timer:
    __slots__ = ("action", "deadline_ms", "key", "order", "queued_ms")

    def __init__(self, key: Hashable, deadline_ms: int, order: int, action: Action) -> None:
        self.key = key
        self.deadline_ms = deadline_ms
        self.queued_ms = deadline_ms
        self.order = order
        self.action = action

    def __lt__(self, other: _Timer) -> bool:
        return (self.queued_ms, self.order) < (other.queued_ms, other.order)


class Timers:
    """Deadlines by key. Timers with the same deadline fire in the order in which they were first set."""

    __slots__ = ("_count", "_heap", "_timers")

    def __init__(self) -> None:
        self._timers: dict[Hashable, _Timer] = {}
        self._heap: list[_Timer] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers

    def schedule(self, key: Hashable, deadline_ms: int, action: Action) -> None:
        """Set the timer of a key, which replaces an earlier one."""
        timer = self._timers.get(key)
        if timer is not None and timer.queued_ms <= deadline_ms:
            timer.deadline_ms = deadline_ms
            timer.action = action
            return
        self._count += 1
        self._timers[key] = timer = _Timer(key, deadline_ms, self._count, action)
        heappush(self._heap, timer)
        self._sweep()

    def cancel(self, key: Hashable) -> None:
        """Remove the timer of a key, if there is one."""
        self._timers.pop(key, None)

    def clear(self) -> None:
        """Remove all timers."""
        self._timers.clear()
        self._heap.clear()

    def next_wake_ms(self) -> int | None:
        """When to call `pop_due`: at the next deadline, or earlier. None if there are no timers."""
        heap = self._heap
        while heap and self._timers.get(heap[0].key) is not heap[0]:
            heappop(heap)
        return heap[0].queued_ms if heap else None

    def pop_due(self, now_ms: int) -> tuple[Hashable, Action] | None:
        """Remove and return the first timer that is due (key, action), or None if no timer is due."""
        heap = self._heap
        while heap and heap[0].queued_ms <= now_ms:
            timer = heappop(heap)
            if self._timers.get(timer.key) is not timer:
                continue
            if timer.deadline_ms > now_ms:
                timer.queued_ms = timer.deadline_ms
                heappush(heap, timer)
                continue
            del self._timers[timer.key]
            return timer.key, timer.action
        return None

    def _sweep(self) -> None:
        if len(self._heap) > _SWEEP_AT and len(self._heap) > 2 * len(self._timers):
            self._heap = [timer for timer in self._heap if self._timers.get(timer.key) is timer]
            heapify(self._heap)
