"""IncrementalAlterConfigs and AlterConfigs: kwire accepts and refuses what Apache Kafka accepts and refuses."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.comparisons.configs.requests import (
    APPEND,
    BROKER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    LOGGER,
    SET,
    SUBTRACT,
    TOPIC,
    Change,
    Configs,
    wait_until,
)
from compat_tests.names import Names
from harness.observations import Observations
from kwire.codec.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource


def topic_state(configs: Configs, topic: str) -> dict[str, Any]:
    """The topic's configuration, once all earlier changes have taken effect."""
    _mark(configs, topic, "242424")
    _mark(configs, topic, "424242")  # which may have been there from an earlier call
    return {name: entry for name, entry in configs.describe(TOPIC, topic)["configs"].items() if entry["source"] == 1}


def _mark(configs: Configs, topic: str, value: str) -> None:
    assert configs.change(TOPIC, topic, ("retention.ms", SET, value)) == "NONE"
    wait_until(lambda: configs.values(TOPIC, topic, 1).get("retention.ms") == value)


TOPIC_CHANGES: list[list[Change]] = [
    [("retention.ms", SET, "5000")],
    [("retention.ms", SET, " 77 ")],
    [("retention.ms", SET, "x")],
    [("retention.ms", SET, "-5")],
    [("retention.ms", SET, "")],
    [("retention.ms", SET, None)],
    [("retention.ms", SET, "9223372036854775808")],
    [("retention.ms", DELETE, "anything")],
    [("retention.ms", DELETE, None)],
    [("no.such", SET, "1")],
    [("no.such", DELETE, None)],
    [("no.such", APPEND, "x")],
    [("retention.ms", SET, "1"), ("retention.ms", SET, "1")],
    [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
    [("retention.ms", APPEND, "1")],
    [("retention.ms", SUBTRACT, "1")],
    [("retention.ms", SET, "1"), ("segment.ms", SET, "x")],
    [("cleanup.policy", APPEND, "compact")],
    [("cleanup.policy", APPEND, "compact,delete")],
    [("cleanup.policy", APPEND, "shred")],
    [("cleanup.policy", APPEND, "")],
    [("cleanup.policy", APPEND, None)],
    [("cleanup.policy", SUBTRACT, "shred")],
    [("cleanup.policy", SUBTRACT, "compact,delete")],
    [("cleanup.policy", SET, "")],
    [("cleanup.policy", SET, "compact,compact")],
    [("cleanup.policy", SET, "Compact")],
    [("compression.type", SET, "lzo")],
    [("compression.gzip.level", SET, "0")],
    [("message.timestamp.type", SET, "createtime")],
    [("preallocate", SET, "yes")],
    [("preallocate", SET, "True")],
    [("segment.bytes", SET, "14")],
    [("segment.bytes", SET, "2147483648")],
    [("min.cleanable.dirty.ratio", SET, "1.1")],
    [("min.cleanable.dirty.ratio", SET, "1e-1")],
    [("min.cleanable.dirty.ratio", SET, "0.5d")],
    [("max.message.bytes", SET, "+100000")],
    [("max.message.bytes", SET, "1_000")],
    [("leader.replication.throttled.replicas", APPEND, "0:1")],
    [("leader.replication.throttled.replicas", SET, "zzz")],
    [("follower.replication.throttled.replicas", SET, "none")],
    [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
    [("remote.storage.enable", SET, "true")],
    [("internal.segment.bytes", SET, "1000")],
    [],
]


@pytest.mark.parametrize("version", [0, 1])
def test_changing_topics(configs: Configs, new_name: Names, observe: Observations, version: int) -> None:
    for number, changes in enumerate(TOPIC_CHANGES):
        topic = configs.create(new_name())
        error = configs.change(TOPIC, topic, *changes, version=version)
        state = topic_state(configs, topic)
        observe(f"{number} {changes}", [error, state])


def test_changes_of_one_topic_add_up(configs: Configs, new_name: Names, observe: Observations) -> None:
    topic = configs.create(new_name(), {"cleanup.policy": "compact", "flush.ms": "5"})
    for changes in (
        [("cleanup.policy", APPEND, "delete"), ("flush.ms", DELETE, None), ("segment.ms", SET, "60000")],
        [("cleanup.policy", SUBTRACT, "compact")],
        [("segment.ms", SET, "70000"), ("delete.retention.ms", SET, "1")],
    ):
        assert configs.change(TOPIC, topic, *changes) == "NONE"
    observe("state", topic_state(configs, topic))


def test_topics_that_cannot_be_changed(configs: Configs, new_name: Names, observe: Observations) -> None:
    change: Change = ("retention.ms", SET, "1")
    for name in ("no-such-topic", "no/such", "", "."):
        observe(f"{name!r}", configs.change(TOPIC, name, change))
        observe(f"{name!r} validate only", configs.change(TOPIC, name, change, validate_only=True))
        observe(f"{name!r} replaced", configs.replace(TOPIC, name, [("retention.ms", "1")]))
    for kind in (0, 3, 64):
        observe(f"type {kind}", configs.change(kind, "x", change))
        observe(f"type {kind} replaced", configs.replace(kind, "x", []))


def test_validating_only_changes_nothing(configs: Configs, new_name: Names, observe: Observations) -> None:
    topic = configs.create(new_name())
    observe("good", configs.change(TOPIC, topic, ("flush.ms", SET, "9"), validate_only=True))
    observe("bad", configs.change(TOPIC, topic, ("flush.ms", SET, "x"), validate_only=True))
    observe("replaced", configs.replace(TOPIC, topic, [("flush.ms", "8")], validate_only=True))
    observe("state", topic_state(configs, topic))


def test_one_resource_twice_does_not_spoil_the_others(configs: Configs, new_name: Names, observe: Observations) -> None:
    names = [configs.create(new_name()), configs.create(new_name())]
    resources = [
        AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[AlterableConfig(name="flush.ms", config_operation=SET, value="5")],
        )
        for name in (names[0], names[1], names[0])
    ]
    observe("errors", configs.change_all(resources))
    observe("states", [topic_state(configs, name) for name in names])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_replacing_everything(configs: Configs, new_name: Names, observe: Observations, version: int) -> None:
    topic = configs.create(new_name(), {"flush.ms": "5"})
    scripts: list[list[tuple[str, str | None]]] = [
        [("flush.ms", "6"), ("segment.ms", "60000")],
        [("segment.ms", "70000")],
        [("segment.ms", None)],
        [("segment.ms", "x")],
        [("no.such", "x")],
        [("segment.ms", "1"), ("segment.ms", "1")],
        [],
    ]
    for number, texts in enumerate(scripts):
        observe(f"{number}", configs.replace(TOPIC, topic, texts, version=version))
        observe(f"{number} state", topic_state(configs, topic))


BROKER_CHANGES: list[tuple[str, list[Change]]] = [
    ("1", [("node.id", SET, "2")]),
    ("1", [("num.partitions", SET, "1")]),
    ("1", [("num.partitions", DELETE, None)]),
    ("", [("num.partitions", SET, "1")]),
    ("1", [("log.retention.hours", SET, "5")]),
    ("1", [("no.such", SET, "1")]),
    ("", [("no.such", SET, "1")]),
    ("", [("ssl.keystore.location", SET, "/x")]),
    ("1", [("ssl.keystore.location", SET, "/x")]),
    ("", [("sasl.kerberos.min.time.before.relogin", SET, "58000")]),
    ("1", [("sasl.kerberos.min.time.before.relogin", SET, "58000")]),
    ("1", [("sasl.login.class", SET, "x")]),
    ("1", [("ssl.key.password", SET, "x")]),
    ("", [("listeners", SET, "PLAINTEXT://:1")]),
    ("1", [("log.retention.ms", SET, "x")]),
    ("1", [("log.retention.ms", SET, "0")]),
    ("1", [("log.segment.bytes", SET, "1")]),
    ("1", [("log.retention.ms", SET, None)]),
    ("1", [("log.retention.ms", APPEND, "1")]),
    ("1", [("log.retention.ms", SET, "1"), ("log.retention.ms", SET, "1")]),
    ("7", [("log.retention.ms", SET, "5")]),
    ("one", [("log.retention.ms", SET, "5")]),
    ("1", [("log.retention.ms", SET, "600000")]),
    ("", [("log.retention.ms", SET, "700000"), ("max.connections", SET, "1000")]),
    ("1", [("log.cleanup.policy", APPEND, "compact")]),
    ("1", [("log.cleanup.policy", SUBTRACT, "delete")]),
    ("1", [("min.insync.replicas", SET, "2")]),
    ("", [("min.insync.replicas", SET, "2")]),
    ("", [("min.insync.replicas", DELETE, None)]),
    ("", [("min.insync.replicas", SET, "1")]),
    ("1", [("leader.replication.throttled.rate", SET, "1000")]),
    ("1", [("listener.name.plaintext.max.connections", SET, "50")]),
    ("1", [("num.io.threads", SET, "0")]),
    ("1", [("num.io.threads", SET, "1000")]),
    ("1", [("num.io.threads", SET, "9")]),
    ("1", [("principal.builder.class", SET, "no.such.Class")]),
    ("1", [("metric.reporters", SET, "no.such.Class")]),
]


def test_changing_brokers(own_configs: Configs, observe: Observations) -> None:
    configs = own_configs
    for number, (name, changes) in enumerate(BROKER_CHANGES):
        observe(f"{number} {name!r} {changes}", configs.change(BROKER, name, *changes))
    _settle(configs)
    dynamic = {
        name: entry for name, entry in configs.describe(BROKER, "1")["configs"].items() if entry["source"] in (2, 3)
    }
    observe("this broker", dynamic)
    observe("all brokers", configs.describe(BROKER, ""))
    observe("retention", _retention(configs))
    topic = configs.create("follows")
    observe("a topic follows", configs.describe(TOPIC, topic))
    for name in ("1", ""):
        observe(f"undone {name!r}", configs.change(BROKER, name, ("log.retention.ms", DELETE, None)))
    _settle(configs)
    observe("retention undone", _retention(configs))
    observe("the topic follows back", configs.describe(TOPIC, topic))


def _settle(configs: Configs) -> None:
    """Wait until DescribeConfigs returns the requested value."""
    value = str(int(configs.values(BROKER, "", 3).get("max.connections.per.ip") or "1000") + 1)
    assert configs.change(BROKER, "", ("max.connections.per.ip", SET, value)) == "NONE"
    wait_until(lambda: configs.values(BROKER, "1", 3).get("max.connections.per.ip") == value)


def _retention(configs: Configs) -> dict[str, Any]:
    names = ["log.retention.ms", "log.retention.minutes", "log.retention.hours"]
    return dict(configs.describe(BROKER, "1", names)["configs"])


def test_replacing_what_is_set_for_brokers(own_configs: Configs, observe: Observations) -> None:
    configs = own_configs
    observe("set", configs.replace(BROKER, "1", [("log.retention.ms", "1000000")]))
    observe("emptied", configs.replace(BROKER, "1", []))
    observe("fixed while it runs", configs.replace(BROKER, "1", [("num.partitions", "1")]))
    observe("minimum dropped", configs.replace(BROKER, "", [("max.connections", "500")]))
    observe("minimum kept", configs.replace(BROKER, "", [("min.insync.replicas", "1"), ("max.connections", "500")]))
    observe("another broker", configs.replace(BROKER, "7", []))
    observe("loggers", configs.replace(LOGGER, "1", [("root", "INFO")]))
    _settle(configs)
    observe("all brokers", configs.describe(BROKER, ""))


def test_changing_levels_of_loggers(own_configs: Configs, broker_kind: str, observe: Observations) -> None:
    configs = own_configs
    name = {"kafka": "kafka.log.LogManager", "kwire": "kwire.server"}[broker_kind]
    scripts: dict[str, list[Change]] = {
        "set": [(name, SET, "DEBUG")],
        "lower case": [(name, SET, "debug")],
        "no level": [(name, SET, "LOUD")],
        "off": [("root", SET, "OFF")],
        "unknown": [("no.such", SET, "DEBUG")],
        "unknown unset": [("no.such", DELETE, None)],
        "root unset": [("root", DELETE, None)],
        "root": [("root", SET, "ERROR")],
        "append": [(name, APPEND, "DEBUG")],
        "subtract": [(name, SUBTRACT, "DEBUG")],
        "null": [(name, SET, None)],
        "twice": [("root", SET, "INFO"), ("root", SET, "INFO")],
        "one of two is wrong": [(name, SET, "TRACE"), ("root", SET, "LOUD")],
    }
    for what, changes in scripts.items():
        observe(what, configs.change(LOGGER, "1", *changes))
    observe("level", configs.describe(LOGGER, "1", [name])["configs"][name])
    observe("unset", configs.change(LOGGER, "1", (name, DELETE, None)))
    observe("level of root", configs.describe(LOGGER, "1", [name])["configs"][name])
    observe("validate only", configs.change(LOGGER, "1", (name, SET, "DEBUG"), validate_only=True))
    observe("still level of root", configs.describe(LOGGER, "1", [name])["configs"][name])
    for other in ("7", "", "one"):
        observe(f"broker {other!r}", configs.change(LOGGER, other, ("root", SET, "INFO")))


def test_changing_groups(configs: Configs, new_name: Names, observe: Observations) -> None:
    group = new_name("group")
    scripts: list[list[Change]] = [
        [("consumer.session.timeout.ms", SET, "46000"), ("share.auto.offset.reset", SET, "by_duration:PT1H")],
        [("consumer.session.timeout.ms", SET, "1")],
        [("consumer.session.timeout.ms", SET, "60001")],
        [("consumer.session.timeout.ms", SET, "x")],
        [("no.such", SET, "x")],
        [("no.such", DELETE, None)],
        [("share.auto.offset.reset", SET, "by_duration:x")],
        [("share.auto.offset.reset", SET, "EARLIEST")],
        [("share.isolation.level", SET, "read_committed")],
        [("share.delivery.count.limit", SET, "11")],
        [("share.record.lock.duration.ms", SET, "1000")],
        [("streams.num.standby.replicas", SET, "5")],
        [("streams.num.standby.replicas", SET, "2"), ("streams.initial.rebalance.delay.ms", SET, "0")],
        [("streams.initial.rebalance.delay.ms", SET, "-1")],
        [("streams.session.timeout.ms", SET, "44999")],
        [("streams.session.timeout.ms", SET, "60000"), ("streams.heartbeat.interval.ms", SET, "15000")],
        [("streams.heartbeat.interval.ms", SET, "15001")],
        [("streams.assignment.interval.ms", SET, "0")],
        [("streams.assignment.interval.ms", SET, "15001")],
        [("consumer.assignment.interval.ms", SET, "15001")],
        [("consumer.heartbeat.interval.ms", SET, "4999")],
    ]
    for number, changes in enumerate(scripts):
        observe(f"{number} {changes}", configs.change(GROUP, group, *changes))
    observe("no name", configs.change(GROUP, "", ("consumer.session.timeout.ms", SET, "46000")))
    last = "streams.assignment.interval.ms"
    wait_until(lambda: last in configs.values(GROUP, group, 8))
    observe("state", configs.describe(GROUP, group))


def test_changing_client_metrics(configs: Configs, new_name: Names, observe: Observations) -> None:
    name = new_name("subscription")
    scripts: list[list[Change]] = [
        [("metrics", SET, "org.apache"), ("match", SET, "client_id=abc.*")],
        [("interval.ms", SET, "99")],
        [("interval.ms", SET, "3600001")],
        [("interval.ms", SET, "x")],
        [("match", SET, "colour=red")],
        [("match", SET, "client_id=(")],
        [("match", SET, "client_id")],
        [("no.such", SET, "x")],
        [("metrics", APPEND, "org.foo")],
        [("interval.ms", SET, "60000")],
    ]
    for number, changes in enumerate(scripts):
        observe(f"{number} {changes}", configs.change(CLIENT_METRICS, name, *changes))
    observe("no name", configs.change(CLIENT_METRICS, "", ("interval.ms", SET, "60000")))
    wait_until(lambda: "interval.ms" in configs.values(CLIENT_METRICS, name, 7))
    observe("state", configs.describe(CLIENT_METRICS, name))
