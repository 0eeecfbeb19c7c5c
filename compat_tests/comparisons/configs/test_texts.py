"""Configuration texts are parsed as Kafka parses them: values of every property, `.properties` files, environments."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.java_programs import Oracle
from compat_tests.needs import need
from harness.kafka_jars import why_no_java
from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.config.definitions import BROKER_ROWS, TOPIC_ROWS
from kwire.base.config.sources import environment_properties, parse_properties
from kwire.base.config.tables import broker_quotas
from kwire.base.config.tables.resources import CLIENT_METRICS_ROWS, GROUP_ROWS
from kwire.base.config.values import Row, format_value, parse_value

pytestmark = pytest.mark.java

QUOTAS = {row[0] for row in broker_quotas.ROWS}
# Kafka loads the Java class, or validates the addresses: more than the text alone decides.
NOT_COMPARED = {"controller.quorum.bootstrap.servers", "controller.quorum.voters"}
TABLES: dict[str, list[Row]] = {
    "broker": [
        row for row in BROKER_ROWS.values() if not row[0].startswith(("kwire.", "zookeeper.")) and row[0] not in QUOTAS
    ],
    "topic": list(TOPIC_ROWS.values()),
    "group": list(GROUP_ROWS),
    "client metrics": list(CLIENT_METRICS_ROWS),
}
GENERAL = ["", " ", "x", "0", "1", "-1", "-2", "true", " FALSE ", "yes", "*", "none", "a,b", "a, b ,a", "a,,b", ","]
NUMBERS = [
    "+1",
    "1.0",
    "1e1",
    ".5",
    "5.",
    "1_0",
    "0x10",
    "1d",
    "1f",
    "NaN",
    "Infinity",
    "-0",
    "1L",
    " 7 ",
    "٣",
    "²",
    "1e400",
    "-32768",
    "32768",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
]
CHOICES = [
    "delete",
    "compact,delete",
    "Compact",
    "producer",
    "gzip",
    "GZIP",
    "CreateTime",
    "PLAINTEXT",
    "required",
    "bidirectional",
    "Upgrade",
    "classic,share",
    "0:1",
    "0:1,2:3",
    "0:x",
    "earliest",
    "LATEST",
    "by_duration:PT1H",
    "by_duration:P1D",
    "by_duration:PT",
    "by_duration:P1DT1H1M1.5S",
    "by_duration:-PT1H",
    "by_duration:PT-1H",
    "by_duration:P1DT-25H",
    "by_duration:-PT-1H",
    "by_duration:PT0S",
    "by_duration:pt1h",
    "read_committed",
    "es256",
    "RS256",
]


class ConfigOracle:
    """Kafka's own classes; see `ConfigOracle.java` for its questions."""

    def __init__(self) -> None:
        self._oracle = Oracle(Path(__file__).with_name("ConfigOracle.java"))

    def ask(self, kind: str, *texts: str) -> str:
        """The answer to a question about some texts."""
        words = [base64.b64encode(text.encode()).decode() for text in texts]
        return self._oracle.ask(" ".join([kind, *words])).strip()

    def ask_map(self, kind: str, *texts: str) -> dict[str, str] | None:
        """An answer that consists of names and values; None if Kafka refuses the texts."""
        answer = self.ask(kind, *texts)
        if answer == "refused":
            return None
        pairs = (entry.split(":") for entry in answer.split(" ")[1:])
        return {_decoded(name): _decoded(value) for name, value in pairs}

    def close(self) -> None:
        self._oracle.close()


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()


@pytest.fixture(scope="module")
def oracle() -> Iterator[ConfigOracle]:
    need(why_no_java())
    oracle = ConfigOracle()
    yield oracle
    oracle.close()


