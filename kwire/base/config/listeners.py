"""Listener texts (``NAME://host:port``) into endpoints, by Kafka's rules. No sockets here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from kwire.base.addresses import PORT_MAX, Address
from kwire.base.config.errors import ConfigError

_ENDPOINT = re.compile(r"([A-Za-z0-9_.-]+)://(\[([0-9a-fA-F:.]+(?:%[\w.-]+)?)\]|[^:/\[\]]*):(-?[0-9]{1,10})")
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

LOCAL_ONLY: Final = "only this machine is served: set listeners=PLAINTEXT://:9092 (or --listen :9092) to serve others"
"""Logged at start if `listeners` is not set."""


class Endpoint(NamedTuple):
    """One listener: its name (upper case), host ("" for every address), port (0 picks a free one) and protocol."""

    listener: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        return f"{self.listener}://{Address(self.host, self.port)}"


def parse_protocol_map(name: str, text: str) -> dict[str, str]:
    """``LISTENER:PROTOCOL,...`` as a mapping; if a listener is named twice, the last protocol counts."""
    protocols: dict[str, str] = {}
    for entry in text.split(","):
        listener, colon, protocol = entry.strip().rpartition(":")
        listener, protocol = listener.strip().upper(), protocol.strip().upper()
        if not colon or protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(name, text, "must be a list of LISTENER:PROTOCOL, with " + ", ".join(SECURITY_PROTOCOLS))
        protocols[listener] = protocol
    return protocols


def parse_endpoints(name: str, texts: Iterable[str], protocols: dict[str, str]) -> list[Endpoint]:
    """Endpoints in the order given. Raises `ConfigError` for a text that is not an endpoint, for a listener without a
    protocol, and for a listener named twice."""
    endpoints: list[Endpoint] = []
    for text in texts:
        endpoint = _parse_endpoint(name, text, protocols)
        if any(other.listener == endpoint.listener for other in endpoints):
            raise ConfigError(name, ",".join(texts), f"must not name listener {endpoint.listener} twice")
        endpoints.append(endpoint)
    return endpoints


def _parse_endpoint(name: str, text: str, protocols: dict[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text.strip())
    if match is None or not -1 <= int(match[4]) <= PORT_MAX:
        raise ConfigError(name, text, "must be NAME://host:port with a port between 0 and 65535")
    listener = match[1].upper()
    if listener not in protocols:
        raise ConfigError(name, text, f"listener {listener} has no protocol in listener.security.protocol.map")
    return Endpoint(listener, match[3] or match[2], int(match[4]), protocols[listener])


def check_ports(name: str, endpoints: list[Endpoint]) -> None:
    """Two listeners may share a port only if one has an IPv4 and the other an IPv6 address. Raises `ConfigError`."""
    for index, endpoint in enumerate(endpoints):
        for other in endpoints[:index]:
            if endpoint.port == other.port != 0 and (":" in endpoint.host) == (":" in other.host):
                raise ConfigError(name, ",".join(map(str, endpoints)), f"port {endpoint.port} is used twice")
