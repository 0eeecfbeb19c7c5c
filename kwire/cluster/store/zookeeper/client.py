"""`Connection`: a kazoo client for the event loop. Calls are futures, and kazoo's events are handled on the loop.

kazoo (a ZooKeeper client, the optional extra ``kwire[zookeeper]``) has threads of its own. None of them touches
kwire's state: results, watches and state changes go through ``call_soon_threadsafe``. Without a connection, calls are
refused, and calls in progress fail at once with `StoreUnavailable`; kazoo may still send those later, so their outcome
is unknown.

What lives elsewhere: which calls are made and what the results mean (`zookeeper.store`), the names of the settings
(`kwire.base.config.tables.zookeeper`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.doors import Executor
from kwire.base.extras import needed
from kwire.base.logging import get_logger
from kwire.cluster.store.store import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig

RECONNECT_S: Final = 0.05
RECONNECT_S_MAX: Final = 1.0
DIGEST_LOGIN: Final = "DigestLoginModule"
KERBEROS_LOGIN: Final = "Krb5LoginModule"

_logger = get_logger("kwire.cluster.zookeeper")


class ZooKeeperSettings(NamedTuple):
    """How to connect to ZooKeeper. ``connect``: Kafka's `zookeeper.connect`, with or without a chroot."""

    connect: str
    session_timeout_ms: int = 9000
    connection_timeout_ms: int | None = None
    set_acl: bool = False
    tls: dict[str, Any] | None = None
    sasl: dict[str, str] | None = None

    @property
    def hosts(self) -> str:
        """The servers, as a comma-separated list of host:port."""
        return self.connect.partition("/")[0]

    @property
    def chroot(self) -> str:
        """The path of all nodes, "" for none."""
        segments = [segment for segment in self.connect.partition("/")[2].split("/") if segment]
        return "".join(f"/{segment}" for segment in segments)


def settings_of(config: KafkaConfig) -> ZooKeeperSettings:
    """The settings in a broker's configuration."""
    assert config.zookeeper_connect
    return ZooKeeperSettings(
        config.zookeeper_connect,
        config.zookeeper_session_timeout_ms,
        config.zookeeper_connection_timeout_ms,
        config.zookeeper_set_acl,
        _tls(config) if config.zookeeper_ssl_client_enable else None,
        sasl_options(config.kwire_zookeeper_sasl_jaas_config) if config.kwire_zookeeper_sasl_jaas_config else None,
    )


def _tls(config: KafkaConfig) -> dict[str, Any]:
    return {
        "use_ssl": True,
        "certfile": config.zookeeper_ssl_keystore_location,
        "keyfile": config.zookeeper_ssl_keystore_location,
        "keyfile_password": config.zookeeper_ssl_keystore_password,
        "ca": config.zookeeper_ssl_truststore_location,
        "verify_certs": True,
        "check_hostname": config.zookeeper_ssl_endpoint_identification_algorithm == "HTTPS",
    }


def sasl_options(jaas: str) -> dict[str, str]:
    """kazoo's options from one line of JAAS, as Kafka's ZooKeeper client reads it from its `Client` section."""
    module, _, rest = jaas.strip().rstrip(";").partition(" ")
    options = {
        name: value.strip('"') for name, found, value in (word.partition("=") for word in rest.split()[1:]) if found
    }
    if module.endswith(DIGEST_LOGIN):
        return {"mechanism": "DIGEST-MD5", "username": options["username"], "password": options["password"]}
    made = {"mechanism": "GSSAPI", "service": options.get("serviceName", "zookeeper")}
    return {**made, "principal": options["principal"]} if "principal" in options else made


