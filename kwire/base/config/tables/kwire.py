"""kwire's own properties, and the defaults in which kwire differs from Kafka. Written by hand."""

from __future__ import annotations

ROWS = (
    ("kwire.balance.enable", "BOOLEAN", False, "MEDIUM", "read-only", None),
    ("kwire.balance.throttled.rate", "LONG", 52_428_800, "LOW", "read-only", ("range", 1, None)),
    ("kwire.jaas.config.file", "STRING", None, "MEDIUM", "read-only", None),
    ("kwire.metadata.dir", "STRING", None, "HIGH", "read-only", None),
    ("kwire.metrics.listen", "STRING", None, "MEDIUM", "read-only", None),
    ("kwire.metrics.names", "STRING", "prometheus", "LOW", "read-only", ("in", ("prometheus", "jmx"))),
    ("kwire.metrics.otel.endpoint", "STRING", None, "MEDIUM", "read-only", None),
    ("kwire.metrics.otel.interval.ms", "INT", 60_000, "LOW", "read-only", ("range", 100, None)),
    ("kwire.metrics.password", "PASSWORD", None, "MEDIUM", "read-only", None),
    ("kwire.metrics.ssl.certificate.location", "STRING", None, "MEDIUM", "read-only", None),
    ("kwire.metrics.ssl.key.location", "STRING", None, "MEDIUM", "read-only", None),
    ("kwire.metrics.topics", "STRING", None, "LOW", "read-only", None),
    ("kwire.metrics.username", "STRING", None, "MEDIUM", "read-only", None),
    ("kwire.sasl.oauthbearer.allowed.urls", "LIST", (), "MEDIUM", "read-only", None),
    ("kwire.telemetry.otlp.endpoint", "STRING", None, "MEDIUM", "read-only", None),
    ("kwire.test.control", "BOOLEAN", False, "LOW", "read-only", None),
    ("kwire.test.supported.features", "LIST", (), "LOW", "read-only", None),
    ("kwire.validate.records", "BOOLEAN", False, "MEDIUM", "read-only", None),
)

# One broker is the ordinary case: internal topics have one replica and groups need not wait for their other members.
# By default other hosts cannot reach the broker, unlike in Kafka, whose default listener is on all interfaces.
DEFAULTS = {
    "broker.id": 1,
    "controller.listener.names": (),
    "group.initial.rebalance.delay.ms": 0,
    "listeners": ("PLAINTEXT://localhost:9092",),
    "log.dir": ("./kwire-data",),
    "node.id": 1,
    "offsets.topic.replication.factor": 1,
    "process.roles": ("broker",),
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.replication.factor": 1,
}
