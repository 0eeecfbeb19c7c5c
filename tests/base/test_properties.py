"""`.properties` texts, the environment, and which of them wins."""

from __future__ import annotations

import pytest

from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.config.sources import environment_properties, parse_properties


def test_java_properties_syntax() -> None:
    text = (
        "# comment\n! another\n\n"
        "a=1\n"
        "  b : two words \n"
        "c   3\n"
        "d\\ e\\=f = g\\tt\n"
        "long = one,\\\n      two,\\\r\n   three\n"
        "empty\n"
        "equals===\n"
        "even = x\\\\\n"
        "unicode = \\u00e9\\ud83d\\ude00\n"
        "a=last wins"
    )
    assert parse_properties(text) == {
        "a": "last wins",
        "b": "two words ",
        "c": "3",
        "d e=f": "g\tt",
        "long": "one,two,three",
        "empty": "",
        "equals": "==",
        "even": "x\\",
        "unicode": "é😀",
    }


def test_a_comment_does_not_continue_a_line_and_a_continuation_may_begin_with_a_hash() -> None:
    assert parse_properties("# not \\\na=b\\\n#c\n") == {"a": "b#c"}


def test_a_broken_unicode_escape_is_refused() -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties("a=\\u12g4")


def test_environment_names_follow_the_official_image() -> None:
    environment = {
        "KAFKA_LOG_RETENTION_HOURS": "1",
        "KAFKA_LISTENER_NAME_MY__NAME_X": "2",
        "KAFKA_SOME___DASH": "3",
        "KAFKA_VERSION": "4.3.1",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_OPTS": "",
        "KAFKA_JMX_PORT": "9999",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "DEBUG",
        "KAFKA_HOME": "/opt/kafka",
        "CLASSPATH": "x",
        "LOG_DIR": "y",
    }
    assert environment_properties(environment) == {
        "log.retention.hours": "1",
        "listener.name.my_name.x": "2",
        "some-dash": "3",
    }


def test_command_line_wins_over_environment_over_file_over_defaults() -> None:
    config = KafkaConfig.load(
        "num.partitions=2\nlog.retention.ms=2\nmessage.max.bytes=2\n",
        {"KAFKA_LOG_RETENTION_MS": "3", "KAFKA_MESSAGE_MAX_BYTES": "3"},
        [("message.max.bytes", "4")],
    )
    assert (config.num_partitions, config.log_retention_ms, config.message_max_bytes) == (2, 3, 4)
    assert config.offsets_topic_num_partitions == 50


@pytest.mark.parametrize("stronger", ["node.id", "broker.id"])
def test_a_broker_id_on_the_command_line_wins_whatever_it_is_called(stronger: str) -> None:
    config = KafkaConfig.load("node.id=5\nbroker.id=5\n", None, {stronger: "7"})
    assert (config.node_id, config.broker_id) == (7, 7)
