"""``kwire config``: the same output on both brokers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.comparisons.cli.conftest import Kwire, words
from compat_tests.names import Names
from harness.observations import Observations


def test_configurations_of_a_topic_are_set_shown_and_taken_back(
    kwire: Kwire, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = f"topic/{make_topic()}"
    observe("set", kwire("config", "set", topic, "retention.ms=3600000", "cleanup.policy=compact"))
    observe("shown", kwire.until("compact", "config", "get", topic))
    observe("add to a list", kwire("config", "set", topic, "cleanup.policy+=delete", "-o", "json"))
    kwire.until("compact,delete", "config", "get", topic)
    observe("subtract from it", kwire("config", "set", topic, "cleanup.policy-=compact", "-o", "json"))
    observe("one", kwire("config", "get", topic, "max.message.bytes", "-o", "yaml"))
    observe("dry run", kwire("config", "unset", topic, "retention.ms", "--dry-run"))
    observe("unset", kwire("config", "unset", topic, "retention.ms", "cleanup.policy"))
    kwire.until("[]", "config", "get", topic, "-o", "json")
    everything = kwire("config", "get", topic, "--all", "-o", "json").json()
    observe("names of all", [each["name"] for each in everything])
    for wrong in ("retention.ms=soon", "no.such.config=1"):
        observe(wrong, words(kwire("config", "set", topic, wrong)))
    observe("unknown name", kwire("config", "get", topic, "no.such.config"))
    observe("unknown topic", words(kwire("config", "get", "topic/no-such-topic")))


def test_configurations_of_groups_and_client_metrics(kwire: Kwire, new_name: Names, observe: Observations) -> None:
    group, metrics = f"group/{new_name('group')}", f"client-metrics/{new_name('metrics')}"
    observe("group", kwire("config", "set", group, "consumer.session.timeout.ms=50000"))
    observe("shown", kwire.until("50000", "config", "get", group))
    observe("metrics", kwire("config", "set", metrics, "interval.ms=5000", "metrics=org.apache."))
    kwire.until(metrics.partition("/")[2], "config", "list")
    listed = kwire("config", "list", "-o", "json").json()
    for each in (group, metrics):
        kind, _, name = each.partition("/")
        assert {"type": kind, "name": name} in listed
        assert kwire("config", "list", "--type", kind, "-o", "json").json() == [
            row for row in listed if row["type"] == kind
        ]
    observe("unset", kwire("config", "unset", group, "consumer.session.timeout.ms"))
    observe("unset metrics", kwire("config", "unset", metrics, "interval.ms", "metrics"))


def test_configurations_of_brokers(kwire: Kwire, observe: Observations) -> None:
    observe("one broker", kwire("config", "set", "broker/1", "log.cleaner.backoff.ms=15001", "-o", "json"))
    observe("all brokers", kwire("config", "set", "broker/*", "log.cleaner.backoff.ms=15002"))
    observe("shown", kwire.until("15001", "config", "get", "broker/1", "log.cleaner.backoff.ms"))
    observe("read only", words(kwire("config", "set", "broker/1", "broker.id=7")))
    observe("no broker", kwire("config", "get", "broker/77"))
    observe("no number", kwire("config", "get", "broker/x"))
    observe("back", kwire("config", "unset", "broker/1", "log.cleaner.backoff.ms"))
    observe("all back", kwire("config", "unset", "broker/*", "log.cleaner.backoff.ms"))


@pytest.mark.parametrize(
    "arguments", [["get", "orders"], ["get", "shelf/1"], ["set", "topic/t", "retention.ms"], ["move"]]
)
def test_wrong_options_are_wrong_usage(arguments: list[str], kwire: Kwire) -> None:
    wrong = kwire("config", *arguments)
    assert (wrong.status, wrong.out) == (2, "")
    assert wrong.err.count("\n") == 1 and "(see kwire config" in wrong.err
