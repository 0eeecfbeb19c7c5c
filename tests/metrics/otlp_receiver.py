"""`Receiver`: an OTLP/HTTP endpoint that keeps what was pushed last."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics

Key = tuple[str, frozenset[tuple[str, str]]]


class Receiver:
    """Listens until it is closed. ``status``: what it answers."""

    def __init__(self) -> None:
        self.status = 200
        self.last: dict[str, ResourceMetrics] = {}
        """The newest resource by its instance."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.add(self.path, self.headers["Content-Type"], body)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/metrics"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def add(self, path: str, content_type: str, body: bytes) -> None:
        """A request has come."""
        assert (path, content_type) == ("/v1/metrics", "application/x-protobuf")
        for one in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            self.last[attributes(one.resource.attributes)["service.instance.id"]] = one

    def instances(self) -> set[str]:
        """Which brokers have pushed."""
        return set(self.last)

    def series(self, instance: str) -> dict[Key, float]:
        """The newest values of a broker by name and labels; none before the first push."""
        if instance not in self.last:
            return {}
        return {
            (metric.name, frozenset(attributes(point.attributes).items())): point.as_double or point.as_int
            for scope in self.last[instance].scope_metrics
            for metric in scope.metrics
            for point in (metric.sum if metric.WhichOneof("data") == "sum" else metric.gauge).data_points
        }

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


def attributes(given: Any) -> dict[str, str]:
    """Attributes by key."""
    found: list[KeyValue] = list(given)
    return {each.key: each.value.string_value for each in found}
