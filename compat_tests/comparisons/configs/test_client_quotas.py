"""DescribeClientQuotas: without quotas there is nothing to describe, but wrong filters are refused as by Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.comparisons.admin.requests import Wire, facts
from harness.observations import Observations
from harness.processes.brokers import Broker
from kwire.codec.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest

EXACT, DEFAULT, SPECIFIED = 0, 1, 2

FILTERS: list[list[tuple[str, int, str | None]]] = [
    [],
    [("user", EXACT, "alice")],
    [("user", DEFAULT, None), ("client-id", SPECIFIED, None)],
    [("ip", EXACT, "127.0.0.1")],
    [("", EXACT, "x")],
    [("user", EXACT, None)],
    [("user", EXACT, "")],
    [("user", DEFAULT, "x")],
    [("user", SPECIFIED, "x")],
    [("user", 3, None)],
    [("user", -1, "x")],
    [("host", EXACT, "x")],
    [("User", EXACT, "x")],
    [("user", EXACT, "x"), ("user", EXACT, "y")],
    [("user", SPECIFIED, None), ("user", EXACT, "x")],
    [("host", EXACT, "x"), ("host", EXACT, "x")],
    [("ip", EXACT, "x"), ("user", EXACT, "x")],
    [("client-id", SPECIFIED, None), ("ip", DEFAULT, None)],
    [("ip", DEFAULT, None), ("", EXACT, "x")],
]


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    client = Wire(broker.bootstrap)
    yield client
    client.close()


@pytest.mark.parametrize("version", [0, 1])
def test_filters(wire: Wire, observe: Observations, version: int) -> None:
    for strict in (False, True):
        for filters in FILTERS:
            components = [
                ComponentData(entity_type=kind, match_type=match, match=text) for kind, match, text in filters
            ]
            response = wire.call(DescribeClientQuotasRequest(components=components, strict=strict), version)
            observe(f"{filters} {strict}", [facts(response), response.error_message])
