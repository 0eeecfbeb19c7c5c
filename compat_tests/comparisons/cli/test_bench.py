"""``kwire bench``: the same records on both brokers; how long they take is the machine's affair."""

from __future__ import annotations

from collections.abc import Callable

from compat_tests.comparisons.cli.conftest import Kwire
from compat_tests.names import Names
from harness.observations import Observations


def test_a_topic_is_measured(kwire: Kwire, make_topic: Callable[..., str], observe: Observations) -> None:
    topic = make_topic(2)
    produced = kwire("bench", "produce", topic, "-n", "25000", "--record-size", "10", "-o", "json").json()
    assert (produced["records"], produced["bytes"]) == (25_000, 250_000)
    assert 0 < produced["latency_ms"]["min"] <= produced["latency_ms"]["p99"] <= produced["latency_ms"]["max"]
    some = kwire(
        "bench", "produce", topic, "-n", "10", "--rate", "1000", "-z", "lz4", "--acks", "1", "-o", "json"
    ).json()
    assert some["records"] == 10
    consumed = kwire("bench", "consume", topic, "-o", "json").json()
    assert (consumed["records"], consumed["bytes"], consumed["latency_ms"]) == (25_010, 251_000, None)
    latency = kwire("bench", "latency", topic, "-n", "20", "--rate", "1000", "-o", "json").json()
    assert latency["records"] == 20 and latency["latency_ms"]["min"] > 0
    table = kwire("bench", "latency", topic, "-n", "5", "--rate", "1000")
    assert (table.status, table.err) == (0, "") and " ms  " in table.out and "#" in table.out
    for name, each in {"produce": produced, "consume": consumed, "latency": latency}.items():
        observe(name, list(each))


def test_a_topic_that_is_not_there_is_not_measured(kwire: Kwire, new_name: Names) -> None:
    unknown = new_name("unknown")
    for action in ("produce", "consume", "latency"):
        refused = kwire("bench", action, unknown)
        assert refused == (
            1,
            "",
            f"kwire: topic {unknown}: there is no such topic (kwire topic create {unknown})\n",
        )
    assert kwire("bench", "produce", unknown, "-n", "0").status == 2
