"""Brokers as a production machine runs them: the properties of Kafka's `config/server.properties`, Kafka's defaults
otherwise, and for Apache Kafka the heap and the JVM flags of its start script. Benchmarks compare these.

What lives elsewhere: starting and stopping processes, and brokers with test settings (`harness.processes.brokers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.kafka_jars import kafka_classpath, kafka_jars_dir
from harness.processes.brokers import Broker, KafkaBroker, KwireBroker
from harness.processes.certificates import rsa_server
from harness.processes.secured import SecuredBroker, SecuredKafka, SecuredKwire

SERVER_PROPERTIES = {
    "num.partitions": "1",
    "offsets.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
    "group.min.session.timeout.ms": "6000",
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.listen.backlog.size": "1000",  # a thousand connections come at once
    "log.retention.ms": "604800000",
    "log.segment.delete.delay.ms": "100",  # so that a workload's data is gone before the next one begins
}
"""Equal for both kinds; on top of `harness.processes.brokers.COMMON_SETTINGS`."""

_HEAP = ["-Xmx1G", "-Xms1G"]
_FLAGS = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]
"""The JVM flags of `kafka-server-start.sh`."""


class ProductionKafkaBroker(KafkaBroker):
    """Apache Kafka with the heap and the JVM flags of its start script."""

    def _command(self, properties: Path) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={kafka_jars_dir() / 'log4j2.properties'}"
        return ["java", *_HEAP, *_FLAGS, logging, "-cp", kafka_classpath(), "kafka.Kafka", str(properties)]


class SecuredProductionKafka(SecuredKafka, ProductionKafkaBroker):
    """The same with the listeners of `harness.processes.secured`."""


def production_broker(kind: str, home: Path, settings: Mapping[str, str] | None = None) -> Broker:
    """A broker of a kind ("kwire" or "kafka") with `SERVER_PROPERTIES`, not started yet."""
    make = {"kwire": KwireBroker, "kafka": ProductionKafkaBroker}[kind]
    return make(home, {**SERVER_PROPERTIES, **(settings or {})})


def secured_production_broker(kind: str, home: Path) -> SecuredBroker:
    """The same with the listeners of `harness.processes.secured` and a server's key of RSA-2048."""
    make = {"kwire": SecuredKwire, "kafka": SecuredProductionKafka}[kind]
    identity = rsa_server(home / "rsa")
    return make(home, {**SERVER_PROPERTIES, "ssl.keystore.location": str(identity.pem)})
