"""`MemoryStore`: the metadata store of tests and of the simulation, in memory.

One `MemoryStore` object can serve several brokers of a simulated cluster. Each call yields to the event loop once
before it takes effect and once before it returns, so that the loop (and its seed) decides how concurrent commits
interleave. Tests use `expire` and `available` to make it fail. See `kwire.cluster.store.store` for the contract.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kwire.cluster.store.feed import Feed, FeedSubscription, OwnSession
from kwire.cluster.store.store import (
    ABSENT,
    Change,
    Check,
    Conflict,
    Entry,
    Event,
    Listener,
    SessionLost,
    StoreUnavailable,
    Write,
    check_commit,
)


class MemorySession(OwnSession):
    """A session of a `MemoryStore`."""

    def __init__(self, store: MemoryStore, session_id: int, owner: str) -> None:
        super().__init__(session_id, store.close_session)
        self.owner = owner
        self._store = store

    @property
    def alive(self) -> bool:
        """Whether the store still has the session."""
        return self.id in self._store.sessions


class MemoryStore:
    """Keys in a dict. ``available = False`` makes every call fail before it takes effect."""

    def __init__(self) -> None:
        self.revision = 0
        self.available = True
        self.sessions: dict[int, MemorySession] = {}
        self._feed = Feed()
        self._entries: dict[str, Entry] = {}
        self._next_session = 1

    async def open(self) -> None:
        """Nothing to prepare; fails if the store is not available."""
        await self.step()

    async def close(self) -> None:
        """End all sessions and remove all listeners."""
        for session_id in list(self.sessions):
            self.end_session(session_id)
        self._feed.clear()

    async def step(self) -> None:
        """Yield to other tasks, as a real store would. `StoreUnavailable` if the store is not available."""
        await asyncio.sleep(0)
        if not self.available:
            raise StoreUnavailable("the simulated store is not available")

    async def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        """See `MetadataStore.read`."""
        await self.step()
        return self.read_now(prefix)

    def read_now(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        """`read` without yielding."""
        found = {key: self._entries[key] for key in sorted(self._entries) if key.startswith(prefix)}
        return self.revision, found

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        """See `MetadataStore.commit`."""
        check_commit(checks, writes)
        await self.step()
        revision = self.commit_now(checks, writes)
        await asyncio.sleep(0)
        return revision

    def commit_now(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        """`commit` without yielding."""
        for key, version in checks:
            entry = self._entries.get(key)
            if (ABSENT if entry is None else entry.version) != version:
                raise Conflict(key)
        if any(write.session is not None and write.session not in self.sessions for write in writes):
            raise SessionLost
        return self._apply(writes)

    async def open_session(self, owner: str, *, lease_ms: int) -> MemorySession:
        """See `MetadataStore.open_session`; the lease only ends by `expire`."""
        await self.step()
        return self.open_session_now(owner)

    def open_session_now(self, owner: str) -> MemorySession:
        """`open_session` without yielding."""
        session = MemorySession(self, self._next_session, owner)
        self._next_session += 1
        self.sessions[session.id] = session
        return session

    async def subscribe(self, listener: Listener) -> FeedSubscription:
        """See `MetadataStore.subscribe`."""
        await self.step()
        return self.subscribe_now(listener)

    def subscribe_now(self, listener: Listener) -> FeedSubscription:
        """`subscribe` without yielding."""
        revision, entries = self.read_now("")
        return self._feed.join(listener, entries, revision)

    def expire(self, session_id: int) -> None:
        """End a session as a store does when its lease expires without a heartbeat from its owner."""
        session = self.sessions[session_id]
        self.end_session(session_id)
        session.lost()

    async def close_session(self, session: OwnSession) -> None:
        """End a session for its owner (called by `OwnSession.close`)."""
        await self.step()
        self.end_session(session.id)

    def end_session(self, session_id: int) -> None:
        """End a session and delete its keys; no error if it has ended."""
        if self.sessions.pop(session_id, None) is None:
            return
        gone = [Write(key, None) for key, entry in self._entries.items() if entry.session == session_id]
        if gone:
            self._apply(gone)

    def _apply(self, writes: Sequence[Write]) -> int:
        self.revision += 1
        changes = []
        for key, value, session in writes:
            old = self._entries.pop(key, None)
            if value is not None:
                created = self.revision if old is None else old.created
                self._entries[key] = Entry(value, self.revision, created, session)
            elif old is None:
                continue
            changes.append(Change(key, self._entries.get(key)))
        self._feed.publish(Event(changes, self.revision, consistent=True))
        return self.revision
