"""Addresses as sockets return them and as Kafka writes them. HOST:PORT texts: `kwire.base.addresses`."""

from __future__ import annotations

from typing import Any

_MAPPED = "::ffff:"


def host_and_port(address: Any) -> tuple[str, int]:
    """The host and port in an address that `getsockname` or `accept` returned, IPv4 or IPv6. An IPv4-mapped IPv6
    address becomes IPv4."""
    host: str = address[0]
    if host.startswith(_MAPPED) and "." in host:
        host = host[len(_MAPPED) :]
    return host, address[1]


def client_host_text(host: str) -> str:
    """A client's address as Kafka writes it (`/127.0.0.1`, `/0:0:0:0:0:0:0:1`)."""
    if ":" not in host:
        return "/" + host
    address, percent, zone = host.partition("%")
    head, _, tail = address.partition("::")
    front = head.split(":") if head else []
    back = tail.split(":") if tail else []
    if "::" in address:
        front += ["0"] * (8 - len(front) - len(back))
    return "/" + ":".join(f"{int(group, 16):x}" for group in front + back) + percent + zone
