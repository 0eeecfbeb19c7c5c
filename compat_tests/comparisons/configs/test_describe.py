"""DescribeConfigs and ListConfigResources: the same responses as Apache Kafka's."""

from __future__ import annotations

import pytest

from compat_tests.comparisons.configs.requests import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    LOGGER,
    TOPIC,
    Configs,
    wait_until,
)
from compat_tests.names import Names
from harness.observations import Observations

# Properties that the brokers were started with: addresses, directories, roles.
_START = {
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.voters",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "process.roles",
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
}
# kwire's own defaults for a single broker (and node.id, which has no default in Kafka).
_OWN_DEFAULTS = {
    "group.initial.rebalance.delay.ms",
    "offsets.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "node.id",
    "broker.id",
}


LEVELS = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}


def test_a_topics_properties(configs: Configs, new_name: Names, observe: Observations) -> None:
    plain = configs.create(new_name())
    observe("nothing set", configs.describe(TOPIC, plain))
    overridden = configs.create(
        new_name(),
        {
            "retention.ms": "1000",
            "cleanup.policy": "compact,delete",
            "segment.bytes": "2097152",
            "min.cleanable.dirty.ratio": "0.25",
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": "1",
            "preallocate": "TRUE",
            "leader.replication.throttled.replicas": "*",
        },
    )
    observe("some set", configs.describe(TOPIC, overridden))


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version(configs: Configs, new_name: Names, observe: Observations, version: int) -> None:
    topic = configs.create(new_name(), {"retention.ms": "1000"})
    observe("topic", configs.describe(TOPIC, topic, version=version))
    observe("without synonyms", configs.describe(TOPIC, topic, version=version, synonyms=False))
    if version >= 3:
        observe("documentation", configs.describe(TOPIC, topic, version=version, documentation=True))


def test_some_properties_only(configs: Configs, new_name: Names, observe: Observations) -> None:
    topic = configs.create(new_name())
    observe("two", configs.describe(TOPIC, topic, ["retention.ms", "no.such", "flush.ms", "retention.ms"]))
    observe("none means all", configs.describe(TOPIC, topic, [])["count"])
    observe("broker", configs.describe(BROKER, "1", ["num.partitions", "no.such"]))
    observe("logger", configs.describe(LOGGER, "1", ["no.such"]))


def test_a_brokers_properties(configs: Configs, broker_kind: str, observe: Observations) -> None:
    found = configs.describe(BROKER, "1")["configs"]
    if broker_kind == "kwire":
        own = [name for name in found if name.startswith("kwire.")]
        assert own == [
            "kwire.balance.enable",
            "kwire.balance.throttled.rate",
            "kwire.jaas.config.file",
            "kwire.metrics.listen",
            "kwire.metrics.names",
            "kwire.metrics.otel.endpoint",
            "kwire.metrics.otel.interval.ms",
            "kwire.metrics.password",
            "kwire.metrics.ssl.certificate.location",
            "kwire.metrics.ssl.key.location",
            "kwire.metrics.topics",
            "kwire.metrics.username",
            "kwire.sasl.oauthbearer.allowed.urls",
            "kwire.telemetry.otlp.endpoint",
            "kwire.test.control",
            "kwire.test.supported.features",
            "kwire.validate.records",
        ]
        found = {name: entry for name, entry in found.items() if name not in own}
    shape = ("read_only", "sensitive", "type")
    observe("shapes", {name: [entry[part] for part in shape] for name, entry in found.items()})
    for name in _START:
        del found[name]["value"], found[name]["source"], found[name]["synonyms"]
    for name in _OWN_DEFAULTS:
        found[name]["synonyms"] = [each for each in found[name]["synonyms"] if each[2] != 5]
        if found[name]["source"] == 5:
            del found[name]["value"]
    observe("values", found)
    observe("all brokers", configs.describe(BROKER, ""))


def test_properties_that_clients_may_ask_documentation_of(configs: Configs, broker_kind: str) -> None:
    found = configs.describe(BROKER, "1", ["num.partitions", "log.retention.ms"], documentation=True)["configs"]
    assert all(entry["documentation"] for entry in found.values())


def test_groups_and_subscriptions_for_which_nothing_is_set(configs: Configs, observe: Observations) -> None:
    observe("group", configs.describe(GROUP, "no-such-group"))
    observe("client metrics", configs.describe(CLIENT_METRICS, "no-such-subscription"))


def test_loggers(configs: Configs, observe: Observations) -> None:
    found = configs.describe(LOGGER, "1")
    root = found["configs"]["root"]
    assert {entry.pop("value") for entry in found["configs"].values()} <= LEVELS
    observe("root", root)
    assert all(entry == root for entry in found["configs"].values())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TOPIC, "no-such-topic"),
        (TOPIC, "no/such"),
        (TOPIC, ""),
        (TOPIC, "."),
        (BROKER, "7"),
        (BROKER, "-1"),
        (BROKER, "one"),
        (LOGGER, "7"),
        (LOGGER, ""),
        (LOGGER, "one"),
        (CLIENT_METRICS, ""),
        (GROUP, ""),
        (0, "x"),
        (3, "x"),
        (64, "x"),
    ],
)
def test_what_cannot_be_described(configs: Configs, observe: Observations, kind: int, name: str) -> None:
    observe("response", configs.describe(kind, name))


def test_listing_what_has_a_configuration(own_configs: Configs, observe: Observations) -> None:
    configs = own_configs
    configs.create("listed")
    assert configs.change(CLIENT_METRICS, "subscription", ("interval.ms", 0, "1000")) == "NONE"
    assert configs.change(GROUP, "group", ("consumer.session.timeout.ms", 0, "46000")) == "NONE"
    wait_until(lambda: configs.values(GROUP, "group", 8))
    for kinds in ([TOPIC, CLIENT_METRICS], [BROKER], [LOGGER], [CLIENT_METRICS], [GROUP], [3], [TOPIC, 0], [-1]):
        observe(f"{kinds}", _without_internal(configs.list(kinds)))
    observe("all", _without_internal(configs.list([])))
    observe("version 0", configs.list([], version=0))


def _without_internal(listed: list[object]) -> list[object]:
    error, resources = listed
    assert isinstance(resources, list)
    return [error, [each for each in resources if not each[1].startswith("__")]]
