"""`Pusher`: the series of ``/metrics``, pushed by OTLP over HTTP at intervals (``kwire.metrics.otel.endpoint``).

Names and labels are those of ``/metrics``: a metric for each name, its labels as attributes. Counters, and the counts
and sums of summaries, are cumulative monotonic sums; everything else is a gauge. Each broker is a resource of its own.
Headers and certificates come from OpenTelemetry's environment variables (``OTEL_EXPORTER_OTLP_HEADERS`` and so on).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from kwire import __version__
from kwire.base.logging import get_logger
from kwire.metrics.brokers import Unavailable, ask_all
from kwire.metrics.mbeans import Sample
from kwire.metrics.names import NAMINGS, PROMETHEUS, Naming
from kwire.metrics.render import Snapshot, all_samples

REQUEST_S: Final = 10.0
"""Seconds for a request, with its repetitions; a push that fails is not repeated: the next one has all values."""
POINTS_MAX: Final = 10_000
"""The most values in one request."""
STARTED: Final = "process_start_time_seconds"
_COUNTED: Final = ("_total", "_count", "_sum")

_log = get_logger("kwire.metrics.otel")


class Pusher:
    """Pushes until the process ends. A line is logged when pushes begin to fail, and when they succeed again."""

    def __init__(self, endpoint: str, interval_s: float, sockets: Mapping[str, str], naming: Naming) -> None:
        self._endpoint = endpoint
        self._interval_s = interval_s
        self._sockets = sockets
        self._naming = naming
        self._exporter = OTLPMetricExporter(endpoint, timeout=REQUEST_S, max_export_batch_size=POINTS_MAX)
        self._started_ns = time.time_ns()
        self._reason = _LastReason()
        self._fails = False

    def run(self) -> None:
        """Push now, and then at intervals."""
        due = time.monotonic()
        while True:
            self.push()
            due = max(due + self._interval_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def push(self) -> None:
        """Push once what the brokers have."""
        try:
            snapshots = ask_all(self._sockets)
        except Unavailable:  # it is starting or stopping
            return
        data = metrics_data(snapshots, self._started_ns, time.time_ns(), self._naming)
        fails = self._exporter.export(data) is not MetricExportResult.SUCCESS
        if fails and not self._fails:
            _log.warning("metrics cannot be pushed", endpoint=self._endpoint, reason=self._reason.text)
        elif self._fails and not fails:
            _log.info("metrics are pushed again", endpoint=self._endpoint)
        self._fails = fails

    def start(self) -> None:
        """`run` on a thread of its own."""
        threading.Thread(target=self.run, daemon=True, name="otel").start()


class _LastReason(logging.Handler):
    """Takes what OpenTelemetry's library logs, which is the only place where it says why a push has failed."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.text = " ".join(record.getMessage().split())[:300]


def metrics_data(
    snapshots: Mapping[str, Snapshot], started_ns: int, now_ns: int, naming: Naming = NAMINGS[PROMETHEUS]
) -> MetricsData:
    """All series of brokers. ``started_ns``: since when counters count, for brokers that do not tell."""
    found: dict[str, list[Sample]] = {broker: [] for broker in snapshots}
    for broker, sample in all_samples(snapshots, naming):
        found[broker].append(sample)
    scope = InstrumentationScope("kwire", __version__)
    resources = []
    for broker, samples in found.items():
        since = next((int(each.value * 1e9) for each in samples if each.family == STARTED), started_ns)
        metrics = list(_metrics(samples, since, now_ns))
        instance = str(snapshots[broker][1]["broker"])
        attributes = {"service.name": "kwire", "service.version": __version__, "service.instance.id": instance}
        resource = Resource(attributes)
        resources.append(ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], ""))
    return MetricsData(resources)


def _metrics(samples: list[Sample], since_ns: int, now_ns: int) -> Iterator[Metric]:
    points: dict[str, list[NumberDataPoint]] = {}
    counted: set[str] = set()
    for sample in samples:
        name = sample.family + sample.suffix
        if sample.kind in ("counter", "summary") and sample.suffix in _COUNTED:
            counted.add(name)
        point = NumberDataPoint(sample.labels, since_ns if name in counted else 0, now_ns, sample.value)
        points.setdefault(name, []).append(point)
    for name, those in points.items():
        if name in counted:
            yield Metric(name, "", "", Sum(those, AggregationTemporality.CUMULATIVE, is_monotonic=True))
        else:
            yield Metric(name, "", "", Gauge(those))
