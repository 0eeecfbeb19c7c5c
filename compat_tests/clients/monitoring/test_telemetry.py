"""Real clients push their metrics to kwire (KIP-714), which forwards them to an OTLP/HTTP endpoint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from compat_tests.comparisons.configs.requests import CLIENT_METRICS, SET, Configs, wait_until
from compat_tests.servers import running
from harness.java_runner import JavaRunner
from harness.processes.brokers import Broker, make_broker
from harness.wire_client import WireClient
from kwire.codec.messages.api_versions_request import ApiVersionsRequest

TELEMETRY_KEYS = {71, 72}


class Receiver:
    """An OTLP/HTTP endpoint. ``resources``: of all that came, attributes and names of metrics."""

    def __init__(self) -> None:
        self.resources: list[tuple[dict[str, str], set[str]]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.add(self.path, self.headers["Content-Type"], body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/metrics"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def add(self, path: str, content_type: str, body: bytes) -> None:
        assert (path, content_type) == ("/v1/metrics", "application/x-protobuf")
        for one in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            attributes = {each.key: each.value.string_value for each in one.resource.attributes}
            names = {metric.name for scope in one.scope_metrics for metric in scope.metrics}
            self.resources.append((attributes, names))

    def names(self, client_id: str) -> set[str]:
        """The metrics of one client."""
        return {name for attributes, names in self.resources if attributes["client_id"] == client_id for name in names}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def telemetry_broker(tmp_path: Path, receiver: Receiver) -> Iterator[Broker]:
    broker = make_broker("kwire", tmp_path / "broker", {"kwire.telemetry.otlp.endpoint": receiver.url})
    with running(broker, broker.stop):
        with WireClient(broker.bootstrap) as client:
            changes = [("interval.ms", SET, "100"), ("metrics", SET, "*"), ("match", SET, "client_id=watched.*")]
            assert Configs(client).change(CLIENT_METRICS, "all", *changes) == "NONE"
        yield broker


def advertised(broker: Broker) -> set[int]:
    with WireClient(broker.bootstrap) as client:
        return {each.api_key for each in client.call(ApiVersionsRequest(), 0).api_keys} & TELEMETRY_KEYS


def test_without_an_endpoint_clients_are_not_asked(broker: Broker) -> None:
    assert not advertised(broker)


@pytest.mark.java
def test_java_and_librdkafka_push(
    telemetry_broker: Broker, receiver: Receiver, java: JavaRunner, tmp_path: Path
) -> None:
    assert advertised(telemetry_broker) == TELEMETRY_KEYS
    for name in ("watched-java", "not-watched"):
        (tmp_path / name).write_text(f"client.id={name}\n")
        arguments = ["--bootstrap-server", telemetry_broker.bootstrap, "--topic", "t", "--command-config"]
        count = ["--max-messages", "3", "--throughput", "1"]  # a producer that lives long enough to push
        java.tool("org.apache.kafka.tools.VerifiableProducer", *arguments, str(tmp_path / name), *count).check()
    producer = Producer({"bootstrap.servers": telemetry_broker.bootstrap, "client.id": "watched-confluent"})
    producer.produce("t", b"x")
    producer.flush()
    wait_until(lambda: bool(receiver.names("watched-java") and receiver.names("watched-confluent")))
    assert "org.apache.kafka.producer.connection.creation.total" in receiver.names("watched-java")
    assert "org.apache.kafka.producer.connection.creation.total" in receiver.names("watched-confluent")
    assert {attributes["client_id"] for attributes, _ in receiver.resources} == {"watched-java", "watched-confluent"}
    attributes = receiver.resources[0][0]
    assert attributes["client_software_name"] == "apache-kafka-java"
    assert attributes["principal"] == "User:ANONYMOUS"
    assert attributes["broker_id"] == "1"
    assert len(attributes["client_instance_id"]) == 22
    assert attributes["client_source_port"].isdecimal()
