"""HOST:PORT: its one parser and its one formatter. Listeners (``NAME://host:port``) are parsed in `base.config`."""

from __future__ import annotations

from typing import NamedTuple

PORT_MAX = 65535


class Address(NamedTuple):
    """A host and a port. ``str()`` gives ``host:port``, with an IPv6 address in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """``HOST:PORT`` or ``[IPV6]:PORT``; the host may be empty. ValueError without a port between 0 and 65535."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > PORT_MAX:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return Address(host.strip("[]"), int(port))
