"""The setups of secured listeners: what their connections begin with (TLS, the login, the client's principal).

What lives elsewhere: reading the configuration (`security`), logins (`authentication`), TLS (`kwire.net.tls`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kwire.base.config import ConfigError
from kwire.base.config.values import HIDDEN
from kwire.handlers.context import ConnectionSecurity
from kwire.net.connection import InvalidFrame, ListenerSetup
from kwire.security.client import GSSAPI, OAUTHBEARER, PLAIN
from kwire.security.names.distinguished import subject_name
from kwire.security.names.mapping import parse_mapping_rules
from kwire.security.principals import ANONYMOUS, USER_TYPE, Principal
from kwire.server.listeners.security import jaas_property, mechanism_value
from kwire.server.listeners.tls import DAY_S, ListenerTls
from kwire.server.requests.clients import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.cluster.connector import Connector
    from kwire.cluster.metadata.image import MetadataCache
    from kwire.cluster.metadata.token_logins import TokenLogins
    from kwire.net.connection import Connection
    from kwire.security.names.mapping import MappingRules
    from kwire.security.oauth.tokens import TokenCheck
    from kwire.security.sasl.mechanism import ServerExchange
    from kwire.security.scram_credentials import ScramCredential, ScramMechanism
    from kwire.security.tls.settings import TlsSettings
    from kwire.server.authentication.settings import LoginSettings
    from kwire.server.dispatch import Dispatcher
    from kwire.server.listeners.security import BrokerSecurity, ListenerSecurity

EXPIRY_METRIC: Final = "kwire.server:type=Certificates,listener={},name=ExpiresInDays"
"""Days until the first certificate of a listener expires."""

_RULES: Final = "ssl.principal.mapping.rules"
_KERBEROS_RULES: Final = "sasl.kerberos.principal.to.local.rules"
_MAX_REAUTH: Final = "connections.max.reauth.ms"


def listener_setups(
    doors: Doors,
    config: KafkaConfig,
    security: BrokerSecurity,
    main: Dispatcher,
    metadata: MetadataCache,
    connector: Connector | None,
) -> dict[str, ListenerSetup]:
    """The setups of all listeners, by name. `ConfigError` for a key store that cannot be used. ``connector`` receives
    the TLS settings of the listener for brokers when they change."""
    request_max_bytes = config.socket_request_max_bytes
    exchanges = _Exchanges(doors, config, metadata, _tokens(doors, config, metadata), security.checks)
    setups = {}
    for name, listener in security.listeners.items():
        protocol = listener.endpoint.security_protocol
        context = None
        if listener.tls is not None:
            follow = connector.use if connector is not None and name == config.inter_broker_listener() else _ignore
            tls = ListenerTls(config, listener.endpoint, doors, follow)
            main.services.metrics.gauge(EXPIRY_METRIC.format(name), partial(_expires_in_days, tls))
            context = tls.context
        if protocol.startswith("SASL"):
            from kwire.server.authentication.stage import Authentication

            settings = _login_settings(config, listener, exchanges)
            stage = Authentication(main, name, settings, request_max_bytes)
            on_handshake = stage.metrics.handshake_ended
            setups[name] = ListenerSetup(stage, settings.receive_max_bytes, context, True, on_handshake)
        elif protocol == "SSL":
            from kwire.server.authentication.metrics import LoginMetrics

            clients = CertificateClients(main, request_max_bytes, _rules(config, name))
            metrics = LoginMetrics(main.services.metrics, name, doors.clock.monotonic)
            setups[name] = ListenerSetup(clients, request_max_bytes, context, False, metrics.handshake_ended)
        else:
            setups[name] = ListenerSetup(main, request_max_bytes)
    return setups


def _rules(config: KafkaConfig, listener: str) -> MappingRules:
    text: str = config.get_for_listener(listener, _RULES)
    try:
        return parse_mapping_rules(text)
    except ValueError as error:
        raise ConfigError(_RULES, text, f"{error} (listener {listener})") from None


def _login_settings(config: KafkaConfig, listener: ListenerSecurity, exchanges: _Exchanges) -> LoginSettings:
    from kwire.server.authentication.settings import LoginSettings, Mechanism

    name, protocol = listener.endpoint.listener, listener.endpoint.security_protocol
    mechanisms = {
        each: Mechanism(exchanges.of(listener, each), mechanism_value(config, name, each, _MAX_REAUTH))
        for each in listener.mechanisms
    }
    return LoginSettings(
        mechanisms,
        protocol,
        config.get_for_listener(name, "sasl.server.max.receive.size"),
        config.connection_failed_authentication_delay_ms,
    )


def _expires_in_days(tls: ListenerTls) -> float:
    return round(tls.expires_in_s / DAY_S, 2)


def _ignore(_: TlsSettings) -> None:
    pass


def _tokens(doors: Doors, config: KafkaConfig, metadata: MetadataCache) -> TokenLogins | None:
    """The delegation tokens with which clients may log in, unless they are disabled (KIP-48). An empty key disables
    them, too: everybody could compute the password of a token that an earlier key has left."""
    if not config.delegation_token_secret_key:
        return None
    from kwire.cluster.metadata.token_logins import TokenLogins

    return TokenLogins(config.delegation_token_secret_key, lambda: metadata.image, doors.clock.time_ms)


class _Exchanges:
    """The broker's side of logins."""

    def __init__(
        self,
        doors: Doors,
        config: KafkaConfig,
        metadata: MetadataCache,
        tokens: TokenLogins | None,
        checks: Mapping[str, TokenCheck],
    ) -> None:
        self._doors = doors
        self._config = config
        self._metadata = metadata
        self._tokens = tokens
        self._checks = checks
        self._iterations = _Iterations()

    def of(self, listener: ListenerSecurity, mechanism: str) -> Callable[[], ServerExchange]:
        """The function that begins a login with a mechanism."""
        if mechanism == PLAIN:
            from kwire.security.sasl.plain import ServerPlain, users_of

            return partial(ServerPlain, users_of(listener.logins[mechanism].options))
        if mechanism == OAUTHBEARER:
            from kwire.security.sasl.oauthbearer import ServerOAuthBearer

            return partial(ServerOAuthBearer, self._checks[listener.endpoint.listener])
        if mechanism == GSSAPI:
            return self._gssapi(listener)
        from kwire.security.scram_credentials import MECHANISMS

        return partial(self._scram, MECHANISMS[mechanism])

    def _gssapi(self, listener: ListenerSecurity) -> Callable[[], ServerExchange]:
        from kwire.security.kerberos import Acceptor, default_realm, kerberos_login
        from kwire.security.names.kerberos import parse_kerberos_rules
        from kwire.security.sasl.gssapi import GssError, ServerGssapi

        name = listener.endpoint.listener
        rules: tuple[str, ...] = self._config.get_for_listener(name, _KERBEROS_RULES)
        service = self._config.get_for_listener(name, "sasl.kerberos.service.name")
        try:
            acceptor = Acceptor(kerberos_login(listener.logins[GSSAPI].options, service))
            realm = default_realm()
        except (GssError, ValueError) as error:
            raise ConfigError(jaas_property(name, GSSAPI), HIDDEN, str(error)) from None
        try:
            parsed = parse_kerberos_rules(realm, rules)
        except ValueError as error:
            raise ConfigError(_KERBEROS_RULES, ",".join(rules), f"{error} (listener {name})") from None
        return partial(ServerGssapi, acceptor.context, parsed, self._doors.executor.run)

    def _scram(self, mechanism: ScramMechanism) -> ServerExchange:
        from kwire.security.sasl.scram import ScramLookup, ServerScram

        image = self._metadata.image
        credential = partial(image.scram_credential, mechanism)
        iterations = self._iterations.of(image.scram_credentials, mechanism)
        lookup = ScramLookup(credential, image.scram_secret, self._tokens, iterations)
        return ServerScram(mechanism, lookup, self._doors.random.randbytes)


