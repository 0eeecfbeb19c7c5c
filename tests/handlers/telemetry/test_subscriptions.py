"""Which metrics are wanted of which clients."""

from __future__ import annotations

import pytest

from kwire.handlers.telemetry.subscriptions import INTERVAL_MS, ClientAttributes, Subscription, Wanted, wanted

CLIENT = ClientAttributes("id", "orders-1", "apache-kafka-java", "4.3.1", "127.0.0.1", "4711")


def of(**values: str) -> Subscription:
    return Subscription.of({key.replace("_ms", ".ms"): value for key, value in values.items()})


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("", True),
        ("client_id=orders-.*", True),
        ("client_id=orders", False),  # the whole attribute has to match
        ("client_id=orders-1,client_software_name=apache.*", True),
        ("client_id=orders-1,client_software_name=librdkafka", False),
        (" client_source_port = [0-9]+ ", True),
        ("client_software_version=4\\.[0-3]\\.\\d", True),
        ("client_id=\\p{IsGreek}", False),  # Java's, and not translated
    ],
)
def test_a_client_matches_if_all_patterns_do(match: str, expected: bool) -> None:
    assert of(metrics="a", match=match).matches(CLIENT) is expected


def test_a_client_without_a_name_matches_no_pattern_for_it() -> None:
    assert not of(match="client_id=.*").matches(CLIENT._replace(client_id=None))


def test_all_matching_subscriptions_are_put_together() -> None:
    found = [of(metrics="b, a", interval_ms="2000"), of(metrics="c,a", interval_ms="1000"), of(match="client_id=x")]
    assert wanted(found, CLIENT) == Wanted(("a", "b", "c"), 1000)


def test_a_star_stands_for_all() -> None:
    assert wanted([of(metrics="a"), of(metrics="*", interval_ms="3600000")], CLIENT) == Wanted(("*",), INTERVAL_MS)


def test_nothing_is_wanted_without_a_subscription() -> None:
    assert wanted([], CLIENT) == Wanted((), INTERVAL_MS)
