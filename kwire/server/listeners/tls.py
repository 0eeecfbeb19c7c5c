"""`ListenerTls`: the TLS context of a listener, and the change of its stores while the broker runs.

The ten properties of key store and trust store can be changed by IncrementalAlterConfigs under a listener's prefix, as
in Kafka. A change is tried before it is stored, and refused if

- the stores cannot be used, or a trust store would be added or removed;
- the certificate is for another distinguished name, or lacks an alternative name of the old one, unless
  `ssl.allow.dn.changes` or `ssl.allow.san.changes` allow that;
- brokers use this listener, and a broker with the new stores and one with the old stores would not trust each other.

Files are read again at every change of the broker's configuration, so setting a property to its present value makes
the broker read the new content of a file. Open connections keep the context with which they began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.base.config import ConfigError
from kwire.base.config.definitions import LISTENER_PREFIX
from kwire.base.logging import get_logger
from kwire.security.tls.certificates import certificate_facts, check_replacement
from kwire.security.tls.contexts import client_context, server_context
from kwire.security.tls.settings import TlsError
from kwire.security.tls.stores import Stores
from kwire.server.listeners.security import listener_tls_settings

if TYPE_CHECKING:
    from ssl import SSLContext

    from kwire.base.config import Endpoint, KafkaConfig
    from kwire.base.doors import Doors
    from kwire.security.tls.settings import TlsSettings

HANDSHAKE_STEPS_MAX: Final = 10
WARNED_DAYS: Final = 30
"""The broker warns of a certificate that expires within so many days, at start and when the configuration changes."""
DAY_S: Final = 86_400

_log = get_logger("kwire.server.listeners")


class _Loaded(NamedTuple):
    settings: TlsSettings
    context: SSLContext
    client: SSLContext | None
    """The context of brokers that connect to this listener, if brokers use it; host names are not checked."""
    chain_pem: str
    """The listener's certificates, its own first."""
    expires_ms: int
    """When the first of them expires."""
    has_trust_store: bool


class ListenerTls:
    """The TLS of one listener. ``on_change``: called with new settings when stores have changed."""

    def __init__(
        self,
        config: KafkaConfig,
        endpoint: Endpoint,
        doors: Doors,
        on_change: Callable[[TlsSettings], None],
    ) -> None:
        self._config = config
        self._endpoint = endpoint
        self._files = doors.files
        self._clock = doors.clock
        self._on_change = on_change
        self._loaded = self._load(config.values)
        self._warn()
        config.on_validate(self._validate)
        config.on_apply(self._apply)

    def context(self) -> SSLContext:
        """The context for the next connection."""
        return self._loaded.context

    @property
    def expires_in_s(self) -> float:
        """Seconds until the first certificate of the chain expires; negative if it has expired."""
        return (self._loaded.expires_ms - self._clock.time_ms()) / 1000

    def _warn(self) -> None:
        days = self.expires_in_s / DAY_S
        if days < WARNED_DAYS:
            _log.warning("a certificate ends soon", listener=self._endpoint.listener, days=round(days, 1))

    def _load(self, values: Mapping[str, Any]) -> _Loaded:
        settings = listener_tls_settings(values, self._endpoint)
        stores = Stores(settings, self._files)
        try:
            context = server_context(settings, self._files, stores)
            client = self._client(settings, stores)
            material, anchors = stores.key_material, stores.trust_anchors
        except TlsError as error:
            raise ConfigError(error.name, None, f"{error.reason} (listener {self._endpoint.listener})") from None
        assert material is not None
        expires_ms = min(each.not_after_ms for each in certificate_facts(material.chain_pem))
        return _Loaded(settings, context, client, material.chain_pem, expires_ms, anchors is not None)

    def _client(self, settings: TlsSettings, stores: Stores) -> SSLContext | None:
        if not self._config.is_clustered or self._endpoint.listener != self._config.inter_broker_listener():
            return None
        client = client_context(settings, self._files, stores)
        client.check_hostname = False
        return client

    def _validate(self, values: Mapping[str, Any]) -> None:
        """Try new values before they are stored. `ConfigError`."""
        if listener_tls_settings(values, self._endpoint) != self._loaded.settings:
            self._check(self._load(values), values)

    def _apply(self) -> None:
        """Apply changes of values or of files."""
        try:
            loaded = self._load(self._config.values)
            self._check(loaded, self._config.values)
        except ConfigError as error:
            _log.error("key store or trust store kept", listener=self._endpoint.listener, reason=str(error))
            return
        changed = loaded.chain_pem != self._loaded.chain_pem
        self._loaded = loaded
        self._on_change(loaded.settings)
        self._warn()
        if changed:
            _log.info("certificate changed", listener=self._endpoint.listener)

    def _check(self, new: _Loaded, values: Mapping[str, Any]) -> None:
        """Kafka's rules for new stores. `ConfigError`."""
        old, listener = self._loaded, self._endpoint.listener
        if new.has_trust_store != old.has_trust_store:
            raise ConfigError("ssl.truststore.location", None, f"cannot be added or removed (listener {listener})")
        try:
            check_replacement(
                old.chain_pem,
                new.chain_pem,
                allow_dn_changes=self._allows(values, "ssl.allow.dn.changes"),
                allow_san_changes=self._allows(values, "ssl.allow.san.changes"),
            )
        except TlsError as error:
            raise ConfigError(error.name, None, f"{error.reason} (listener {listener})") from None
        if old.client is not None and new.client is not None:
            self._try(new.context, old.client)
            self._try(old.context, new.client)

    def _allows(self, values: Mapping[str, Any], name: str) -> bool:
        prefixed = f"{LISTENER_PREFIX}{self._endpoint.listener.lower()}.{name}"
        return bool(values.get(prefixed, values[name]))

    @staticmethod
    def _try(server: SSLContext, client: SSLContext) -> None:
        """Check that brokers could connect to each other. `ConfigError`."""
        import ssl

        try:
            shake_hands(server, client)
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", None) or error.reason
            raise ConfigError("ssl.keystore.location", None, f"brokers would not trust each other: {reason}") from None


def shake_hands(server: SSLContext, client: SSLContext) -> None:
    """Make a TLS handshake in memory. ssl.SSLError if it fails."""
    import ssl

    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(HANDSHAKE_STEPS_MAX):
        left = []
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                left.append(end)
        ends = left or ends
        if not left:
            return
