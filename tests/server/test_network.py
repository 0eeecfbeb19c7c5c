"""The addresses that a broker gives to its clients."""

from __future__ import annotations

import pytest

from kwire.base.config import KafkaConfig
from kwire.base.doors import Doors
from kwire.server.network import Network


@pytest.mark.parametrize(
    ("properties", "host"),
    [
        ({"listeners": "PLAINTEXT://localhost:0"}, "localhost"),
        ({"listeners": "PLAINTEXT://127.0.0.1:0"}, "127.0.0.1"),
        ({"listeners": "PLAINTEXT://:0"}, None),
        ({"listeners": "PLAINTEXT://0.0.0.0:0"}, None),
        ({"listeners": "PLAINTEXT://:0", "advertised.listeners": "PLAINTEXT://broker.test:1234"}, "broker.test"),
        ({"listeners": "PLAINTEXT://localhost:0", "advertised.listeners": "PLAINTEXT://broker.test:1"}, "broker.test"),
    ],
)
def test_clients_get_the_name_in_the_configuration_or_the_address_that_they_used(
    properties: dict[str, str], host: str | None
) -> None:
    network = Network.bind(Doors(), KafkaConfig(properties))
    try:
        assert {name: address[0] for name, address in network.advertised.items()} == (
            {} if host is None else {"PLAINTEXT": host}
        )
    finally:
        network.close()
