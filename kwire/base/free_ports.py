"""Free ports for servers whose port must be known before they bind it, or stay the same when they are restarted.

Where neither is needed, a server binds to port 0 and the kernel chooses. A port chosen beforehand must lie outside the
kernel's ephemeral ports: one of those may become the local port of any outgoing connection while no server holds it.
"""

from __future__ import annotations

import errno
import random
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PORTS: Final = range(10_000, 65_536)  # below them are the well-known ones of many servers
_LEAST: Final = 1_000
_EPHEMERAL_LINUX: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_DEFAULT: Final = "32768 60999"


def ephemeral_ports() -> range:
    """The ports that the kernel gives to outgoing connections. Source: ip_local_port_range, ip-sysctl of Linux."""
    try:
        text = _EPHEMERAL_LINUX.read_text()
    except OSError:  # not Linux
        text = _EPHEMERAL_DEFAULT
    first, last = map(int, re.findall(r"\d+", text))
    return range(first, last + 1)


def server_ports(ephemeral: range) -> range:
    """The ports to choose from: the larger part of those that are not ephemeral. All, where next to none is left."""
    below = range(_PORTS.start, min(ephemeral.start, _PORTS.stop))
    above = range(max(ephemeral.stop, _PORTS.start), _PORTS.stop)
    larger = max(below, above, key=len)
    return larger if len(larger) >= _LEAST else _PORTS


def is_free(port: int) -> bool:
    """Whether no socket of this host is bound to a TCP port, on any address."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False  # any other error: a host without this family
    return True


def free_ports() -> Iterator[int]:
    """Free ports outside the ephemeral ones, each only once, in random order."""
    ports = server_ports(ephemeral_ports())
    yield from filter(is_free, random.sample(ports, len(ports)))
