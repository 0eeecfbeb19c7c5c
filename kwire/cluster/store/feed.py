"""What the stores hand out, each to those in its own process: places in the feed, and sessions.

What is told, and when a session is over, is the stores' to say (`embedded`, `shared_store`, `zookeeper`, `memory`,
the simulation's).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kwire.cluster.store.store import Change, Entry, Event, Listener


class Place:
    """A listener's place in a feed (a `Subscription`)."""

    __slots__ = ("_places", "listener")

    def __init__(self, places: dict[Place, None], listener: Listener) -> None:
        self._places = places
        self.listener = listener
        places[self] = None

    def close(self) -> None:
        self._places.pop(self, None)


class Feed:
    """The listeners of a store."""

    def __init__(self) -> None:
        self._places: dict[Place, None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nobody listens."""
        return not self._places

    def join(self, listener: Listener, entries: Mapping[str, Entry], revision: int) -> Place:
        """A place for a listener, whose first event is the whole state."""
        place = Place(self._places, listener)
        listener(Event([Change(key, entry) for key, entry in entries.items()], revision, consistent=True))
        return place

    def publish(self, event: Event) -> None:
        """Tell all who listen."""
        for place in list(self._places):
            place.listener(event)

    def clear(self) -> None:
        """Nobody is told any more."""
        self._places.clear()


class OwnSession:
    """A session of this process (a `Session`), until it is lost or closed. ``end`` takes it away from the store."""

    def __init__(self, session_id: int, end: Callable[[Any], Awaitable[None]]) -> None:
        self.id = session_id
        self._end = end
        self._callbacks: list[Callable[[], None]] = []
        self._alive = True

    @property
    def alive(self) -> bool:
        return self._alive

    def on_loss(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def lost(self) -> None:
        """It is over, or has to be taken for that."""
        if self._alive:
            self._alive = False
            for callback in self._callbacks:
                callback()

    async def close(self) -> None:
        if self._alive:
            self._alive = False
            await self._end(self)


__all__ = ["Feed", "OwnSession", "Place"]