def candidates(row: Row) -> list[str]:
    """The texts to try for a property: all for its type, and numbers around its limits."""
    texts = [*GENERAL, *(NUMBERS if row[1] in ("SHORT", "INT", "LONG", "DOUBLE") else CHOICES)]
    for part in row[5] or ():
        if isinstance(part, (int, float)) and not isinstance(part, bool):
            texts += [str(part - 1), str(part), str(part + 1)]
    return texts


@pytest.mark.parametrize("table", TABLES)
def test_every_property_takes_and_refuses_what_kafkas_does(oracle: ConfigOracle, table: str) -> None:
    wrong = []
    for row in TABLES[table]:
        if row[1] == "CLASS" or row[0] in NOT_COMPARED:
            continue
        for text in candidates(row):
            answer = oracle.ask("value", table, row[0], text)
            theirs = None if answer == "refused" else _decoded(answer)
            if theirs != (ours := _ours(row, text)):
                wrong.append(f"{row[0]}={text!r}: Kafka {theirs!r}, kwire {ours!r}")
    assert not wrong, "\n".join(wrong[:50])


def _ours(row: Row, text: str) -> str | None:
    try:
        value = format_value(row[1], parse_value(row, text))
    except ConfigError:
        return None
    return "[hidden]" if row[1] == "PASSWORD" else value


def test_properties_files_are_read_as_java_reads_them(oracle: ConfigOracle) -> None:
    pieces = [
        "a",
        "b.c",
        "=",
        ":",
        " ",
        "\t",
        "\f",
        "\\",
        "\\\\",
        "\n",
        "\r",
        "\r\n",
        "#",
        "!",
        "\\u00e9",
        "\\u12",
        "\\n",
        "\\t",
        "\\x",
        "\\ ",
        "\\=",
        "\\#",
        "é",
        "😀",
        "\\ud83d\\ude00",
        "value",
    ]
    chosen = random.Random(11)
    for _ in range(5000):
        text = "".join(chosen.choices(pieces, k=chosen.randrange(1, 14)))
        theirs = oracle.ask_map("properties", text)
        if theirs is not None:
            theirs.pop("", None)  # Java reads some backslashes at the end of the text as a property without a name
        assert _parsed(parse_properties, text) == theirs, repr(text)


def _parsed(function: Callable[[str], dict[str, str]], text: str) -> dict[str, str] | None:
    try:
        properties = function(text)
    except ConfigError:
        return None
    # Java prints a question mark for half of a surrogate pair.
    shown = {name.replace("\ufffd", "?"): value.replace("\ufffd", "?") for name, value in properties.items()}
    return {name: value for name, value in shown.items() if name}


def test_environments_are_read_as_the_official_image_reads_them(oracle: ConfigOracle) -> None:
    environment = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_LOG_RETENTION_HOURS": "a=b",
        "KAFKA_A__B___C____D": "x",
        "KAFKA_LISTENER_NAME_MY__NAME_SSL_KEY": "y",
        "KAFKA_VERSION": "4.3.1",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_OPTS": "-D",
        "KAFKA_JMX_OPTS": "j",
        "KAFKA_JMX_HOSTNAME": "h",
        "KAFKA_LOG4J_LOGGERS": "l",
        "KAFKA_GC_LOG_OPTS": "g",
        "CLUSTER_ID": "c",
        "PATH": "p",
    }
    theirs = oracle.ask_map("environment", *(f"{name}={value}" for name, value in environment.items()))
    assert environment_properties(environment) == theirs


KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OTHER:PLAINTEXT",
    "log.dirs": "/tmp/no-such-directory",
}
# Left out, because kwire differs deliberately: ports and buffer sizes that Kafka accepts and fails on when it opens the
# socket (kwire refuses them at once), and properties of the KRaft controller and the JVM's log cleaner (ignored).
STARTS: list[dict[str, str]] = [
    {},
    {"listeners": "PLAINTEXT://:9092,OTHER://:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://127.0.0.1:9092,OTHER://[::1]:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://127.0.0.1:9092,OTHER://127.0.0.2:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:9092,OTHER://:9094,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:0,OTHER://:0,CONTROLLER://:9093"},
    {"listeners": "plaintext://:9092,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://:9092,plaintext://:9094,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT://host,CONTROLLER://:9093"},
    {"listeners": "PLAINTEXT:/:9092,CONTROLLER://:9093"},
    {"listeners": "UNKNOWN://:9092,CONTROLLER://:9093"},
    {"listeners": "CONTROLLER://:9093"},
    {"listeners": ""},
    {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
    {"advertised.listeners": "OTHER://localhost:9092"},
    {"advertised.listeners": "PLAINTEXT://localhost:9092,PLAINTEXT://other:9092"},
    {"advertised.listeners": "PLAINTEXT://[::1]:9092"},
    {"advertised.listeners": "PLAINTEXT://:9092"},
    {"listener.security.protocol.map": "PLAINTEXT:NONE,CONTROLLER:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"},
    {"listener.security.protocol.map": "PLAINTEXT,CONTROLLER:PLAINTEXT"},
    {"inter.broker.listener.name": "PLAINTEXT"},
    {"inter.broker.listener.name": "OTHER"},
    {"inter.broker.listener.name": "UNKNOWN"},
    {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
    {"broker.id": "1"},
    {"broker.id": "2"},
    {"node.id": "-1"},
    {"log.retention.ms": "0"},
    {"log.retention.ms": "-1"},
    {"log.retention.ms": "-2"},
    {"log.retention.minutes": "0"},
    {"log.retention.hours": "0"},
    {"log.retention.hours": "0", "log.retention.ms": "5"},
    {"log.retention.hours": "-5"},
    {"log.roll.ms": "0"},
    {"log.roll.ms": "5", "log.roll.hours": "1"},
    {"log.roll.jitter.ms": "-1"},
    {"queued.max.request.bytes": "0"},
    {"queued.max.request.bytes": "5"},
    {"queued.max.request.bytes": "-5"},
    {"queued.max.request.bytes": "104857600"},
    {"socket.receive.buffer.bytes": "-1"},
    {"max.connections.per.ip": "0"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "localhost:5"},
    {"max.connections.per.ip.overrides": "localhost:5,127.0.0.1:7"},
    {"max.connections.per.ip.overrides": "localhost"},
    {"max.connections.per.ip.overrides": "localhost:x"},
    {"replica.fetch.wait.max.ms": "40000"},
    {"replica.fetch.wait.max.ms": "29000", "replica.lag.time.max.ms": "28000"},
    {"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "5"},
    {"group.coordinator.rebalance.protocols": "classic"},
    {"group.coordinator.rebalance.protocols": "consumer"},
    {"group.consumer.session.timeout.ms": "70000"},
    {"group.consumer.heartbeat.interval.ms": "4000"},
    {"group.consumer.min.heartbeat.interval.ms": "20000"},
    {"group.consumer.assignment.interval.ms": "20000"},
    {"group.streams.num.standby.replicas": "3"},
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097152"},
    {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097154"},
    {"offsets.topic.compression.codec": "5"},
    {"offset.metadata.max.bytes": "-1"},
    {"message.max.bytes": "0"},
    {"connections.max.idle.ms": "-1"},
    {"no.such.name": "x"},
    {"log.dirs": ""},
    {"socket.request.max.bytes": "0"},
    {"min.insync.replicas": "0"},
    {"offsets.retention.minutes": "0"},
    {"replica.fetch.max.bytes": "1"},
]


@pytest.mark.parametrize("given", STARTS, ids=str)
def test_a_broker_starts_with_what_kafkas_starts_with(oracle: ConfigOracle, given: dict[str, str]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in {**KRAFT, **given}.items())
    try:
        KafkaConfig.load(text)
    except ConfigError as error:
        ours = f"refused: {error}"
    else:
        ours = "accepted"
    assert ours.partition(":")[0] == oracle.ask("start", text), ours
