"""`Feed` and `OwnSession`: the subscribers and the sessions of one process, shared by all stores.

What lives elsewhere: which events there are, and when a session ends (`embedded`, `store.shared`, `zookeeper`,
`memory`, the simulation's store).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from operator import attrgetter
from typing import Any

from kwire.cluster.store.store import Change, Entry, Event, Listener


class FeedSubscription:
    """A listener's subscription to a feed (a `Subscription`)."""

    __slots__ = ("_subscriptions", "listener")

    def __init__(self, subscriptions: dict[FeedSubscription, None], listener: Listener) -> None:
        self._subscriptions = subscriptions
        self.listener = listener
        subscriptions[self] = None

    def close(self) -> None:
        """Deliver no further events."""
        self._subscriptions.pop(self, None)


class Feed:
    """The listeners of a store."""

    def __init__(self) -> None:
        self._subscriptions: dict[FeedSubscription, None] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is no listener."""
        return not self._subscriptions

    def join(self, listener: Listener, entries: Mapping[str, Entry], revision: int) -> FeedSubscription:
        """Add a listener and deliver the whole state to it as the first event."""
        subscription = FeedSubscription(self._subscriptions, listener)
        listener(Event([Change(key, entry) for key, entry in entries.items()], revision, consistent=True))
        return subscription

    def publish(self, event: Event) -> None:
        """Deliver an event to all listeners."""
        for subscription in list(self._subscriptions):
            subscription.listener(event)

    def clear(self) -> None:
        """Remove all listeners."""
        self._subscriptions.clear()


class OwnSession:
    """A session of this process (a `Session`), until it is lost or closed. ``end`` ends it in the store."""

    def __init__(self, session_id: int, end: Callable[[Any], Awaitable[None]]) -> None:
        self.id = session_id
        self._end = end
        self._callbacks: list[Callable[[], None]] = []
        self._alive = True

    alive = property(attrgetter("_alive"), doc="Whether the session is neither closed nor lost.")
    """Read for every request of a broker with an authorizer, therefore without a function in Python."""

    def on_loss(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once if the session is lost (not if it is closed)."""
        self._callbacks.append(callback)

    def lost(self) -> None:
        """The session has ended, or must be assumed to have ended: call the `on_loss` callbacks."""
        if self._alive:
            self._alive = False
            for callback in self._callbacks:
                callback()

    async def close(self) -> None:
        """End the session; its keys are gone when this returns."""
        if self._alive:
            self._alive = False
            await self._end(self)


__all__ = ["Feed", "FeedSubscription", "OwnSession"]