class Connection:
    """A kazoo client that reconnects by itself, with a new ZooKeeper session if the old one has expired.

    ``on_connected()``, ``on_suspended()`` and ``on_expired()`` are called on the loop.
    """

    def __init__(
        self,
        settings: ZooKeeperSettings,
        executor: Executor,
        *,
        on_connected: Callable[[], None],
        on_suspended: Callable[[], None],
        on_expired: Callable[[], None],
    ) -> None:
        self.connected = False
        self.timeout_s = settings.session_timeout_ms / 1000
        """The session timeout that the server agreed to."""
        self.proven_s = 0.0
        """When the newest call with a response was made (loop time): the server ends the session no sooner than
        `timeout_s` after that."""
        self._settings = settings
        self._executor = executor
        self._on_connected = on_connected
        self._on_suspended = on_suspended
        self._on_expired = on_expired
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._log = _KazooLog()
        self._client: Any = None
        self._loop = asyncio.get_running_loop()
        self._first_connection: asyncio.Future[None] = self._loop.create_future()

    async def start(self) -> None:
        """Connect; `StoreUnavailable` with a one-line message after the connection timeout."""
        self._client = await self._executor.run(self._make_client)
        self._client.add_listener(self._on_kazoo_state)
        self._client.start_async()
        allowed_ms = self._settings.connection_timeout_ms or self._settings.session_timeout_ms
        try:
            async with asyncio.timeout(allowed_ms / 1000):
                await self._first_connection
        except TimeoutError:
            raise StoreUnavailable(
                f"zookeeper.connect={self._settings.connect}: no connection within {allowed_ms} ms"
                + (f": {self._log.last}" if self._log.last else "")
            ) from None

    def _make_client(self) -> Any:
        try:
            import kazoo.client
            import kazoo.handlers.threading
            import kazoo.security
        except ImportError:  # an optional extra
            raise StoreError(needed("zookeeper")) from None
        settings = self._settings
        if settings.tls is not None:
            _check_certificates(settings.tls)
        timeout_s = settings.session_timeout_ms / 1000
        connect_s = timeout_s / max(2, len(settings.hosts.split(",")))

        class Handler(kazoo.handlers.threading.SequentialThreadingHandler):  # type: ignore[misc]
            """Limits a connection attempt, so that an unreachable host does not use up the session timeout."""

            def create_connection(self, *arguments: Any, **options: Any) -> Any:
                return super().create_connection(*arguments, **{**options, "timeout": connect_s})

        # Others may not even read: users' credentials are among the keys.
        acl = list(kazoo.security.CREATOR_ALL_ACL) if settings.set_acl else None
        client = kazoo.client.KazooClient(
            hosts=settings.hosts,
            timeout=timeout_s,
            handler=Handler(),
            connection_retry={"max_tries": -1, "delay": RECONNECT_S, "max_delay": RECONNECT_S_MAX},
            default_acl=acl,
            sasl_options=dict(settings.sasl) if settings.sasl else None,
            logger=self._log,
            **(settings.tls or {}),
        )
        invoke = client._connection._invoke  # kazoo uses it for the handshake only
        client._connection._invoke = lambda timeout, *more, **named: invoke(min(timeout, connect_s), *more, **named)
        self._hook_connect(client._connection)
        return client

    def _hook_connect(self, connection: Any) -> None:
        """Wrap kazoo's internal connect, the only place with the negotiated timeout and the end of the login."""
        from kazoo.exceptions import ConnectionDropped, SessionExpiredError

        connect = connection._connect
        passed_on = (ConnectionDropped, SessionExpiredError, connection.handler.timeout_exception)

        def connect_and_report(*arguments: Any) -> tuple[float, float]:
            try:
                read_timeout_ms, connect_timeout_ms = connect(*arguments)
            except passed_on:
                raise
            except Exception as error:  # such as a refused login, after which kazoo would never try again
                raise ConnectionDropped(f"{type(error).__name__} {error}".rstrip()) from error
            self._to_loop(self._connect_done, read_timeout_ms * 1.5 / 1000)
            return read_timeout_ms, connect_timeout_ms

        connection._connect = connect_and_report

    async def stop(self) -> None:
        """End the ZooKeeper session and the threads."""
        self._suspend("the connection to ZooKeeper is closed")
        client, self._client = self._client, None
        if client is not None:
            await self._executor.run(_stop, client)

    def transaction(self) -> Any:
        """A kazoo `TransactionRequest`: add operations, then pass it to `commit`."""
        self._need_connection()
        return self._client.transaction()

    def commit(self, transaction: Any) -> asyncio.Future[list[Any]]:
        """Send a transaction. If it fails, every element of the result is an exception."""
        return self._send(transaction.commit_async)

    def call(self, method: str, path: str, *arguments: Any, **options: Any) -> asyncio.Future[Any]:
        """One of kazoo's calls, by the name of its blocking form. `StoreUnavailable`, and kazoo's `NoNodeError`,
        `NodeExistsError` and `BadVersionError`."""
        self._need_connection()
        return self._send(getattr(self._client, f"{method}_async"), path, *arguments, **options)

    def watcher(self, callback: Callable[[], None]) -> Callable[[Any], None]:
        """A kazoo watch that calls ``callback`` on the loop."""
        return lambda _event: self._to_loop(callback)

    def _need_connection(self) -> None:
        if not self.connected:
            last = self._log.last
            raise StoreUnavailable(f"no connection to ZooKeeper{f': {last}' if last else ''}")

    def _send(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> asyncio.Future[Any]:
        self._need_connection()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting[future] = None
        future.add_done_callback(self._waiting.pop)
        sent_s = self._loop.time()
        function(*arguments, **options).rawlink(lambda result: self._to_loop(self._complete, future, sent_s, result))
        return future

    def _complete(self, future: asyncio.Future[Any], sent_s: float, result: Any) -> None:
        from kazoo.exceptions import (
            AuthFailedError,
            BadVersionError,
            ConnectionClosedError,
            ConnectionLoss,
            NodeExistsError,
            NoNodeError,
            SessionExpiredError,
        )

        error = result.exception
        if not isinstance(error, (ConnectionLoss, SessionExpiredError, ConnectionClosedError, AuthFailedError)):
            self.proven_s = max(self.proven_s, sent_s)
        if future.done():
            return
        if error is None:
            future.set_result(result.value)
        elif isinstance(error, (NoNodeError, NodeExistsError, BadVersionError)):
            future.set_exception(error)
        else:
            future.set_exception(StoreUnavailable(f"ZooKeeper: {type(error).__name__} {error}".rstrip()))

    # -- events from kazoo's threads -----------------------------------------------------------------------------------

    def _to_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass  # the loop is closed

    def _on_kazoo_state(self, state: str) -> None:
        if state != "CONNECTED":  # `_connect_done` handles that one
            self._to_loop(self._connection_lost, state)

    def _connect_done(self, timeout_s: float) -> None:
        if self._client is None:
            return
        self.connected, self.timeout_s = True, timeout_s
        self._log.last = ""
        if not self._first_connection.done():
            self._first_connection.set_result(None)
        self._on_connected()

    def _connection_lost(self, state: str) -> None:
        if self._client is None:
            return
        was_connected = self.connected
        self._suspend("the connection to ZooKeeper is lost")
        if state == "LOST":
            self._on_expired()
        elif was_connected:
            self._on_suspended()

    def _suspend(self, reason: str) -> None:
        self.connected = False
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(StoreUnavailable(reason))


def _check_certificates(tls: dict[str, Any]) -> None:
    """Load the files that kazoo loads for each connection. `StoreError` names the one that cannot be used."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    name = "zookeeper.ssl.truststore.location"
    try:
        if tls["ca"]:
            context.load_verify_locations(tls["ca"])
        name = "zookeeper.ssl.keystore.location"
        if tls["certfile"]:
            context.load_cert_chain(tls["certfile"], tls["keyfile"], lambda: tls["keyfile_password"] or "")
    except OSError as error:
        file = tls["ca" if "trust" in name else "certfile"]
        raise StoreError(f"{name}={file} cannot be used: {error.strerror or error}") from None


def _stop(client: Any) -> None:
    client.stop()
    client.close()


class _KazooLog:
    """kazoo's logger: keeps the last warning for error messages, and logs at debug level. Called on kazoo's threads."""

    def __init__(self) -> None:
        self.last = ""

    def warning(self, message: str, *arguments: Any) -> None:
        text = message % arguments if arguments else message
        if not text.startswith("Transition"):  # a consequence, not a cause
            self.last = text
        _logger.debug(text)

    warn = error = exception = warning

    def info(self, message: str, *arguments: Any) -> None:
        _logger.debug(message % arguments if arguments else message)

    def debug(self, message: str, *arguments: Any) -> None:
        """Ignored: kazoo logs every request and response here."""

    def log(self, level: int, message: str, *arguments: Any) -> None:
        """Ignored, as `debug` is."""
