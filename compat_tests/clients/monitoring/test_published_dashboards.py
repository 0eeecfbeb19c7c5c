"""Published dashboards for Apache Kafka have data from three kwire brokers, each with its own endpoint.

Lags are right in such a cluster too, where a group's coordinator does not lead all of its partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.clients.monitoring.published import NAMED_BY_JMX, NOT_ABOUT_KAFKA, VARIABLES, Query, queries
from compat_tests.needs import need
from harness.processes.brokers import Broker, wait_until
from harness.processes.kwire_cluster import KwireCluster
from harness.processes.prometheus import Prometheus, prometheus, why_no_prometheus
from harness.wire_client import WireClient
from kwire.codec.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

TOPIC = "orders"
PARTITIONS = range(6)
GROUPS = ("billing", "shipping", "audit", "search")
COMMITTED = 1
"""What each group has committed; partition n has n + 2 records."""


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus beside three brokers. It has scraped each three times since clients have used them."""
    need(why_no_prometheus())
    home = tmp_path_factory.mktemp("published")
    cluster = KwireCluster(home, {"kwire.metrics.listen": "127.0.0.1:0", "auto.leader.rebalance.enable": "false"})
    cluster.start()
    _use(cluster.bootstrap)
    targets = [_target(node_id, broker) for node_id, broker in cluster.brokers.items()]
    configuration = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "kafka", "static_configs": targets}],
    }
    with prometheus(home / "prometheus", yaml.safe_dump(configuration)) as server:
        wait_until(lambda: len(server.query("count_over_time(kafka_brokers[1m]) >= 3")) == 3, 60, "scrapes", 0.2)
        yield server
    cluster.stop()


def _target(node_id: int, broker: Broker) -> dict[str, object]:
    """A broker's endpoint, with the labels that Strimzi's resources for Prometheus give it."""
    found = re.search(r'"url": "http://([^/"]+)/metrics"', broker.log_text())
    assert found is not None
    cluster = VARIABLES["cluster"]
    labels = {"namespace": VARIABLES["namespace"], "strimzi_io_cluster": cluster}
    return {"targets": [found[1]], "labels": {**labels, "kubernetes_pod_name": f"{cluster}-kafka-{node_id}"}}


def _use(bootstrap: str) -> None:
    client = {"bootstrap.servers": bootstrap}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, len(PARTITIONS), 3)])[TOPIC].result(30)
    producer = Producer({**client, "transactional.id": "shop"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for index in PARTITIONS:
        for _ in range(index + 2):
            producer.produce(TOPIC, b"value", partition=index)
    producer.commit_transaction(30)  # its marker is one more offset
    for group in GROUPS:
        consumer = Consumer(
            {**client, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
        )
        consumer.assign([TopicPartition(TOPIC, index, 0) for index in PARTITIONS])
        assert consumer.poll(30) is not None
        offsets = [TopicPartition(TOPIC, index, COMMITTED) for index in PARTITIONS]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
    _prefer_another_leader(bootstrap)


def _prefer_another_leader(bootstrap: str) -> None:
    """Give a partition's replicas another order: its leader is not the preferred one any more."""
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(TOPIC, 30)
    [first, *rest] = metadata.topics[TOPIC].partitions[0].replicas
    moved = ReassignablePartition(partition_index=0, replicas=[*rest, first])
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=[moved])])
    address = metadata.brokers[metadata.controller_id]
    with WireClient(f"{address.host}:{address.port}") as client:
        response = client.call(request, 0)
    assert response.error_code == 0 and response.responses[0].partitions[0].error_code == 0


@pytest.mark.parametrize("query", list(queries()), ids=lambda query: f"{query.dashboard}: {query.expression}")
def test_expressions_of_published_dashboards_have_data(scraped: Prometheus, query: Query) -> None:
    scraped.await_data(query.expression)


def test_series_that_are_listed_as_missing_are_missing(scraped: Prometheus) -> None:
    found = [name for names in NOT_ABOUT_KAFKA.values() for name in names if scraped.query(name)]
    assert found == []


@pytest.mark.parametrize("expression", NAMED_BY_JMX)
def test_labels_of_the_jmx_exporter_are_in_snake_case(scraped: Prometheus, expression: str) -> None:
    assert scraped.query(expression) == []
    ours = expression.replace("delayedOperation", "delayed_operation")
    scraped.await_data(ours)


def test_each_lag_is_there_once_and_sums_are_right(scraped: Prometheus) -> None:
    scraped.await_value("count(kafka_consumergroup_lag)", len(GROUPS) * len(PARTITIONS))
    lag = sum(index + 2 + 1 - COMMITTED for index in PARTITIONS)
    for group in GROUPS:
        selector = f'{{consumergroup="{group}",topic="{TOPIC}"}}'
        scraped.await_value(f"sum(kafka_consumergroup_lag{selector})", lag)
        scraped.await_value(f"sum(kafka_consumergroup_lag_sum{selector})", lag)
        scraped.await_value(f"sum(kafka_consumergroup_current_offset{selector})", COMMITTED * len(PARTITIONS))
        scraped.await_value(f"sum(kafka_consumergroup_current_offset_sum{selector})", COMMITTED * len(PARTITIONS))
        scraped.await_value(f'sum(kafka_consumergroup_members{{consumergroup="{group}"}})', 0)
    assert scraped.query("count by (consumergroup, topic, partition) (kafka_consumergroup_lag) != 1") == []
    # Groups of several coordinators were seen.
    scraped.await_data("count(count by (kubernetes_pod_name) (kafka_consumergroup_members)) > 1")


def test_the_cluster_is_described_once(scraped: Prometheus) -> None:
    scraped.await_value("count(kafka_broker_info)", 3)
    scraped.await_value(f'count(kafka_topic_partition_leader{{topic="{TOPIC}"}})', len(PARTITIONS))
    scraped.await_value(f'count(kafka_topic_partition_current_offset{{topic="{TOPIC}"}})', len(PARTITIONS))
