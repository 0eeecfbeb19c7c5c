"""Java's `PriorityQueue`. Which of several equal elements comes first decides who gets a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """A binary heap, smallest key first. Equal elements come out in the same order as from Java's queue. The key of an
    element must not change while it is in the queue."""

    def __init__(self, key: Callable[[T], float]) -> None:
        self._key = key
        self._heap: list[tuple[float, T]] = []

    def __bool__(self) -> bool:
        """Whether there is an element."""
        return bool(self._heap)

    def push(self, item: T) -> None:
        """Add an element."""
        heap = self._heap
        entry = self._key(item), item
        heap.append(entry)
        position = len(heap) - 1
        while position > 0:
            parent = (position - 1) // 2
            if entry[0] >= heap[parent][0]:
                break
            heap[position] = heap[parent]
            position = parent
        heap[position] = entry

    def pop(self) -> T:
        """Remove the first element, of which there must be one, and return it."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last[1]
        first = heap[0]
        self._sift_down(last)
        return first[1]

    def _sift_down(self, entry: tuple[float, T]) -> None:
        """Put an element where the first one was, and move it down to its place."""
        heap = self._heap
        size = len(heap)
        position = 0
        while (child := 2 * position + 1) < size:
            if child + 1 < size and heap[child][0] > heap[child + 1][0]:
                child += 1
            if entry[0] <= heap[child][0]:
                break
            heap[position] = heap[child]
            position = child
        heap[position] = entry
