"""Clients with quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.comparisons.admin.requests import Wire
from compat_tests.comparisons.configs.quotas import Quotas
from compat_tests.names import Names
from harness.processes.brokers import Broker
from harness.wire_client import WireClient
from kwire.quotas.entities import CLIENT_ID

Limited = Callable[..., Callable[[], WireClient]]


@pytest.fixture
def quotas(broker: Broker) -> Iterator[Quotas]:
    """Quotas of the shared broker, removed after the test."""
    wire = Wire(broker.bootstrap)
    altered = Quotas(wire)
    yield altered
    altered.clear()
    wire.close()


@pytest.fixture
def limited(broker: Broker, quotas: Quotas, new_name: Names) -> Iterator[Limited]:
    """``limited(key=value)``: what connects as a client with a new client id, which has these quotas."""
    opened: list[WireClient] = []

    def make(**limits: float) -> Callable[[], WireClient]:
        client_id = new_name("client")
        quotas.alter(({CLIENT_ID: client_id}, limits))

        def connect() -> WireClient:
            opened.append(WireClient(broker.bootstrap, client_id))
            return opened[-1]

        return connect

    yield make
    for client in opened:
        client.close()
