"""``kwire.metrics.otel.endpoint``: what an OTLP/HTTP collector gets from a running broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality

from harness.processes.brokers import make_broker, wait_until
from kwire.metrics.otel import metrics_data
from kwire.metrics.render import Snapshot
from tests.metrics.otlp_receiver import Receiver, attributes
from tests.metrics.test_endpoint import get, key, series, url_of

PUSHED = "kafka_server_brokertopicmetrics_messagesin_total"


def test_what_is_pushed_has_the_names_and_labels_of_the_endpoint(tmp_path: Path, receiver: Receiver) -> None:
    settings = {
        "kwire.metrics.listen": "127.0.0.1:0",
        "kwire.metrics.otel.endpoint": receiver.url,
        "kwire.metrics.otel.interval.ms": "100",
    }
    broker = make_broker("kwire", tmp_path, settings)
    broker.start()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for _ in range(7):
        producer.produce("orders", b"v")
    assert producer.flush(20) == 0
    wait_until(lambda: receiver.series("1").get(key(PUSHED, topic="orders")) == 7, 30, "the records that were sent")
    wait_until(lambda: series(get(url_of(broker))[1]).keys() == receiver.series("1").keys(), 30, "the same series")
    resource = receiver.last["1"]
    assert attributes(resource.resource.attributes)["service.name"] == "kwire"
    by_name = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    counter, summary = by_name[PUSHED], by_name["kafka_network_requestmetrics_totaltimems_count"]
    for metric in (counter, summary):
        assert metric.sum.is_monotonic
        assert metric.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        assert 0 < metric.sum.data_points[0].start_time_unix_nano < metric.sum.data_points[0].time_unix_nano
    assert by_name["kafka_log_log_logendoffset"].WhichOneof("data") == "gauge"
    broker.stop()


def test_without_an_endpoint_for_prometheus_and_through_failures(tmp_path: Path, receiver: Receiver) -> None:
    receiver.status = 400  # which is not repeated
    settings = {"kwire.metrics.otel.endpoint": receiver.url, "kwire.metrics.otel.interval.ms": "100"}
    broker = make_broker("kwire", tmp_path, settings)
    broker.start()
    assert '"metrics are served"' not in broker.log_text()
    wait_until(lambda: "metrics cannot be pushed" in broker.log_text(), 30, "a line about the failure")
    receiver.status = 200
    wait_until(lambda: "metrics are pushed again" in broker.log_text(), 30, "a line about the success")
    broker.stop()
    assert broker.log_text().count("metrics cannot be pushed") == 1
    assert "400" in next(line for line in broker.log_text().splitlines() if "metrics cannot be pushed" in line)


@pytest.mark.parametrize("label", ["", "3"])
def test_each_broker_is_a_resource(label: str) -> None:
    facts = {"broker": 3, "pid": 0, "ready": True, "brokers": 1, "addresses": []}
    rows = [["partition", "t", 0, 10, 1, 0, 5, 5, 5]]
    snapshots: dict[str, Snapshot] = {label: (rows, facts)}
    (resource,) = metrics_data(snapshots, 1, 2).resource_metrics
    assert resource.resource.attributes["service.instance.id"] == "3"
    points = {metric.name: point for metric in resource.scope_metrics[0].metrics for point in metric.data.data_points}
    labels = {"topic": "t", "partition": "0", **({"broker": label} if label else {})}
    assert points["kafka_log_log_size"].attributes == labels
    assert points["kafka_log_log_size"].time_unix_nano == 2
