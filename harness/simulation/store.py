"""A metadata store across the simulated network: one `MemoryStore`, and a client for every broker.

Requests, responses and the feed cross the network, and a network partition holds them up. Sessions live by heartbeats
and end after their lease, as with ZooKeeper, or with the process, as on one host. A request without a response in time
may have been carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from harness.simulation.network import WIRE
from kwire.cluster.store.feed import FeedSubscription, OwnSession
from kwire.cluster.store.memory import MemorySession, MemoryStore
from kwire.cluster.store.store import Check, Entry, Event, Listener, SessionLost, StoreUnavailable, Write, check_commit

if TYPE_CHECKING:
    from harness.simulation.network import Network

T = TypeVar("T")

HOST: Final = "store"
TIMEOUT_S: Final = 1.0
HEARTBEATS_PER_LEASE: Final = 4


class StoreServer:
    """The store's own host."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.memory = MemoryStore()
        self._heard_s: dict[int, float] = {}
        self._leases_s: dict[int, float] = {}

    def open_session(self, owner: str, lease_s: float) -> int:
        """Open a session that ends after `lease_s` seconds without a heartbeat; return its id."""
        session = self.memory.open_session_now(owner)
        self._leases_s[session.id] = lease_s
        self.hear(session.id)
        self._watch(session.id)
        return session.id

    def hear(self, session: int) -> bool:
        """Take a heartbeat; return whether the session is still open."""
        self._heard_s[session] = self.network.loop.time()
        return session in self.memory.sessions

    def _watch(self, session: int) -> None:
        lease_s = self._leases_s[session]
        silent_s = self.network.loop.time() - self._heard_s[session]
        if session not in self.memory.sessions:
            return
        if silent_s >= lease_s:
            self.memory.end_session(session)
            return
        self.network.loop.call_later(lease_s - silent_s + 1e-6, self._watch, session, context=WIRE)


class StoreSession(OwnSession):
    """A broker's session, as the broker sees it."""

    def __init__(self, client: StoreClient, session_id: int, lease_s: float) -> None:
        super().__init__(session_id, client.end_session)
        self._client = client
        self._lease_s = lease_s
        self._loop = asyncio.get_running_loop()
        self._answered_s = self._loop.time()
        self._task = self._loop.create_task(self._beat())

    @property
    def alive(self) -> bool:
        """Whether the store must still have the session."""
        return self._alive and self._loop.time() < self._answered_s + self._lease_s

    @property
    def noticed_loss(self) -> bool:
        """Whether the broker knows that the session is over."""
        return not self._alive

    async def _beat(self) -> None:
        server = self._client.server
        while self._alive:
            asked_s = self._loop.time()
            try:
                if not await self._client.call(lambda: server.hear(self.id)):
                    self.lost()
                    return
                self._answered_s = asked_s
            except StoreUnavailable:
                pass
            if self._loop.time() - self._answered_s >= self._lease_s:
                self.lost()
                return
            await asyncio.sleep(self._lease_s / HEARTBEATS_PER_LEASE)

    async def close(self) -> None:
        """See `kwire.cluster.store.store`."""
        if self._alive:
            self._task.cancel()
        await super().close()


class StoreClient:
    """`MetadataStore` of one broker."""

    def __init__(self, server: StoreServer, host: str) -> None:
        self.server = server
        self._host = host
        self._places: list[FeedSubscription] = []
        self.sessions: list[StoreSession] = []

    async def open(self) -> None:
        """See `kwire.cluster.store.store.MetadataStore`."""
        await self.call(lambda: None)

    async def close(self) -> None:
        """See `kwire.cluster.store.store.MetadataStore`."""
        for session in self.sessions:
            try:
                await session.close()
            except StoreUnavailable:
                pass
        self.disconnect()

    def disconnect(self) -> None:
        """The process is gone: nothing more is sent to it."""
        for place in self._places:
            place.close()

    async def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        """See `kwire.cluster.store.store.MetadataStore`."""
        return await self.call(lambda: self.server.memory.read_now(prefix))

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        """See `kwire.cluster.store.store.MetadataStore`."""
        check_commit(checks, writes)
        try:
            return await self.call(lambda: self.server.memory.commit_now(checks, writes))
        except SessionLost:
            for session in self.sessions:
                session.lost()
            raise

    async def open_session(self, owner: str, *, lease_ms: int) -> StoreSession:
        """See `kwire.cluster.store.store.MetadataStore`."""
        lease_s = lease_ms / 1000
        session = StoreSession(self, await self.call(lambda: self.server.open_session(owner, lease_s)), lease_s)
        self.sessions.append(session)
        return session

    async def end_session(self, session: OwnSession) -> None:
        """Take a session's keys away (called by `OwnSession.close`)."""
        await self.call(lambda: self.server.memory.end_session(session.id))

    async def subscribe(self, listener: Listener) -> FeedSubscription:
        """The feed is delivered in the process of the caller, in order, however long it takes."""
        network, context = self.server.network, copy_context()
        arrives_s = 0.0

        def publish(event: Event) -> None:
            nonlocal arrives_s
            arrives_s = max(arrives_s + 1e-6, network.loop.time() + network.delay())
            network.loop.call_at(arrives_s, network.pass_or_wait, HOST, self._host, deliver(event), context=WIRE)

        def deliver(event: Event) -> Callable[[], None]:
            return lambda: network.loop.call_soon(arrived, event, context=context) and None

        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def arrived(event: Event) -> None:
            listener(event)
            if not first.done():
                first.set_result(None)

        place = await self.call(lambda: self.server.memory.subscribe_now(publish))
        self._places.append(place)
        await first
        return place

    async def call(self, work: Callable[[], T]) -> T:
        """Carry out a request at the store and wait for its response."""
        network = self.server.network
        loop = network.loop
        response: asyncio.Future[T] = loop.create_future()

        def arrive() -> None:
            result: Any = None
            error: Exception | None = None
            try:
                result = work()
            except Exception as raised:
                error = raised
            loop.call_later(
                network.delay(), network.pass_or_wait, HOST, self._host, lambda: give(result, error), context=WIRE
            )

        def give(result: Any, error: Exception | None) -> None:
            if response.done():
                return
            if error is None:
                response.set_result(result)
            else:
                response.set_exception(error)

        loop.call_later(network.delay(), network.pass_or_wait, self._host, HOST, arrive, context=WIRE)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await response
        except TimeoutError:
            raise StoreUnavailable("the store does not respond") from None


__all__ = ["HOST", "MemorySession", "StoreClient", "StoreServer", "StoreSession"]
