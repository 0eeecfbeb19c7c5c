"""The text of a scrape: what has not changed since the last one is not rendered again, and nothing old is shown."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from kwire.metrics.render import Renderer

MESSAGES = "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"
FACTS = {"broker": 1, "pid": 0, "ready": True, "brokers": 1, "addresses": [[1, "localhost:9092"]]}
ENCODE, TEXT = choose_encoder("")
ENCODE_OPEN, OPENMETRICS = choose_encoder("application/openmetrics-text; version=1.0.0")


def partition(topic: str, index: int, end: int) -> list[Any]:
    return ["partition", topic, index, 100, 1, 0, end, end, end, 1, 1, 1]


def rows(orders: int = 5, others: int = 7) -> list[list[Any]]:
    return [
        ["metric", f"{MESSAGES},topic=orders", {"Count": orders}],
        ["metric", f"{MESSAGES},topic=others", {"Count": others}],
        ["metric", MESSAGES, {"Count": orders + others}],
        partition("orders", 0, orders),
        partition("others", 0, others),
        ["topic", "orders", [[1, 1, 1, 1]]],
        ["offsets", "billing", 1, [["orders", 0, 2]]],
    ]


class Counting:
    """An encoder that counts how many families it has written."""

    def __init__(self) -> None:
        self.families = 0

    def __call__(self, registry: Any) -> bytes:
        self.families += len(list(registry.collect()))
        return ENCODE(registry)


def rendered(renderer: Renderer, found: list[list[Any]], encode: Any = ENCODE) -> str:
    return renderer.render({"": (found, FACTS)}, encode, TEXT).decode()


def test_only_what_has_changed_is_rendered_again() -> None:
    renderer, counting = Renderer(), Counting()
    rendered(renderer, rows(), counting)
    first, counting.families = counting.families, 0
    rendered(renderer, rows(), counting)
    assert first > 20 and counting.families == 0
    rendered(renderer, rows(others=8), counting)
    assert 0 < counting.families < first / 2


def test_a_later_scrape_is_what_the_first_one_would_be() -> None:
    renderer = Renderer()
    for found in (rows(), rows(orders=6), rows(orders=6, others=9), rows()):
        assert rendered(renderer, found) == rendered(Renderer(), found)


def test_lag_follows_the_end_of_a_partition_though_nothing_was_committed() -> None:
    renderer = Renderer()
    lag = 'kafka_consumergroup_lag{consumergroup="billing",partition="0",topic="orders"} '
    assert lag + "3.0" in rendered(renderer, rows(orders=5))
    assert lag + "7.0" in rendered(renderer, rows(orders=9))


def test_a_deleted_topic_is_gone() -> None:
    renderer = Renderer()
    rendered(renderer, rows())
    without = [row for row in rows() if "orders" not in str(row)]
    assert "orders" not in rendered(renderer, without)
    assert rendered(renderer, rows()) == rendered(Renderer(), rows())


def test_each_family_has_one_header_and_its_samples_behind_it() -> None:
    text = rendered(Renderer(), rows())
    headers = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(headers) == len(set(headers))
    assert len([line for line in text.splitlines() if line.startswith("kafka_log_log_size{")]) == 2


def test_topics_with_hostile_names_cannot_write_headers() -> None:
    hostile = 'x"} 1\n# HELP kafka_brokers none\n# TYPE kafka_brokers gauge\n'
    text = rendered(Renderer(), [partition(hostile, 0, 1)])
    assert text.count("\n# HELP kafka_brokers ") + text.startswith("# HELP kafka_brokers ") == 1
    assert len(list(text_string_to_metric_families(text))) == text.count("\n# TYPE ")


@pytest.mark.parametrize("brokers", [("",), ("1", "2")])
def test_openmetrics_is_remembered_apart_and_ends_once(brokers: tuple[str, ...]) -> None:
    renderer = Renderer()
    snapshots: Any = {broker: (rows(), FACTS) for broker in brokers}
    renderer.render(snapshots, ENCODE, TEXT)
    for _ in range(2):
        text = renderer.render(snapshots, ENCODE_OPEN, OPENMETRICS).decode()
        assert text.endswith("# EOF\n") and text.count("# EOF") == 1
        families = {family.name: family for family in parse_openmetrics(text)}  # type: ignore[no-untyped-call]
        found = families["kafka_server_brokertopicmetrics_messagesin"].samples
        assert {sample.labels.get("broker", "") for sample in found} == set(brokers)
