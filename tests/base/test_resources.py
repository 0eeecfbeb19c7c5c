"""What a resource's properties are refused for: with Kafka's words, which its tools show."""

from __future__ import annotations

import pytest

from kwire.base.config import KafkaConfig
from kwire.base.config.resources import ResourceValidator
from kwire.base.errors import ErrorCode, KafkaError

BROKER, GROUP = 4, 32


def refusal(resource: int, name: str, values: dict[str, str]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        ResourceValidator(KafkaConfig({}))(resource, name, values)
    return caught.value


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("streams.session.timeout.ms", "1", "must be greater than or equal to group.streams.min.session.timeout.ms"),
        ("streams.session.timeout.ms", "90000", "must be less than or equal to group.streams.max.session.timeout.ms"),
        ("streams.num.standby.replicas", "3", "must be less than or equal to group.streams.max.standby.replicas"),
        ("share.session.timeout.ms", "1", "must be greater than or equal to group.share.min.session.timeout.ms"),
        ("consumer.heartbeat.interval.ms", "1", "must be greater than or equal to group.consumer.min.heartbeat"),
    ],
)
def test_a_groups_property_outside_the_brokers_limits_is_refused_in_kafkas_words(
    name: str, value: str, rule: str
) -> None:
    error = refusal(GROUP, "g", {name: value})
    assert error.code == ErrorCode.INVALID_CONFIG
    assert str(error.message).startswith(f"{name} {rule}")
    assert value in str(error.message)


def test_a_groups_session_must_be_longer_than_its_heartbeats() -> None:
    with pytest.raises(KafkaError) as caught:
        config = KafkaConfig({"group.streams.max.heartbeat.interval.ms": "50000"})
        ResourceValidator(config)(GROUP, "g", {"streams.heartbeat.interval.ms": "50000"})
    rule = "streams.session.timeout.ms must be greater than streams.heartbeat.interval.ms"
    assert str(caught.value.message).startswith(rule)


@pytest.mark.parametrize(
    ("broker", "values", "message"),
    [
        (
            "1",
            {"security.inter.broker.protocol": "SSL", "max.connections": "9", "broker.rack": "r"},
            "Cannot update these configs dynamically: [security.inter.broker.protocol, broker.rack]",
        ),
        (
            "1",
            {"ssl.keystore.location": "/x"},
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.location]",
        ),
        (
            "",
            {"listener.name.a.ssl.keystore.location": "/x", "min.insync.replicas": "1"},
            "Cannot update these configs at default cluster level: [listener.name.a.ssl.keystore.location]",
        ),
    ],
)
def test_properties_that_cannot_be_set_there_are_named_in_kafkas_words(
    broker: str, values: dict[str, str], message: str
) -> None:
    error = refusal(BROKER, broker, values)
    assert (error.code, error.message) == (ErrorCode.INVALID_REQUEST, message)


def test_more_cleaner_threads_need_a_larger_buffer() -> None:
    validate = ResourceValidator(KafkaConfig({"log.cleaner.dedupe.buffer.size": "2097152"}))
    with pytest.raises(KafkaError, match="1MB per cleaner thread"):
        validate(BROKER, "1", {"log.cleaner.threads": "2"})
    validate(BROKER, "1", {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097154"})
