"""The bound sockets of a broker's listeners, and the addresses that follow from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.base.addresses import Address
from kwire.cluster.metadata.image import Endpoint
from kwire.net.listener import BoundSocket
from kwire.server.errors import StartError
from kwire.server.settings import net_settings

if TYPE_CHECKING:
    from kwire.base.config import Endpoint as ConfiguredEndpoint
    from kwire.base.config import KafkaConfig
    from kwire.base.doors import Doors
    from kwire.net.settings import NetSettings


_EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")


class Network(NamedTuple):
    """Sockets in whose backlogs clients wait until the broker accepts. ``endpoints``: the addresses to register."""

    settings: NetSettings
    sockets: list[BoundSocket]
    unprotected: list[str]
    """The listeners that other hosts reach and that have no authentication."""
    endpoints: list[Endpoint]
    advertised: dict[str, tuple[str, int]]
    """The address of this broker in responses, by listener; where it is missing, the one that the client used."""

    @classmethod
    def bind(cls, doors: Doors, config: KafkaConfig) -> Network:
        """Bind all listeners; port 0 picks a free port. `StartError` if one cannot be bound."""
        settings = net_settings(config)
        sockets: list[BoundSocket] = []
        for endpoint in config.endpoints():
            try:
                sockets += BoundSocket.bind(doors, settings, endpoint)
            except OSError as error:
                _close(sockets)
                raise StartError(f"listeners={endpoint}: cannot listen: {error.strerror or error}") from None
        endpoints = _registered(config, sockets)
        # The brokers of a cluster all return the same address for a broker: the registered one.
        is_cluster = config.kwire_metadata_dir or config.zookeeper_connect
        named = endpoints if is_cluster else [each for each in endpoints if _has_name(config, each.listener)]
        return cls(
            settings,
            sockets,
            _unprotected(config, sockets),
            endpoints,
            {each.listener: (each.host, each.port) for each in named},
        )

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of the first listener."""
        return str(Address(self.endpoints[0].host, self.endpoints[0].port))

    def close(self) -> None:
        """Close the sockets, if the server that accepts on them has not closed them."""
        _close(self.sockets)


def _unprotected(config: KafkaConfig, sockets: list[BoundSocket]) -> list[str]:
    reached = dict.fromkeys(bound.endpoint for bound in sockets if not bound.is_loopback)
    return [str(endpoint) for endpoint in reached if not _is_authenticated(config, endpoint)]


def _is_authenticated(config: KafkaConfig, endpoint: ConfiguredEndpoint) -> bool:
    if endpoint.security_protocol == "SSL":
        return bool(config.get_for_listener(endpoint.listener, "ssl.client.auth") == "required")
    return endpoint.security_protocol.startswith("SASL")


def _registered(config: KafkaConfig, sockets: list[BoundSocket]) -> list[Endpoint]:
    """The addresses of the listeners as the cluster registers them: the advertised one, or the one bound to."""
    advertised = {endpoint.listener: endpoint for endpoint in config.advertised_endpoints()}
    endpoints = []
    for own, port in {bound.endpoint: bound.address[1] for bound in sockets}.items():
        known = advertised.get(own.listener)
        host, port = (known.host, known.port) if known is not None else (_reachable(own.host), port)
        endpoints.append(Endpoint(own.listener, host, port, own.security_protocol))
    return endpoints


def _has_name(config: KafkaConfig, listener: str) -> bool:
    """Whether the configuration names the host by which clients reach a listener: in `advertised.listeners`, or as in
    Kafka in `listeners` if that is neither empty nor every interface."""
    named = [*config.advertised_endpoints(), *([] if config.is_local_only else config.endpoints())]
    return any(each.listener == listener and each.host not in _EVERY_INTERFACE for each in named)


def _reachable(host: str) -> str:
    """The host by which a client on this machine reaches a listener."""
    return "localhost" if host in _EVERY_INTERFACE else host


def _close(sockets: list[BoundSocket]) -> None:
    for bound in sockets:
        bound.socket.close()
