"""The clusters that a console shows, and its connections to them.

A request takes a `Cluster` for itself and gives it back, so that a slow answer delays nobody else; a few are kept open.
Every wait has an end: `Target.timeout_s` for a request, `PROBE_S` for the question how a cluster is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.codec.protocol import ApiKey
from kwire.console.failures import Refusal, unknown
from kwire.console.records.decoding import decoder_of
from kwire.console.shared import Answers

KEPT_MAX: Final = 4
KEPT_S: Final = 60.0
REQUESTS_MAX: Final = 16
STREAMS_MAX: Final = 24
"""Searches, tails and the like of one cluster that may run at the same time."""
PROBE_S: Final = 5.0
FRESH_S: Final = 2.0
"""For how long the answer to a probe counts."""
PATIENCE_S: Final = 0.3
"""How long the list of clusters waits for those that have not answered yet."""
_WANTED: Final = {
    "configurations": ApiKey.DESCRIBE_CONFIGS,
    "sizes": ApiKey.DESCRIBE_LOG_DIRS,
    "group types": ApiKey.CONSUMER_GROUP_DESCRIBE,
    "share groups": ApiKey.SHARE_GROUP_DESCRIBE,
    "streams groups": ApiKey.STREAMS_GROUP_DESCRIBE,
    "transactions": ApiKey.LIST_TRANSACTIONS,
    "producers": ApiKey.DESCRIBE_PRODUCERS,
    "users": ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    "quotas": ApiKey.DESCRIBE_CLIENT_QUOTAS,
    "access control": ApiKey.DESCRIBE_ACLS,
}
"""What the console shows, and the API that it takes: an older broker lacks some."""


class Target(NamedTuple):
    """A cluster to show. ``properties``: Kafka's client properties."""

    name: str
    bootstrap: str
    properties: Mapping[str, str]
    timeout_s: float


class ClusterStatus(NamedTuple):
    """How a cluster is. ``status``: ok, connecting, unreachable or login needed. ``lacks``: what an older broker does
    not have."""

    name: str
    bootstrap: str
    status: str
    error: str | None
    id: str | None
    controller: int | None
    brokers: int | None
    lacks: list[str]
    read_only: bool


