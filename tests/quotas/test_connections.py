"""Rates of new connections."""

from __future__ import annotations

import pytest

from kwire.base.metrics import MetricsRegistry
from kwire.cluster.metadata.image import ClusterImage
from kwire.quotas import connections
from kwire.quotas.connections import ConnectionRates
from kwire.quotas.entities import CONNECTION_CREATION_RATE, IP, USER, ClientQuotas, QuotaEntity
from kwire.quotas.limits import ClientLimits
from tests.quotas.test_managers import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rates(clock: Clock) -> ConnectionRates:
    return ConnectionRates(clock, protected="BROKERS")


def accepted(rates: ConnectionRates, listener: str, number: int) -> list[int]:
    return [rates.accepted(listener) for _ in range(number)]


def test_connections_beyond_the_rate_of_a_listener_wait(rates: ConnectionRates) -> None:
    rates.limit_listener("A", 1)
    assert accepted(rates, "A", 13) == [*[0] * 10, 1000, 1000, 1000]  # 1.1 times in ten seconds: 1 s
    assert accepted(rates, "B", 20) == [0] * 20


def test_the_rate_of_the_broker_counts_all_listeners_but_that_of_brokers(rates: ConnectionRates) -> None:
    rates.limit_broker(1)
    assert accepted(rates, "BROKERS", 20) == [0] * 20
    assert accepted(rates, "A", 5) + accepted(rates, "B", 6) == [*[0] * 10, 1000]


def test_a_wait_is_at_most_one_window(rates: ConnectionRates) -> None:
    rates.limit_broker(0)
    assert rates.accepted("A") == 1000


def test_connections_beyond_the_rate_of_their_address_are_refused_and_do_not_count(
    rates: ConnectionRates, clock: Clock
) -> None:
    limits = {QuotaEntity.of({IP: None}): {CONNECTION_CREATION_RATE: 1.0}}
    limits[QuotaEntity.of({IP: "10.0.0.9"})] = {CONNECTION_CREATION_RATE: 2.0}
    rates.limit_addresses(ClientLimits(limits))
    assert [rates.refused_ms("A", "10.0.0.1") for _ in range(15)] == [*[0] * 10, *[1000] * 5]
    assert [rates.refused_ms("A", "::ffff:10.0.0.1"), rates.refused_ms("A", "10.0.0.2")] == [1000, 0]
    assert [rates.refused_ms("A", "10.0.0.9") for _ in range(21)] == [*[0] * 20, 500]
    clock.ms += 12_000
    assert rates.refused_ms("A", "10.0.0.1") == 0


def test_only_the_limits_of_addresses_are_indexed(rates: ConnectionRates, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit of quotas makes the index anew, however many users have limits."""
    indexed: list[int] = []

    def noted(quotas: ClientQuotas) -> ClientLimits:
        indexed.append(len(quotas))
        return ClientLimits(quotas)

    monkeypatch.setattr(connections, "ClientLimits", noted)
    quotas = {QuotaEntity.of({USER: f"u{number}"}): {"producer_byte_rate": 1.0} for number in range(9)}
    quotas[QuotaEntity.of({IP: "10.0.0.9"})] = {CONNECTION_CREATION_RATE: 2.0}
    rates.follow(ClusterImage(client_quotas=quotas))
    assert indexed == [1]
    assert [rates.refused_ms("A", "10.0.0.9") for _ in range(21)] == [*[0] * 20, 500]


def test_the_metrics_are_kafkas(rates: ConnectionRates, clock: Clock) -> None:
    registry = MetricsRegistry(clock)
    rates.add_metrics(registry, ["A"])
    rates.limit_addresses(ClientLimits({QuotaEntity.of({IP: None}): {CONNECTION_CREATION_RATE: 1.0}}))
    rates.limit_listener("A", 1)
    accepted(rates, "A", 11)
    for _ in range(11):
        rates.refused_ms("A", "::1")
    shown = {name: value for name, value in registry.snapshot().items() if "socket-server" in name}
    assert shown == {
        "kafka.server:type=socket-server-metrics": {"broker-connection-accept-rate": 1.1},
        "kafka.server:type=socket-server-metrics,listener=A": {
            "connection-accept-rate": 1.1,
            "connection-accept-throttle-time": 1000,
            "ip-connection-accept-throttle-time": 1000,
        },
        "kafka.server:type=socket-server-metrics,ip=::1": {"connection-accept-rate": 1.0},
    }
