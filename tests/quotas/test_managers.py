"""Who is charged for what, and for how long a client is throttled."""

from __future__ import annotations

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.metrics import MetricsRegistry
from kwire.base.quota import UNBOUNDED, MutationQuota
from kwire.quotas.entities import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)
from kwire.quotas.limits import ClientLimits
from kwire.quotas.managers import CLIENT_NAME_MAX, CLIENTS_MAX, EXPIRY_MS, UNLIMITED_BYTES, QuotaManagers
from kwire.quotas.sensors import metric_tags

ALICE: dict[str, str | None] = {USER: "alice"}


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> float:
        return self.ms / 1000


class Bench:
    def __init__(self) -> None:
        self.clock = Clock()
        self.quotas = QuotaManagers(self.clock)

    def limit(self, *limits: tuple[dict[str, str | None], str, float]) -> None:
        quotas: dict[QuotaEntity, dict[str, float]] = {}
        for names, key, value in limits:
            quotas.setdefault(QuotaEntity.of(names), {})[key] = value
        self.quotas.limit_by(ClientLimits(quotas))

    def produce(self, size: int, user: str = "alice", client_id: str = "c", busy_s: float = 0.0, acks: int = 1) -> int:
        now_ms = self.clock.ms
        client = self.quotas.client(user, client_id, now_ms)
        return self.quotas.charge_produce(client, size, busy_s, acks, now_ms)

    def fetch(self, size: int, busy_s: float = 0.0) -> int:
        now_ms = self.clock.ms
        return self.quotas.charge_fetch(self.quotas.client("alice", "c", now_ms), size, busy_s, now_ms)

    def request(self, busy_s: float, other_ms: int = 0) -> int:
        now_ms = self.clock.ms
        return self.quotas.charge_request(self.quotas.client("alice", "c", now_ms), busy_s, now_ms, other_ms)

    def metrics(self) -> dict[str, dict[str, float]]:
        registry = MetricsRegistry(self.clock)
        self.quotas.add_metrics(registry)
        return {name: value for name, value in registry.snapshot().items() if "BrokerTopicMetrics" not in name}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_without_limits_nothing_is_active(bench: Bench) -> None:
    seen = [bench.quotas.active]
    bench.limit((ALICE, PRODUCER_BYTE_RATE, 1000))
    seen.append(bench.quotas.active)
    bench.limit()
    assert [*seen, bench.quotas.active] == [False, True, False]


def test_a_limit_of_addresses_alone_costs_requests_nothing(bench: Bench) -> None:
    bench.limit(({"ip": None}, "connection_creation_rate", 5))
    assert not bench.quotas.active


def test_a_producer_over_its_limit_is_throttled(bench: Bench) -> None:
    bench.limit((ALICE, PRODUCER_BYTE_RATE, 1000))
    assert bench.produce(10_000) == 0
    assert bench.produce(5_000) == 5_000
    bench.clock.ms += 5_000
    assert bench.produce(0) == 5_000, "as in Kafka: what was used lately counts in the time of all windows"
    bench.clock.ms += 10_000
    assert bench.produce(0) == 0


def test_the_clients_of_a_user_share_its_limit_and_users_do_not_share_a_default(bench: Bench) -> None:
    bench.limit(({USER: None}, PRODUCER_BYTE_RATE, 1000))
    assert bench.produce(10_000, client_id="a") == 0
    assert bench.produce(10_000, user="bob") == 0
    assert bench.produce(1_000, client_id="b") == 1_000


def test_only_the_longer_throttle_time_of_two_violated_quotas_counts(bench: Bench) -> None:
    bench.limit((ALICE, PRODUCER_BYTE_RATE, 1000), (ALICE, REQUEST_PERCENTAGE, 1))
    assert bench.produce(10_100, busy_s=0.11) == 1_000  # the time's is bounded by a window, the bytes' is 100
    shown = bench.metrics()
    assert shown["kafka.server:type=Request,user=alice"]["throttle-time"] == 1_000
    assert shown["kafka.server:type=Produce,user=alice"]["throttle-time"] == 0


