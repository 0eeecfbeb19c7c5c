"""A session of the ZooKeeper store and a place in its feed: what the store hands out. The store has all the rest
(`zookeeper`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.cluster.store import Listener
    from kwire.cluster.zookeeper import ZooKeeperStore


class ZooKeeperSession:
    """This process's session: a node in ``sessions``."""

    def __init__(self, store: ZooKeeperStore, session_id: int, owner: str) -> None:
        self.id = session_id
        self.owner = owner
        self._store = store
        self._callbacks: list[Callable[[], None]] = []
        self._alive = True

    @property
    def alive(self) -> bool:
        return self._alive and self._store.proven

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
            await self._store.end_session(self)


class ZooKeeperSubscription:
    """A listener's place in the feed."""

    def __init__(self, subscriptions: dict[ZooKeeperSubscription, None], listener: Listener) -> None:
        self._subscriptions = subscriptions
        self.listener = listener
        subscriptions[self] = None

    def close(self) -> None:
        self._subscriptions.pop(self, None)
