"""Which ports are chosen for servers that must know their port before they bind it."""

from __future__ import annotations

import socket
from itertools import islice

import pytest

from kwire.base.free_ports import ephemeral_ports, free_ports, is_free, server_ports


@pytest.mark.parametrize(
    ("ephemeral", "expected"),
    [
        (range(32768, 61000), range(10_000, 32768)),  # Linux
        (range(49152, 65536), range(10_000, 49152)),  # macOS
        (range(1024, 40000), range(40000, 65536)),
        (range(1024, 65536), range(10_000, 65536)),  # no port is left: any may be chosen
        (range(10_100, 65_000), range(10_000, 65536)),
    ],
)
def test_the_larger_part_of_what_is_not_ephemeral(ephemeral: range, expected: range) -> None:
    assert server_ports(ephemeral) == expected


def test_free_ports_are_distinct_and_not_ephemeral() -> None:
    chosen = list(islice(free_ports(), 200))
    assert len(set(chosen)) == 200
    assert set(chosen) <= set(server_ports(ephemeral_ports()))


@pytest.mark.parametrize("host", ["127.0.0.1", "", "::1"])
def test_a_port_that_is_bound_on_one_address_is_not_free(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("this host has no IPv6")
    with server:
        port = server.getsockname()[1]
        assert not is_free(port)