class Connections:
    """The connections to one cluster, and what decodes its messages. `CommandError` for a registry's URL that is
    none."""

    def __init__(self, target: Target, *, read_only: bool) -> None:
        self.target = target
        self._kept: list[tuple[float, Cluster]] = []
        self._requests = asyncio.Semaphore(REQUESTS_MAX)
        self._streams = 0
        self._read_only = read_only
        self._status = self._unknown("connecting")
        self._probed_s: float | None = None
        self._probe: asyncio.Task[None] | None = None
        self.answers = Answers()
        self.decoder = decoder_of(target.properties, target.timeout_s)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Cluster]:
        """A cluster for one request. `CommandError` if it is not there."""
        try:
            async with asyncio.timeout(self.target.timeout_s):
                await self._requests.acquire()
        except TimeoutError:
            raise Refusal(503, "busy", f"{self.target.name}: too many requests wait for this cluster") from None
        try:
            async with self._taken(self.target.timeout_s) as cluster:
                yield cluster
        finally:
            self._requests.release()

    @asynccontextmanager
    async def open_stream(self) -> AsyncIterator[Cluster]:
        """A cluster for something that goes on, such as a search. `CommandError`, `Refusal` if there are too many."""
        if self._streams >= STREAMS_MAX:
            raise Refusal(503, "busy", f"{self.target.name}: {STREAMS_MAX} searches and tails are open already")
        self._streams += 1
        try:
            async with self._taken(self.target.timeout_s) as cluster:
                yield cluster
        finally:
            self._streams -= 1

    @asynccontextmanager
    async def _taken(self, timeout_s: float) -> AsyncIterator[Cluster]:
        cluster = self._from_kept()
        if cluster is None:
            cluster = Cluster.of(self.target.bootstrap, self.target.properties, timeout_s)
        else:
            cluster.extend()
        try:
            await cluster.connect(once=True)
            yield cluster
        except BaseException:
            cluster.close()  # an answer may be outstanding
            raise
        if len(self._kept) < KEPT_MAX:
            self._kept.append((asyncio.get_running_loop().time(), cluster))
        else:
            cluster.close()

    def _from_kept(self) -> Cluster | None:
        """One that was used a short while ago: a login may have expired in others."""
        now_s = asyncio.get_running_loop().time()
        while self._kept:
            used_s, cluster = self._kept.pop()
            if now_s - used_s < KEPT_S:
                return cluster
            cluster.close()
        return None

    async def warm(self) -> None:
        """Make a connection and keep it, if the cluster is there."""
        with suppress(CommandError, Refusal):
            async with self.open():
                await self.status()

    async def status(self) -> ClusterStatus:
        """How the cluster is now; after a short wait, how it was last."""
        loop = asyncio.get_running_loop()
        if self._probe is None and (self._probed_s is None or loop.time() - self._probed_s > FRESH_S):
            self._probe = asyncio.create_task(self._probed())
        if self._probe is not None:
            await asyncio.wait({self._probe}, timeout=PATIENCE_S)
        return self._status

    async def _probed(self) -> None:
        try:
            self._status = await self._through_kept() or await self._through_new()
        except CommandError as error:
            self._status = self._unknown("unreachable", str(error))
        finally:
            self._probed_s = asyncio.get_running_loop().time()
            self._probe = None

    async def _through_kept(self) -> ClusterStatus | None:
        """What a connection says that is open already; None if there is none, or it does not answer."""
        if not self._kept:
            return None
        try:
            async with asyncio.timeout(PROBE_S / 2), self._taken(self.target.timeout_s) as cluster:
                return await self._asked(cluster)
        except (CommandError, TimeoutError):
            return None

    async def _through_new(self) -> ClusterStatus:
        cluster = Cluster.of(self.target.bootstrap, self.target.properties, min(PROBE_S, self.target.timeout_s))
        try:
            await cluster.connect(once=True)
            return await self._asked(cluster)
        finally:
            cluster.close()

    async def _asked(self, cluster: Cluster) -> ClusterStatus:
        metadata = await cluster.metadata([])
        lacks = [what for what, key in _WANTED.items() if not await cluster.has(key)]
        controller = metadata.controller_id if metadata.controller_id >= 0 else None
        target = self.target
        return ClusterStatus(
            target.name,
            target.bootstrap,
            "ok",
            None,
            metadata.cluster_id,
            controller,
            len(metadata.brokers),
            lacks,
            self._read_only,
        )

    def _unknown(self, status: str, error: str | None = None) -> ClusterStatus:
        target = self.target
        return ClusterStatus(target.name, target.bootstrap, status, error, None, None, None, [], self._read_only)

    def close(self) -> None:
        """Close what is kept."""
        for _, cluster in self._kept:
            cluster.close()
        self._kept.clear()
        if self._probe is not None:
            self._probe.cancel()
        self.answers.close()


class Clusters:
    """All clusters of a console, by name; the first is the default. With ``locked`` each needs a login first."""

    def __init__(self, targets: Iterable[Target], *, read_only: bool, locked: bool = False) -> None:
        self._read_only = read_only
        self._targets = {each.name: each for each in targets}
        self._open: dict[str, Connections] = {}
        if not locked:
            self._open = {name: Connections(each, read_only=read_only) for name, each in self._targets.items()}

    def unlock(self, name: str, properties: Mapping[str, str]) -> None:
        """Show a cluster, with the login that client properties have."""
        before = self._open.get(name)
        if before is not None:
            before.close()
        target = self._targets[name]._replace(properties=properties)
        self._open[name] = Connections(target, read_only=self._read_only)

    @property
    def first(self) -> str:
        """The name of the default."""
        return next(iter(self._targets))

    def named(self, name: str | None) -> Connections:
        """One of them. `Refusal` if there is none with this name, or it needs a login."""
        chosen = self.first if name is None else name
        if chosen not in self._targets:
            raise unknown("cluster", f"there is no cluster {chosen}")
        if chosen not in self._open:
            raise Refusal(401, "login_needed", f"log in to {chosen}")
        return self._open[chosen]

    async def statuses(self) -> list[ClusterStatus]:
        """How all of them are, in their order."""
        return list(await asyncio.gather(*map(self._status, self._targets.values())))

    async def warm(self) -> None:
        """Connect to those that are there, so that the first page finds a connection."""
        await asyncio.gather(*(each.warm() for each in self._open.values()))

    async def _status(self, target: Target) -> ClusterStatus:
        connections = self._open.get(target.name)
        if connections is None:
            return ClusterStatus(
                target.name, target.bootstrap, "login needed", None, None, None, None, [], self._read_only
            )
        return await connections.status()

    def close(self) -> None:
        """Close all connections."""
        for each in self._open.values():
            each.close()