def test_the_time_of_acks_0_is_exempt_but_its_bytes_are_not(bench: Bench) -> None:
    bench.limit((ALICE, PRODUCER_BYTE_RATE, 1000), (ALICE, REQUEST_PERCENTAGE, 1))
    assert bench.produce(100, busy_s=5.0, acks=0) == 0
    assert bench.produce(20_000, acks=0) == 10_100
    assert bench.metrics()["kafka.server:type=Request"]["exempt-request-time"] == 50.0


def test_what_a_throttled_fetch_does_not_get_does_not_count(bench: Bench) -> None:
    bench.limit((ALICE, CONSUMER_BYTE_RATE, 1000))
    assert bench.fetch(12_000) == 2_000
    assert bench.fetch(9_000) == 0
    bench.limit((ALICE, CONSUMER_BYTE_RATE, 1000), (ALICE, REQUEST_PERCENTAGE, 1))
    assert bench.fetch(1_000, busy_s=0.2) == 1_000
    assert bench.fetch(1_000) > 0, "the time is still exceeded"
    assert bench.metrics()["kafka.server:type=Fetch,user=alice"]["byte-rate"] == 900


def test_a_fetch_is_as_large_as_the_windows_allow(bench: Bench) -> None:
    client = bench.quotas.client("alice", "c", bench.clock.ms)
    assert bench.quotas.fetch_bytes_max(client) == UNLIMITED_BYTES
    bench.limit((ALICE, CONSUMER_BYTE_RATE, 1000.5))
    assert bench.quotas.fetch_bytes_max(bench.quotas.client("alice", "c", bench.clock.ms)) == 10_005


def test_a_longer_throttle_time_that_the_response_has_already_is_kept(bench: Bench) -> None:
    bench.limit((ALICE, REQUEST_PERCENTAGE, 1))
    assert bench.request(0.0, other_ms=30) == 30
    assert bench.request(0.11, other_ms=30) == 1_000


def test_sending_counts_but_does_not_throttle(bench: Bench) -> None:
    bench.limit((ALICE, REQUEST_PERCENTAGE, 1))
    client = bench.quotas.client("alice", "c", bench.clock.ms)
    bench.quotas.charge_sending(client, 0.15, bench.clock.ms)
    assert bench.request(0.0) == 500 + 500  # 1.5 % of ten seconds, bounded by a window
    assert bench.metrics()["kafka.server:type=Request,user=alice"]["request-time"] == 1.5


def test_a_new_limit_applies_to_what_was_measured_before(bench: Bench) -> None:
    bench.limit((ALICE, PRODUCER_BYTE_RATE, 1_000_000))
    assert bench.produce(20_000) == 0
    bench.limit((ALICE, PRODUCER_BYTE_RATE, 1_000))
    assert bench.produce(0) == 10_000


def test_a_sensor_that_was_not_used_for_an_hour_is_dropped(bench: Bench) -> None:
    bench.limit(({CLIENT_ID: None}, PRODUCER_BYTE_RATE, 1000))
    for number in range(100):
        bench.produce(1, client_id=f"c{number}")
    bench.clock.ms += EXPIRY_MS // 2
    bench.produce(1, client_id="c7")
    bench.clock.ms += EXPIRY_MS // 2 + 1
    bench.produce(1, client_id="new")
    shown = [name for name in bench.metrics() if "client-id" in name]
    assert shown == ["kafka.server:type=Produce,client-id=c7", "kafka.server:type=Produce,client-id=new"]
    assert len(bench.quotas._clients) == 2


def test_the_queue_size_is_that_of_throttled_clients(bench: Bench) -> None:
    bench.limit((ALICE, PRODUCER_BYTE_RATE, 1000))
    bench.produce(20_000)
    assert bench.metrics()["kafka.server:type=Produce"]["queue-size"] == 1
    bench.clock.ms += 10_000
    assert bench.metrics()["kafka.server:type=Produce"]["queue-size"] == 0


