"""`Cluster`: connections of one command to the brokers of a cluster, in versions that both sides have."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from socket import gaierror
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kwire.base.addresses import parse_address
from kwire.base.errors import ErrorCode
from kwire.cli.connection.errors import CommandError, NoAnswer, Unreachable, check

if TYPE_CHECKING:
    from kwire.cluster.connector import Connector
    from kwire.codec.message import Message
    from kwire.net.client import ClientConnection

T = TypeVar("T")

PAUSE_S: Final = 0.1
"""Seconds before another attempt."""
GROUP, TRANSACTION, SHARE = 0, 1, 2
"""Types of keys in FindCoordinator."""


PASSING: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Errors after which another attempt may succeed soon. An unknown topic is none: the user is told."""


class _Refused(Unreachable):
    """The broker is there and does not want this client: no use in another attempt."""


class LoginRefused(_Refused):
    """The broker is there and does not accept the login."""


class _Link(NamedTuple):
    """A connection, what it leads to, and the highest version of each API there."""

    connection: ClientConnection
    address: str
    versions: Mapping[int, tuple[int, int]]


class Cluster:
    """One command's connections. Every wait ends at one deadline, ``timeout_s`` from the start; `extend` moves
    it for a command that goes on for longer."""

    def __init__(
        self, connector: Connector, addresses: list[tuple[str, int]], timeout_s: float, client_id: str
    ) -> None:
        self._connector = connector
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._deadline_s = asyncio.get_running_loop().time() + timeout_s
        self._any: _Link | None = None
        self._links: dict[int, _Link] = {}  # by broker id
        self._nodes: dict[int, tuple[str, int]] = {}
        self._connecting: dict[int, asyncio.Lock] = {}

    @classmethod
    def of(cls, bootstrap: str, properties: Mapping[str, str], timeout_s: float) -> Cluster:
        """A cluster by addresses with commas between them and client properties. `CommandError`."""
        from kwire.base.config import ConfigError
        from kwire.base.doors import Doors
        from kwire.cluster.connector import Connector
        from kwire.security.client import client_security

        try:
            parsed = [parse_address(text.strip()) for text in bootstrap.split(",")]
            connector = Connector(Doors(), client_security(properties))
        except (ConfigError, ValueError) as error:
            raise CommandError(str(error)) from None
        addresses = [(each.host or "localhost", each.port) for each in parsed]
        return cls(connector, addresses, timeout_s, properties.get("client.id", "kwire"))

    async def connect(self, *, once: bool = False) -> None:
        """Connect to one of the addresses, unless there is a connection; they are tried in turn until the deadline, or
        once. `Unreachable`."""
        while self._any is None or self._any.connection.closed:
            reasons = []
            for host, port in self._addresses:
                try:
                    self._any = await self._connected(host, port)
                    return
                except _Refused:
                    raise
                except CommandError as error:
                    reasons.append(str(error))
            if once or self._left_s() <= PAUSE_S:
                raise Unreachable("; ".join(reasons))
            await asyncio.sleep(PAUSE_S)

    def extend(self) -> None:
        """Let waits end a timeout from now."""
        self._deadline_s = asyncio.get_running_loop().time() + self._timeout_s

    def close(self) -> None:
        """Close all connections."""
        for link in (self._any, *self._links.values()):
            if link is not None:
                link.connection.close()

    async def call(self, request: Message, node: int | None = None, max_version: int | None = None) -> Any:
        """The response of a broker (any of them by default) to a request, in the highest version that both sides have,
        or ``max_version``. `CommandError` if there is none."""
        return await self._call(await self._link(node), request, max_version)

    async def send(self, request: Message, node: int, max_version: int | None = None) -> None:
        """Send a broker a request that it does not answer (Produce with acks=0). `CommandError`."""
        link = await self._link(node)
        link.connection.send(request, self._version(link, request, max_version))

    async def highest(self, api_key: int, node: int | None = None) -> int:
        """The highest version of an API that a broker has; -1 if it does not have it."""
        return (await self._link(node)).versions.get(api_key, (0, -1))[1]

    async def has(self, api_key: int, node: int | None = None) -> bool:
        """Whether a broker has an API."""
        return api_key in (await self._link(node)).versions

    async def metadata(self, topics: Iterable[str] | None = None, *, allow_creation: bool = False) -> Any:
        """The Metadata response for these topics, or for all; brokers get their addresses from it."""
        from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic

        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=allow_creation)
        response = await self.call(request)
        self._nodes = {each.node_id: (each.host, each.port) for each in response.brokers}
        return response

    async def nodes(self) -> dict[int, tuple[str, int]]:
        """The brokers' addresses by their ids."""
        if not self._nodes:
            await self.metadata([])
        return self._nodes

    async def coordinator(self, key: str, kind: int = GROUP) -> int:
        """The id of the broker that coordinates a group or a transactional id. `CommandError`."""
        from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest

        async def ask() -> int:
            found = await self.call(FindCoordinatorRequest(key=key, key_type=kind), max_version=3)
            check(found.error_code, key, found.error_message)
            self._nodes[found.node_id] = (found.host, found.port)
            return int(found.node_id)

        return await self.until_done(ask)

    async def at_coordinator(
        self,
        key: str,
        request: Message,
        error_of: Callable[[Any], int],
        kind: int = GROUP,
        max_version: int | None = None,
    ) -> Any:
        """The response of a key's coordinator, asked anew while ``error_of`` the response is one that passes."""

        async def ask() -> Any:
            response = await self.call(request, await self.coordinator(key, kind), max_version)
            code = error_of(response)
            if code in PASSING:
                check(code, key)
            return response

        return await self.until_done(ask)

    async def until_done(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The outcome of attempts that end with a `CommandError` whose code passes, until the deadline."""
        while True:
            try:
                return await attempt()
            except CommandError as error:
                if error.code not in PASSING or self._left_s() <= PAUSE_S:
                    raise
            await asyncio.sleep(PAUSE_S)

    def _left_s(self) -> float:
        return self._deadline_s - asyncio.get_running_loop().time()

    async def _link(self, node: int | None) -> _Link:
        if node is None:
            await self.connect()
            assert self._any is not None
            return self._any
        link = self._links.get(node)
        if link is None or link.connection.closed:
            async with self._connecting.setdefault(node, asyncio.Lock()):  # two at a time make one connection
                link = self._links.get(node)
                if link is None or link.connection.closed:
                    link = self._links[node] = await self._connected(*await self._address(node))
        return link

    async def _address(self, node: int) -> tuple[str, int]:
        nodes = await self.nodes()
        if node not in nodes:
            raise CommandError(f"broker {node} is not there", ErrorCode.BROKER_NOT_AVAILABLE)
        return nodes[node]

    async def _connected(self, host: str, port: int) -> _Link:
        """A connection that knows the broker's versions. `CommandError`, with a code that passes if the broker may
        still come."""
        from kwire.codec.messages.api_versions_request import ApiVersionsRequest

        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            async with asyncio.timeout(max(self._left_s(), PAUSE_S)):
                connection = await self._connector.connect(host, port, self._client_id)
        except PermissionError as error:
            raise LoginRefused(f"{address}: {error}") from None
        except TimeoutError as error:
            reason = error.strerror or self._no_answer()
            raise CommandError(f"{address}: {reason}", ErrorCode.BROKER_NOT_AVAILABLE) from None
        except OSError as error:
            if error.errno == errno.EPROTO:  # TLS: a certificate, a version, a server without TLS
                raise _Refused(f"{address}: {error.strerror}") from None
            raise CommandError(f"{address}: {_reason(error)}", ErrorCode.BROKER_NOT_AVAILABLE) from None
        except ValueError as error:  # a key store or trust store that cannot be used
            raise _Refused(f"{address}: {error}") from None
        link = _Link(connection, address, {})
        response = await self._sent(link, ApiVersionsRequest(), 0)
        versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        return link._replace(versions=versions)

    async def _call(self, link: _Link, request: Message, max_version: int | None) -> Any:
        return await self._sent(link, request, self._version(link, request, max_version))

    def _version(self, link: _Link, request: Message, max_version: int | None) -> int:
        """The highest version that both sides have. `CommandError` if there is none."""
        first, last = request.VALID_VERSIONS
        low, high = link.versions.get(request.API_KEY, (0, -1))
        version = min(last, high) if max_version is None else min(last, high, max_version)
        if version < max(first, low):
            raise CommandError(
                f"{link.address}: the broker does not have {type(request).__name__.removesuffix('Request')}",
                ErrorCode.UNSUPPORTED_VERSION,
            )
        return version

    async def _sent(self, link: _Link, request: Message, version: int) -> Any:
        from kwire.net.client import ConnectionLost

        try:
            async with asyncio.timeout(max(self._left_s(), PAUSE_S)):
                return await link.connection.call(request, version)
        except ConnectionLost:
            raise CommandError(
                f"{link.address}: the broker closed the connection without a response", ErrorCode.NETWORK_EXCEPTION
            ) from None
        except TimeoutError:
            link.connection.close()
            raise NoAnswer(f"{link.address}: {self._no_answer()}") from None

    def _no_answer(self) -> str:
        return f"no answer within {self._timeout_s:g} s"


def _reason(error: OSError) -> str:
    """Why no connection came about; asyncio's own text has the address once more."""
    if error.errno is not None and error.errno > 0 and not isinstance(error, gaierror):
        return os.strerror(error.errno)
    return str(error.strerror or error)
