"""New connections beyond the rate of their address are closed, those beyond the rate of the broker wait (KIP-612)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from compat_tests.comparisons.admin.requests import Wire
from compat_tests.comparisons.configs.quotas import Quotas
from harness.observations import Observations
from harness.processes.brokers import Broker
from harness.wire_client import WireClient
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.quotas.entities import CONNECTION_CREATION_RATE, IP


@pytest.fixture
def own(broker_factory: Callable[..., Broker]) -> Iterator[Broker]:
    """A broker for one test, with a rate of 4 connections per second: 40 at once, then one in 250 ms at most."""
    yield broker_factory({"max.connection.creation.rate": "4"})


def serves(broker: Broker) -> bool:
    """Open a connection. Whether it is served."""
    with WireClient(broker.bootstrap) as client:
        try:
            client.call(ApiVersionsRequest(), 0)
        except ConnectionError:
            return False
        return True


def test_connections(own: Broker, observe: Observations) -> None:
    wire = Wire(own.bootstrap)
    quotas = Quotas(wire)
    quotas.alter(({IP: "127.0.0.1"}, {CONNECTION_CREATION_RATE: 1}))
    observe("served or closed", [serves(own) for _ in range(13)])
    quotas.alter(({IP: "127.0.0.1"}, {CONNECTION_CREATION_RATE: None}))
    started = time.monotonic()
    observe("then all are served", all(serves(own) for _ in range(44)))
    observe("but some wait", time.monotonic() - started > 1)
    wire.close()