class _Iterations:
    """The different numbers of iterations of all users, counted once for each change of credentials."""

    def __init__(self) -> None:
        self._credentials: Mapping[tuple[int, str], ScramCredential] | None = None
        self._found: dict[int, tuple[int, ...]] = {}

    def of(self, credentials: Mapping[tuple[int, str], ScramCredential], mechanism: int) -> tuple[int, ...]:
        """Those of a mechanism, in ascending order; Kafka's default if it has no user."""
        from kwire.security.scram_credentials import ITERATIONS_MIN

        if credentials is not self._credentials:
            pairs = sorted({(code, each.iterations) for (code, _), each in credentials.items()})
            self._found = {code: tuple(count for of, count in pairs if of == code) for code, _ in pairs}
            self._credentials = credentials
        return self._found.get(mechanism, (ITERATIONS_MIN,))


class CertificateClients:
    """The dispatcher of an SSL listener's connections until their first request, which sets the principal from the
    client's certificate."""

    pipelined_keys: frozenset[int] = frozenset()

    def __init__(self, main: Dispatcher, request_max_bytes: int, rules: MappingRules) -> None:
        self._main = main
        self._request_max_bytes = request_max_bytes
        self._rules = rules

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        """Set the client's principal, and pass this request and all later ones on. Raises `InvalidFrame`."""
        connection.context = client = self._main.client_of(connection, Client)
        client.identify(self._principal(connection), ConnectionSecurity("SSL"))
        connection.use(self._main, self._request_max_bytes)
        self._main.dispatch(connection, frame)

    def _principal(self, connection: Connection) -> Principal:
        """The principal that the mapping rules give the certificate's subject; anonymous without a certificate."""
        certificate = connection.tls.peer_certificate_der() if connection.tls is not None else None
        if certificate is None:
            return ANONYMOUS
        try:
            return Principal(USER_TYPE, self._rules.apply(subject_name(certificate)))
        except ValueError as error:
            raise InvalidFrame(f"the client's certificate makes no principal: {error}") from None
