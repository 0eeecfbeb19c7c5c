"""Series of kwire's endpoint beside those of the JMX exporter on Apache Kafka, after the same work."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from compat_tests.comparisons.metrics import jmx
from compat_tests.comparisons.metrics.differences import FOR_PROMETHEUS, HELD, ONLY_KAFKA, ONLY_KWIRE, OTHER_LABELS
from compat_tests.needs import need
from harness.kafka_jars import JarsUnavailable, why_no_java
from harness.processes.brokers import Broker, KafkaBroker, KwireBroker
from harness.processes.ports import free_port
from harness.wire_client import WireClient
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData

Series = dict[str, set[tuple[str, ...]]]
"""Names of series, with the names of their labels."""

RECORDS = 10
CLIENT = "shop"


def series(broker: Broker, port: int) -> Series:
    """Those of a broker that has served a producer and a consumer group."""
    broker.start()
    try:
        work(broker.bootstrap)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
            text = response.read().decode()
    finally:
        broker.stop()
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name, labels = as_the_example_names_it(sample.name, sample.labels)
            found.setdefault(name, set()).add(tuple(sorted(labels)))
    return {name: labels for name, labels in found.items() if name.startswith(("kafka_", "kwire_"))}


def as_the_example_names_it(name: str, labels: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """Quotas have labels by the example's rules for them. Those rules never apply, because one for all attributes comes
    before: it puts the client's id into the name."""
    if not name.startswith("kafka_server_quota_"):
        return name, labels
    attribute = name.removeprefix("kafka_server_quota_")
    client = labels.get("clientId") or labels["client_id"]
    return f"kafka_server_{labels['resource'].lower()}_client_id_{client}_{attribute}", {}


QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")


def limit_clients(bootstrap: str) -> None:
    """Quotas of one client id, higher than anybody reaches."""
    entity = EntityData(entity_type="client-id", entity_name=CLIENT)
    ops = [OpData(key=key, value=1_000_000.0) for key in QUOTAS]
    with WireClient(bootstrap) as client:
        response = client.call(AlterClientQuotasRequest(entries=[EntryData(entity=[entity], ops=ops)]), 1)
    assert [entry.error_code for entry in response.entries] == [0]


def work(bootstrap: str) -> None:
    limit_clients(bootstrap)
    client = {"bootstrap.servers": bootstrap, "client.id": CLIENT}
    admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": CLIENT})
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
    producer = Producer(client)
    for _ in range(RECORDS):
        producer.produce("orders", b"value")
    producer.flush()
    consumer = Consumer({**client, "group.id": "billing", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    count = 0
    while count < RECORDS:
        message = consumer.poll(1)
        count += message is not None and message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Series, Series]:
    """Apache Kafka's and kwire's with the exporter's names."""
    need(why_no_java())
    try:
        agent = jmx.agent()
    except JarsUnavailable as reason:
        need(str(reason))
    port = free_port()
    kafka = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    rules: Path = kafka.home / "rules.yml"
    rules.write_text(jmx.rules())
    kafka.environment["JAVA_TOOL_OPTIONS"] = f"-javaagent:{agent}={port}:{rules}"
    return series(kafka, port), series_of_kwire(tmp_path_factory.mktemp("kwire"), "jmx")


def series_of_kwire(home: Path, names: str) -> Series:
    port = free_port()
    broker = KwireBroker(home, {"kwire.metrics.listen": f"127.0.0.1:{port}", "kwire.metrics.names": names})
    return series(broker, port)


def unexplained(names: Iterable[str], reasons: tuple[tuple[str, str], ...]) -> list[str]:
    return sorted(name for name in names if not any(re.fullmatch(pattern, name) for pattern, _ in reasons))


def test_names_that_dashboards_query_are_on_both_with_the_same_labels(both: tuple[Series, Series]) -> None:
    kafka, kwire = both
    assert {name: kwire.get(name) for name in HELD} == {name: kafka.get(name) for name in HELD}


def test_what_only_one_of_them_has_is_known_with_its_reason(both: tuple[Series, Series]) -> None:
    kafka, kwire = both
    assert unexplained(kafka.keys() - kwire.keys(), ONLY_KAFKA) == []
    assert unexplained(kwire.keys() - kafka.keys(), ONLY_KWIRE) == []


def test_labels_are_the_same_but_for_topics(both: tuple[Series, Series]) -> None:
    kafka, kwire = both
    differing = [name for name in kafka.keys() & kwire.keys() if (kafka[name] ^ kwire[name]) - {("topic",)}]
    assert set(differing) == set(OTHER_LABELS)


def test_the_names_for_prometheus_differ_where_the_list_says(both: tuple[Series, Series], tmp_path: Path) -> None:
    _, exporters = both
    ours = series_of_kwire(tmp_path, "prometheus")
    assert {name for name in exporters if ours.get(name) != exporters[name]} == set(FOR_PROMETHEUS)
    changed = {change.name or name: change.labels for name, change in FOR_PROMETHEUS.items()}
    assert {name for name in ours if ours[name] != exporters.get(name)} == changed.keys()
    for name, change in FOR_PROMETHEUS.items():
        [labels] = ours[change.name or name]
        assert labels == change.labels, name
