"""The clients that push metrics: when each may ask and push, and when it is forgotten."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.store.keys import ConfigResource
from kwire.handlers.telemetry import clients as rules
from kwire.handlers.telemetry.clients import TelemetryClient, TelemetryClients
from kwire.handlers.telemetry.subscriptions import ClientAttributes

THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
INTERVAL_MS = 1000


class Bench:
    """Clients with a subscription to all metrics, and a clock."""

    def __init__(self) -> None:
        self.now_ms = 5_000_000
        self.configurations: Mapping[tuple[ConfigResource, str], Mapping[str, str]] = {}
        self.clients = TelemetryClients(lambda: self.configurations, None, random.Random(1), lambda: self.now_ms)
        self.subscribe("*")

    def subscribe(self, metrics: str) -> None:
        values = {"metrics": metrics, "interval.ms": str(INTERVAL_MS)}
        self.configurations = {(ConfigResource.CLIENT_METRICS, "s"): values, (ConfigResource.TOPIC, "t"): {}}

    def ask(self, number: int = 1, connection: str = "c") -> TelemetryClient:
        return self.clients.question(bytes([number] * 16), connection, _attributes(number))

    def push(
        self, client: TelemetryClient, number: int = 1, *, last: bool = False, subscription: int | None = None
    ) -> None:
        wanted = client.subscription_id if subscription is None else subscription
        self.clients.push(bytes([number] * 16), "c", _attributes(number), terminating=last, subscription=wanted)


def _attributes(number: int) -> ClientAttributes:
    return ClientAttributes(str(number), "client", "software", "1", "127.0.0.1", "1")


@pytest.fixture
def bench() -> Bench:
    return Bench()


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


def test_a_client_asks_and_pushes_once_in_an_interval(bench: Bench) -> None:
    client = bench.ask()
    assert client.wanted.metrics == ("*",)
    bench.now_ms += 1
    bench.push(client)
    for _ in range(2):
        bench.now_ms += INTERVAL_MS // 2 - 1
        with refused(THROTTLED):
            bench.push(client)
        with refused(THROTTLED):
            bench.ask()
    bench.now_ms += 2
    bench.push(client)
    assert client.throttled == 4


def test_the_last_push_comes_at_any_time_and_none_after_it(bench: Bench) -> None:
    client = bench.ask()
    bench.push(client)
    bench.push(client, last=True)
    bench.now_ms += INTERVAL_MS
    with refused(ErrorCode.INVALID_REQUEST):
        bench.push(client)


def test_after_an_unknown_subscription_a_client_may_ask_at_once(bench: Bench) -> None:
    client = bench.ask()
    with refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
        bench.push(client, subscription=client.subscription_id + 1)
    bench.ask()
    with refused(THROTTLED):
        bench.ask()


def test_changed_subscriptions_are_told_at_once_and_refuse_the_old_id(bench: Bench) -> None:
    before = bench.ask()
    bench.configurations = {**bench.configurations, (ConfigResource.TOPIC, "t"): {"retention.ms": "1"}}
    with refused(THROTTLED):  # nothing about metrics has changed
        bench.ask()
    bench.subscribe("org.")
    with refused(ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
        bench.push(before)
    after = bench.ask()
    assert after.wanted.metrics == ("org.",)
    assert after.subscription_id != before.subscription_id


def test_subscription_ids_differ_between_clients(bench: Bench) -> None:
    ids = [bench.ask(number, f"c{number}").subscription_id for number in range(1, 50)]
    assert len(set(ids)) == len(ids)
    assert all(-(1 << 31) <= each < 1 << 31 for each in ids)


def test_a_client_is_forgotten_with_its_connection(bench: Bench) -> None:
    bench.ask()
    bench.clients.disconnected("another")
    with refused(THROTTLED):
        bench.ask()
    bench.clients.disconnected("c")
    assert not len(bench.clients)
    bench.ask()


def test_silent_clients_are_forgotten(bench: Bench) -> None:
    bench.ask(1, "c1")
    bench.now_ms += rules.EXPIRY_MS - 1
    bench.ask(2, "c2")
    bench.now_ms += 1
    bench.ask(3, "c3")
    assert len(bench.clients) == 2
    with refused(THROTTLED):
        bench.ask(3, "c3")


def test_the_number_of_clients_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "CLIENTS_MAX", 3)
    for number in range(1, 6):
        bench.ask(number, f"c{number}")
    assert len(bench.clients) == 3
    bench.ask(1, "c1")  # displaced, so it is new
    with refused(THROTTLED):
        bench.ask(5, "c5")


def test_a_new_id_is_of_nobody(bench: Bench) -> None:
    assert bench.clients.new_id() != bench.clients.new_id()
