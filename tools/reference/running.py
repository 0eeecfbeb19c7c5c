"""The page of metrics: the series that a broker serves after it has been used."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from harness.processes.brokers import Broker, make_broker
from tools.reference.markdown import code, page, table

METRICS: Final = "METRICS.md"
_TOPIC: Final = "orders"
_CLIENT: Final = "shop"
_QUOTAS: Final = (
    "producer_byte_rate=1000000",
    "consumer_byte_rate=1000000",
    "request_percentage=1000",
    "controller_mutation_rate=1000",
)
_SECTIONS: Final = (
    ("Topics and requests", r"kafka_server_brokertopicmetrics_|kafka_network_"),
    ("Partitions and logs", r"kafka_log_|kafka_cluster_|kafka_topic_"),
    ("Groups", r"kafka_consumergroup_|kafka_coordinator_|kafka_server_\w*coordinator|kafka_server_(share|group)"),
    ("The cluster", r"kafka_controller_|kafka_broker|kafka_server_raft|kafka_exporter_"),
    ("The broker", r"kafka_server_"),
    ("The process", r"process_|python_"),
    ("Others", ""),
)


def written_from_a_broker() -> dict[str, str]:
    """The text of each page that a running broker tells, by the name of its file."""
    return {METRICS: metrics(series())}


def series() -> dict[str, tuple[str, frozenset[str]]]:
    """The series of a broker that serves a producer, a transaction, a consumer group and a client with quotas: by their
    names, their type and the names of their labels."""
    with tempfile.TemporaryDirectory(prefix="kwire-reference-") as folder:
        broker = make_broker("kwire", Path(folder), {"kwire.metrics.listen": "127.0.0.1:0"})
        broker.start()
        try:
            _use(broker)
            with urllib.request.urlopen(_address(broker)) as response:
                return served(response.read().decode())
        finally:
            broker.stop()


def served(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """The series in a response of the endpoint."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.get(sample.name, ("", frozenset()))[1] | sample.labels.keys()
            found[sample.name] = (family.type, frozenset(labels))
    return found


def metrics(found: dict[str, tuple[str, frozenset[str]]]) -> str:
    """The page."""
    left = dict(sorted(found.items()))
    parts = []
    for title, pattern in _SECTIONS:
        those = [name for name in left if re.match(pattern, name)]
        rows = [(code(name), left[name][0], ", ".join(map(code, sorted(left[name][1])))) for name in those]
        if rows:
            parts += [f"## {title}", table(("series", "type", "labels"), rows)]
        for name in those:
            del left[name]
    return page(
        "Metrics",
        "The series of a broker that has served a producer, a transaction, a consumer group and a client with quotas; "
        "with `kwire start --brokers N` each has the label `broker`, too. [METRICS.md](../METRICS.md) says where they "
        "come from, and how they are compared with those of Apache Kafka.",
        *parts,
    )


def listed(text: str) -> set[str]:
    """The series on the page."""
    return set(re.findall(r"^\| `(\w+)` \|", text, re.M))


def _address(broker: Broker) -> str:
    found = re.search(r'"url": "(http://[^"]+/metrics)"', broker.log_text())
    assert found is not None, "the broker has no endpoint for metrics"
    return found[1]


def _use(broker: Broker) -> None:
    quotas = [sys.executable, "-m", "kwire", "quota", "add", "--client-id", _CLIENT, *_QUOTAS]
    subprocess.run([*quotas, "--bootstrap-server", broker.bootstrap], check=True, capture_output=True, timeout=60)
    client = {"bootstrap.servers": broker.bootstrap, "client.id": _CLIENT}
    producer = Producer({**client, "transactional.id": "shop-1"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(_TOPIC, b"value")
    producer.commit_transaction(30)
    consumer = Consumer({**client, "group.id": "billing", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([_TOPIC])
        assert len(consumer.consume(1, 30)) == 1
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