@pytest.mark.parametrize(
    ("user", "client_id", "tags"),
    [
        ("alice", "app", ",user=alice,client-id=app"),
        ("CN=a b,O=ü~*", None, ",user=CN%3Da%20b%2CO%3D%C3%BC%7E%2A"),
        (None, 'a,b="c*"', ',client-id="a,b=\\"c\\*\\""'),
        (None, "ä", ',client-id="ä"'),
    ],
)
def test_tags_are_written_as_kafkas(user: str | None, client_id: str | None, tags: str) -> None:
    assert metric_tags(user, client_id) == tags


# -- controller mutations ---------------------------------------------------------------------------------------------


def mutations(bench: Bench, *, is_strict: bool) -> MutationQuota:
    return bench.quotas.mutation_quota("alice", "c", is_strict=is_strict)


def test_a_client_without_a_limit_pays_nothing(bench: Bench) -> None:
    bench.limit(({USER: "bob"}, CONTROLLER_MUTATION_RATE, 1))
    assert mutations(bench, is_strict=True) is UNBOUNDED
    bench.limit()
    assert mutations(bench, is_strict=True) is UNBOUNDED


def test_a_strict_request_is_refused_once_the_tokens_are_spent(bench: Bench) -> None:
    bench.limit((ALICE, CONTROLLER_MUTATION_RATE, 1))
    quota = mutations(bench, is_strict=True)
    quota.spend(10)
    quota.spend(5)
    assert quota.throttle_time_ms() == 0, "the last thing may be larger than what is left"
    with pytest.raises(KafkaError) as error:
        quota.spend(1)
    assert error.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert quota.throttle_time_ms() == 4_000
    bench.clock.ms += 1_000
    assert quota.throttle_time_ms() == 3_000


def test_a_permissive_request_is_done_and_throttled(bench: Bench) -> None:
    bench.limit((ALICE, CONTROLLER_MUTATION_RATE, 1))
    quota = mutations(bench, is_strict=False)
    quota.spend(15)
    quota.spend(5)
    assert quota.throttle_time_ms() == 9_000


def test_what_is_decided_again_is_paid_once(bench: Bench) -> None:
    bench.limit((ALICE, CONTROLLER_MUTATION_RATE, 1))
    quota = mutations(bench, is_strict=True)
    quota.spend(8)
    quota.restart()
    quota.spend(8)
    quota.restart()
    quota.spend(8)
    assert bench.metrics()["kafka.server:type=ControllerMutation,user=alice"]["tokens"] == 3


def test_what_is_decided_is_not_given_back(bench: Bench) -> None:
    bench.limit((ALICE, CONTROLLER_MUTATION_RATE, 1))
    quota = mutations(bench, is_strict=False)
    quota.spend(15)
    quota.keep()
    quota.spend(5)
    quota.restart()
    assert quota.throttle_time_ms() == 4_000
    quota.spend(2)
    quota.restart()
    assert bench.metrics()["kafka.server:type=ControllerMutation,user=alice"]["tokens"] == -4


def test_client_ids_do_not_fill_the_memory_and_evade_no_limit(bench: Bench) -> None:
    """A client may have another id in every request."""
    bench.limit((ALICE, PRODUCER_BYTE_RATE, 1000))
    for number in range(CLIENTS_MAX + 10):
        bench.quotas.client("alice", f"id-{number}", bench.clock.ms)
    kept = len(bench.quotas._clients)
    assert kept <= CLIENTS_MAX
    long_id = "x" * (CLIENT_NAME_MAX + 1)
    assert not bench.produce(1000, client_id=long_id)
    assert bench.produce(100_000, client_id=long_id) == bench.produce(0, client_id="another")
    assert len(bench.quotas._clients) == kept + 1
