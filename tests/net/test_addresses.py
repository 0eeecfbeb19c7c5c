"""Addresses as sockets tell them and as Kafka writes them."""

from __future__ import annotations

import pytest

from kwire.base.addresses import Address, parse_address
from kwire.net.addresses import client_host_text, host_and_port


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("::", "/0:0:0:0:0:0:0:0"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1%eth0"),
        ("2001:db8::8a2e:370:7334", "/2001:db8:0:0:0:8a2e:370:7334"),
        ("1:2:3:4:5:6:7:8", "/1:2:3:4:5:6:7:8"),
    ],
)
def test_client_hosts_are_written_as_java_does(host: str, text: str) -> None:
    assert client_host_text(host) == text


def test_an_ipv4_client_of_an_ipv6_socket_counts_as_ipv4() -> None:
    assert host_and_port(("::ffff:10.1.2.3", 55, 0, 0)) == ("10.1.2.3", 55)
    assert host_and_port(("::1", 55, 0, 0)) == ("::1", 55)


def test_ipv6_addresses_have_brackets_before_a_port() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
    assert str(Address("localhost", 9092)) == "localhost:9092"


@pytest.mark.parametrize("text", ["localhost:9092", "127.0.0.1:0", "[::1]:65535", ":9092"])
def test_an_address_is_parsed_and_written_back(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "localhost:-1", "localhost:x", "localhost:65536"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_address(text)
