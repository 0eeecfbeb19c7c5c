"""Client telemetry (KIP-714): what clients are asked for, and what becomes of their pushes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.comparisons.configs.requests import CLIENT_METRICS, DELETE, SET, Configs, error_name, wait_until
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker
from harness.wire_client import WireClient
from kwire.base.uuids import ZERO_UUID
from kwire.codec import compression
from kwire.codec.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kwire.codec.messages.push_telemetry_request import PushTelemetryRequest

SCOPE = bytes([10, 4, 18, 2, 10, 0])
"""``MetricsData`` with one resource and one scope that has no metrics."""


class Client:
    """A client with an id of its own; ``number`` makes the id."""

    def __init__(self, broker: Broker, client_id: str, number: int = 0) -> None:
        self.wire = WireClient(broker.bootstrap, client_id)
        self.id = ZERO_UUID if not number else number.to_bytes(16)
        self.subscription = 0

    def get(self) -> dict[str, Any]:
        """Ask what is wanted."""
        found = self.wire.call(GetTelemetrySubscriptionsRequest(client_instance_id=self.id), 0)
        given = found.client_instance_id
        if not found.error_code:
            self.subscription = found.subscription_id
        result = {
            "error": error_name(found.error_code),
            "id": given != ZERO_UUID if self.id == ZERO_UUID else given.hex(),
            "types": found.accepted_compression_types,
            "interval": found.push_interval_ms,
            "max": found.telemetry_max_bytes,
            "delta": found.delta_temporality,
            "metrics": sorted(found.requested_metrics),
        }
        if self.id == ZERO_UUID:
            self.id = given
        return result

    def push(self, metrics: bytes = SCOPE, compression_type: int = 0, **options: Any) -> str:
        """Push metrics: the name of the error."""
        options = {"client_instance_id": self.id, "subscription_id": self.subscription, **options}
        request = PushTelemetryRequest(metrics=metrics, compression_type=compression_type, **options)
        return error_name(self.wire.call(request, 0).error_code)


class Clients:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._opened: list[Client] = []

    def __call__(self, client_id: str = "telemetry", number: int = 0) -> Client:
        client = Client(self._broker, client_id, number)
        self._opened.append(client)
        return client

    def close(self) -> None:
        for client in self._opened:
            client.wire.close()


@pytest.fixture
def clients(broker: Broker) -> Iterator[Clients]:
    made = Clients(broker)
    yield made
    made.close()


@pytest.fixture
def subscribe(broker: Broker, new_name: Names) -> Iterator[Any]:
    """Set the properties of a subscription; all are deleted at the end."""
    names: list[str] = []
    configs = Configs(WireClient(broker.bootstrap))

    def put(**properties: str) -> None:
        names.append(new_name("subscription"))
        changes = [(key.replace("_", "."), SET, value) for key, value in properties.items()]
        assert configs.change(CLIENT_METRICS, names[-1], *changes) == "NONE"
        wait_until(lambda: set(configs.values(CLIENT_METRICS, names[-1], 7)) == {key for key, _, _ in changes})

    def subscribe(**properties: str) -> None:
        put(**properties)
        put(match="client_id=nobody")  # when Apache Kafka shows this one, it follows the one before

    yield subscribe
    for name in names:
        configs.change(CLIENT_METRICS, name, *((key, DELETE, None) for key in ("interval.ms", "match", "metrics")))
    configs.client.close()


def test_a_client_that_nobody_subscribes_to(clients: Clients, observe: Observations) -> None:
    client = clients()
    observe("first question", client.get())
    observe("too soon", client.get())
    observe("push", client.push())
    observe("push too soon", client.push())
    observe("last push", client.push(terminating=True))
    observe("after the last push", client.push())
    client.wire.close()
    again = clients()
    again.id = client.id
    wait_until(lambda: again.get()["error"] == "NONE")  # once the broker has noticed that the connection is closed


def test_ids_that_no_client_has(clients: Clients, observe: Observations) -> None:
    observe("zero", clients().push())
    observe("one", clients(number=1).push())
    observe("a question by one", clients(number=1).get())
    observe("never asked", clients(number=77).push())
    observe("chosen by the client", clients(number=78).get())


def test_subscriptions(clients: Clients, subscribe: Any, new_name: Names, observe: Observations) -> None:
    name = new_name("client")
    client = clients(name, 1001)
    observe("before", client.get())
    subscribe(metrics="org.apache.kafka.consumer.,org.apache", interval_ms="60000", match=f"client_id={name}")
    observe("one", client.get())
    observe("with its subscription", client.push())
    subscribe(
        metrics="org.foo,org.apache", interval_ms="1000", match=f"client_id={name[:-1]}.,client_source_port=[0-9]+"
    )
    observe("push by the old one", client.push())
    observe("two", client.get())
    subscribe(metrics="org.bar", interval_ms="100", match=f"client_id={name[:-1]}")
    subscribe(metrics="org.address", match=f"client_id={name},client_source_address=127\\.0\\.0\\.1")
    subscribe(metrics="org.software", match=f"client_id={name},client_software_name=unknown")
    subscribe(metrics="org.no.id", match=f"client_id={name},client_instance_id=x.*")
    observe("part of a name does not match", client.get())
    subscribe(metrics="*", interval_ms="3600000", match=f"client_id={name}")
    observe("all", client.get())
    observe("another client", clients(new_name("other"), 1002).get())


def test_the_error_of_a_push_and_the_next_question(clients: Clients, observe: Observations) -> None:
    pushes: dict[str, dict[str, Any]] = {
        "subscription": {"subscription_id": 5},
        "compression": {"compression_type": 9},
        "negative compression": {"compression_type": -1},
        "size": {"metrics": bytes((1 << 20) + 1)},
        "empty": {"metrics": b""},
    }
    for number, (what, options) in enumerate(pushes.items()):
        client = clients(number=2000 + number)
        client.get()
        observe(what, client.push(**options))
        observe(f"question after {what}", client.get()["error"])
        observe(f"second question after {what}", client.get()["error"])


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression(clients: Clients, observe: Observations, name: str) -> None:
    kind = compression.NAMES.index(name)
    client = clients(number=3000 + kind)
    client.get()
    observe("pushed", client.push(compression.compress(kind, SCOPE * 1000), kind))
