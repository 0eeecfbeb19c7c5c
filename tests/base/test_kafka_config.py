"""What a broker's configuration takes, refuses, and how it changes while running."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.base.config import ConfigError, Endpoint, KafkaConfig
from kwire.base.config.definitions import BROKER_ROWS, TOPIC_ROWS, broker_row, is_sensitive, listener_property
from kwire.base.config.documentation import BROKER_DOCUMENTATION, TOPIC_DOCUMENTATION
from kwire.base.config.support import SUPPORTED, Support, support_of
from kwire.base.config.topic_config import validate_topic
from kwire.base.config.values import format_value, java_double, parse_value
from kwire.server.broker import Broker


def test_defaults_are_kafkas_except_where_one_broker_needs_others() -> None:
    config = KafkaConfig()
    assert config.socket_request_max_bytes == config["socket.request.max.bytes"] == 104857600
    assert config.group_initial_rebalance_delay_ms == 0
    assert config.offsets_topic_replication_factor == 1
    assert config.data_dirs == ("./kwire-data",)
    assert config.endpoints() == [Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT")]
    assert config.is_local_only
    assert config.advertised_endpoints() == []
    assert config.node_id == config.broker_id == 1
    assert not config.warnings
    assert not config.notes


def test_given_listeners_have_kafkas_meaning() -> None:
    config = KafkaConfig({"listeners": "PLAINTEXT://:9092"})
    assert config.endpoints() == [Endpoint("PLAINTEXT", "", 9092, "PLAINTEXT")]
    assert not config.is_local_only


def test_brokers_on_zookeeper_must_say_where_they_listen() -> None:
    with pytest.raises(ConfigError, match=r"listeners: must be set with zookeeper\.connect"):
        Broker(KafkaConfig({"zookeeper.connect": "host:2181"}))
    Broker(KafkaConfig({"zookeeper.connect": "host:2181", "listeners": "PLAINTEXT://:9092"}))


def test_every_default_passes_its_own_validator() -> None:
    for row in [*BROKER_ROWS.values(), *TOPIC_ROWS.values()]:
        if row[2] is not None:
            assert parse_value(row, format_value(row[1], row[2])) == row[2], row[0]


def test_every_property_has_an_attribute_of_its_own() -> None:
    config = KafkaConfig()
    attributes = {name.replace(".", "_") for name in BROKER_ROWS}
    assert len(attributes) == len(BROKER_ROWS)
    assert all(hasattr(config, attribute) for attribute in attributes)


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("socket.request.max.bytes", "0", "at least 1"),
        ("socket.request.max.bytes", "2147483648", "between 1 and 2147483647"),
        ("num.partitions", "1_0", "whole number"),
        ("num.partitions", "²", "whole number"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "between 0 and 1"),
        ("log.cleaner.min.cleanable.ratio", "half", "number"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "1MB per cleaner thread"),
        ("log.cleanup.policy", "delete,shred", "delete"),
        ("log.cleanup.policy", "delete,,compact", "empty entries"),
        ("compression.type", "lzo", "zstd"),
        ("compression.gzip.level", "0", "between 1 and 9, or -1"),
        ("log.message.timestamp.type", "createtime", "CreateTime"),
        ("log.retention.ms", "0", "at least 1, or -1"),
        ("log.roll.hours", "0", "at least 1"),
        ("max.connections.per.ip.overrides", "localhost", "host:limit"),
        ("max.connections.per.ip", "0", "overrides"),
        ("listeners", "PLAINTEXT://:70000", "port between"),
        ("listeners", "PLAINTEXT//:9092", "NAME://host:port"),
        ("listeners", "OTHER://:9092", "listener.security.protocol.map"),
        ("listeners", "", "empty"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:9092", "reach"),
        ("advertised.listeners", "SSL://me:9092", "one of the listeners"),
        ("process.roles", "controller", "broker"),
        ("queued.max.request.bytes", "5", "socket.request.max.bytes"),
        ("socket.receive.buffer.bytes", "0", "-1 for the system's default"),
        ("inter.broker.listener.name", "OTHER", "one of the listeners"),
        ("group.consumer.session.timeout.ms", "70000", "group.consumer.max.session.timeout.ms"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_property_value_and_what_is_allowed(
    name: str, text: str, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        KafkaConfig({name: text})
    line = str(caught.value)
    assert name in line
    assert text in line
    assert allowed in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sasl.server.callback.handler.class", "org.example.Handler"),
        ("listener.name.sasl_ssl.plain.sasl.server.callback.handler.class", "org.example.Handler"),
        ("listener.name.sasl_ssl.sasl.login.class", "org.example.Login"),
        ("ssl.engine.factory.class", "org.example.Factory"),
        ("principal.builder.class", "org.example.Builder"),
        ("security.providers", "org.example.Provider"),
        ("ssl.provider", "BCFIPS"),
        ("authorizer.class.name", "org.example.Authorizer"),
        ("remote.log.storage.system.enable", "true"),
        ("config.providers", "env"),
    ],
)
def test_what_kwire_cannot_promise_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match="not supported") as caught:
        KafkaConfig({name: text})
    assert name in str(caught.value)


def test_the_default_of_a_refused_property_is_taken() -> None:
    config = KafkaConfig({"security.inter.broker.protocol": "PLAINTEXT", "remote.log.storage.system.enable": "FALSE"})
    assert not config.warnings


def test_a_password_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        KafkaConfig({"zookeeper.ssl.truststore.password": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_delegation_tokens_have_a_key_and_limits() -> None:
    config = KafkaConfig({"delegation.token.secret.key": "hunter2"})
    assert config.delegation_token_secret_key == "hunter2"
    assert config.delegation_token_max_lifetime_ms == 7 * 24 * 3600 * 1000
    assert KafkaConfig({}).delegation_token_secret_key is None
    with pytest.raises(ConfigError, match=r"delegation.token.expiry.time.ms"):
        KafkaConfig({"delegation.token.expiry.time.ms": "0"})


def test_kafkas_own_classes_are_accepted_by_name() -> None:
    package = "org.apache.kafka.common.security."
    KafkaConfig(
        {
            "listener.name.x.plain.sasl.server.callback.handler.class": (
                package + "plain.internals.PlainServerCallbackHandler"
            ),
            "principal.builder.class": package + "authenticator.DefaultKafkaPrincipalBuilder",
            "ssl.engine.factory.class": package + "ssl.DefaultSslEngineFactory",
        }
    )


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("listener.name.clients.ssl.client.auth", ("clients", "", "ssl.client.auth")),
        ("listener.name.a.b.ssl.client.auth", ("a.b", "", "ssl.client.auth")),
        ("listener.name.clients.plain.sasl.jaas.config", ("clients", "plain", "sasl.jaas.config")),
        ("listener.name.clients.scram-sha-512.sasl.jaas.config", ("clients", "scram-sha-512", "sasl.jaas.config")),
        ("listener.name.clients.other.sasl.jaas.config", ("clients.other", "", "sasl.jaas.config")),
        ("listener.name.clients.no.such", None),
        ("listener.name.ssl.client.auth", None),
        ("ssl.client.auth", None),
    ],
)
def test_a_listeners_prefix_and_a_mechanism_are_read_from_a_name(name: str, parts: tuple[str, str, str] | None) -> None:
    assert listener_property(name) == parts
    assert broker_row(name) == (BROKER_ROWS.get(name) if parts is None else BROKER_ROWS[parts[2]])


def test_a_mechanisms_login_belongs_to_one_listener() -> None:
    name = "listener.name.internal.plain.sasl.jaas.config"
    config = KafkaConfig({name: "a;", "sasl.jaas.config": "b;"})
    assert config.get_for_mechanism("INTERNAL", "PLAIN", "sasl.jaas.config") == "a;"
    assert config.get_for_mechanism("INTERNAL", "SCRAM-SHA-256", "sasl.jaas.config") is None
    assert config.get_for_mechanism("OTHER", "PLAIN", "sasl.jaas.config") is None
    assert is_sensitive(name)
    assert support_of(name) is Support.SUPPORTED


def test_brokers_do_not_use_plaintext_where_they_should_not() -> None:
    texts = {"listeners": "CLIENTS://:9092", "listener.security.protocol.map": "CLIENTS:PLAINTEXT"}
    clustered = {**texts, "kwire.metadata.dir": "store"}
    KafkaConfig(clustered)
    with pytest.raises(ConfigError, match=r"security\.inter\.broker\.protocol=SSL: must be the name of a listener"):
        KafkaConfig({**clustered, "security.inter.broker.protocol": "SSL"})


def test_what_has_no_effect_is_warned_of() -> None:
    config = KafkaConfig(
        {
            "listeners": "CLIENTS://:9092,CONTROLLER://:9093",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "controller.listener.names": "CONTROLLER",
            "listener.name.CLIENTS.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "listener.name.clients.ssl.client.auth": "required",
            "listener.name.clients.sasl.jaas.config": "planted",
            "sasl.jaas.config": "planted",
        }
    )
    assert config.warnings == [
        "properties without effect: listener.name.CLIENTS.ssl.client.auth (no such listener, in lower case), "
        "listener.name.clients.sasl.jaas.config (needs the prefix listener.name.LISTENER.MECHANISM.), "
        "sasl.jaas.config (needs the prefix listener.name.LISTENER.MECHANISM.)"
    ]


def test_a_failed_login_is_answered_before_the_connection_is_idle() -> None:
    with pytest.raises(ConfigError, match=r"connection\.failed\.authentication\.delay\.ms=100: must be less than"):
        KafkaConfig({"connections.max.idle.ms": "100"})
    KafkaConfig({"connections.max.idle.ms": "-1"})


def test_unknown_names_are_warned_of_and_performance_knobs_are_not() -> None:
    config = KafkaConfig({"num.io.threads": "16", "no.such.name": "x", "nothing.like.it": "z"})
    assert config.warnings == ["properties that Kafka does not know: no.such.name, nothing.like.it"]
    assert not config.notes


def test_a_kraft_file_opens_no_controller_listener_and_gives_one_note() -> None:
    config = KafkaConfig.load(
        "process.roles=broker,controller\nnode.id=4\ncontroller.quorum.voters=4@localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
    )
    assert [str(endpoint) for endpoint in config.endpoints()] == ["PLAINTEXT://:9092"]
    assert [str(endpoint) for endpoint in config.advertised_endpoints()] == ["PLAINTEXT://localhost:9092"]
    assert len(config.notes) == 1
    assert config.broker_id == 4
    assert not config.warnings


def test_ipv6_listeners_and_two_names_for_one_port() -> None:
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,b:PLAINTEXT"}
    config = KafkaConfig({"listeners": "PLAINTEXT://[::1]:9092,B://127.0.0.1:9092", **protocols})
    assert config.endpoints()[0] == Endpoint("PLAINTEXT", "::1", 9092, "PLAINTEXT")
    assert str(config.endpoints()[0]) == "PLAINTEXT://[::1]:9092"
    with pytest.raises(ConfigError, match="9092 is used twice"):
        KafkaConfig({"listeners": "PLAINTEXT://a:9092,B://b:9092", **protocols})


def test_a_listeners_own_limit_comes_before_the_general_one() -> None:
    config = KafkaConfig({"max.connections": "10", "listener.name.internal.max.connections": "3"})
    assert config.get_for_listener("INTERNAL", "max.connections") == 3
    assert config.get_for_listener("PLAINTEXT", "max.connections") == 10


@pytest.mark.parametrize(
    ("given", "name", "expected"),
    [
        ({}, "retention.ms", 604800000),
        ({"log.retention.hours": "1"}, "retention.ms", 3600000),
        ({"log.retention.hours": "-1"}, "retention.ms", -1),
        ({"log.retention.minutes": "2", "log.retention.hours": "1"}, "retention.ms", 120000),
        ({"log.retention.ms": "3", "log.retention.minutes": "2"}, "retention.ms", 3),
        ({"log.roll.hours": "2"}, "segment.ms", 7200000),
        ({"log.flush.scheduler.interval.ms": "9"}, "flush.ms", 9),
        ({"message.max.bytes": "77"}, "max.message.bytes", 77),
        ({"log.cleanup.policy": "compact"}, "cleanup.policy", ("compact",)),
    ],
)
def test_a_topics_defaults_come_from_the_broker(given: dict[str, str], name: str, expected: Any) -> None:
    assert KafkaConfig(given).topic_config()[name] == expected


def test_a_topics_own_value_wins_and_one_that_cannot_be_taken_counts_as_absent() -> None:
    values = KafkaConfig().topic_config({"retention.ms": "5", "segment.bytes": "1", "unknown": "x"})
    assert values["retention.ms"] == 5
    assert values["segment.bytes"] == 1073741824
    assert "unknown" not in values


@pytest.mark.parametrize(
    "overrides",
    [
        {"no.such.name": "1"},
        {"retention.ms": "x"},
        {"retention.ms": None},
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
        {"remote.storage.enable": "true"},
        {"leader.replication.throttled.replicas": "0:1,x"},
    ],
)
def test_a_topic_cannot_be_given(overrides: dict[str, str | None]) -> None:
    with pytest.raises(ConfigError):
        validate_topic(KafkaConfig(), overrides)


def test_dynamic_values_change_attributes_and_topics_defaults_and_are_told_once() -> None:
    config = KafkaConfig({"log.retention.hours": "1"})
    told: list[frozenset[str]] = []
    config.on_change(told.append)
    assert config.topic_config()["retention.ms"] == 3600000
    assert config.apply_dynamic({"log.retention.ms": "50", "max.connections": "5"}, {"max.connections": "6"}) == []
    assert config.max_connections == 6
    assert config.topic_config()["retention.ms"] == 50
    assert told == [frozenset({"log.retention.ms", "max.connections"})]
    config.apply_dynamic({}, {})
    assert config.max_connections == 2147483647
    assert config.topic_config()["retention.ms"] == 3600000
    config.off_change(told.append)
    config.apply_dynamic({"max.connections": "5"}, {})
    assert len(told) == 2


def test_a_stored_dynamic_value_that_cannot_be_taken_is_left_out_and_named() -> None:
    config = KafkaConfig()
    problems = config.apply_dynamic({}, {"log.segment.bytes": "1", "node.id": "9", "max.connections": "5"})
    assert config.max_connections == 5
    assert config.node_id == 1
    assert [problem.split("=")[0].rsplit(" ", 1)[1] for problem in problems] == ["log.segment.bytes", "node.id"]


def test_every_supported_property_is_documented_and_only_those() -> None:
    assert set(BROKER_DOCUMENTATION) == set(SUPPORTED)
    assert set(BROKER_ROWS) >= SUPPORTED
    assert set(TOPIC_DOCUMENTATION) <= set(TOPIC_ROWS)
    for text in [*BROKER_DOCUMENTATION.values(), *TOPIC_DOCUMENTATION.values()]:
        assert text.endswith("."), text


def test_every_property_of_kafka_has_a_state() -> None:
    assert all(support_of(name) is not Support.UNKNOWN for name in BROKER_ROWS)
    assert support_of("sasl.no.such.name") is Support.UNKNOWN


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (1.7976931348623157e308, "1.7976931348623157E308"), (2147483647.0, "2.147483647E9"), (1e7, "1.0E7")],
)
def test_doubles_are_printed_as_java_does(value: float, text: str) -> None:
    assert java_double(value) == text


def test_the_rack_aware_selector_is_the_only_one() -> None:
    name = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    assert KafkaConfig({"replica.selector.class": name}).replica_selector_class == name
    for other in ("org.example.Mine", ""):
        with pytest.raises(ConfigError, match=r"replica\.selector\.class=.* is not supported by kwire: only org\."):
            KafkaConfig({"replica.selector.class": other})
