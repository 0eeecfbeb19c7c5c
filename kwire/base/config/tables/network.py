"""Kafka 4.3's properties about listeners, connections and requests: facts only.

Written by `tools/config_facts/generate.py`; do not edit. A row: name, type, default, importance, update mode,
validator (`kwire.base.config.values` explains the validators).
"""

from __future__ import annotations

ROWS = (
    ("advertised.listeners", "LIST", None, "HIGH", "read-only", ("list", None, False, True)),
    ("connections.max.idle.ms", "LONG", 600000, "MEDIUM", "read-only", None),
    ("delete.records.purgatory.purge.interval.requests", "INT", 1, "MEDIUM", "read-only", None),
    ("fetch.max.bytes", "INT", 57671680, "MEDIUM", "read-only", ("range", 1024, None)),
    ("fetch.purgatory.purge.interval.requests", "INT", 1000, "MEDIUM", "read-only", None),
    ("inter.broker.listener.name", "STRING", None, "MEDIUM", "read-only", None),
    (
        "listener.security.protocol.map",
        "STRING",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "LOW",
        "per-broker",
        None,
    ),
    ("listeners", "LIST", ("PLAINTEXT://:9092",), "HIGH", "per-broker", ("list", None, False, False)),
    ("max.connection.creation.rate", "INT", 2147483647, "MEDIUM", "cluster-wide", ("range", 0, None)),
    ("max.connections", "INT", 2147483647, "MEDIUM", "cluster-wide", ("range", 0, None)),
    ("max.connections.per.ip", "INT", 2147483647, "MEDIUM", "cluster-wide", ("range", 0, None)),
    ("max.connections.per.ip.overrides", "STRING", "", "MEDIUM", "cluster-wide", None),
    ("max.incremental.fetch.session.cache.slots", "INT", 1000, "MEDIUM", "read-only", ("range", 0, None)),
    ("max.request.partition.size.limit", "INT", 2000, "MEDIUM", "read-only", ("range", 1, None)),
    ("num.io.threads", "INT", 8, "HIGH", "cluster-wide", ("range", 1, None)),
    ("num.network.threads", "INT", 3, "HIGH", "cluster-wide", ("range", 1, None)),
    ("producer.purgatory.purge.interval.requests", "INT", 1000, "MEDIUM", "read-only", None),
    ("queued.max.request.bytes", "LONG", -1, "MEDIUM", "read-only", None),
    ("queued.max.requests", "INT", 500, "HIGH", "read-only", ("range", 1, None)),
    ("request.timeout.ms", "INT", 30000, "HIGH", "read-only", None),
    ("socket.connection.setup.timeout.max.ms", "LONG", 30000, "MEDIUM", "read-only", None),
    ("socket.connection.setup.timeout.ms", "LONG", 10000, "MEDIUM", "read-only", None),
    ("socket.listen.backlog.size", "INT", 50, "MEDIUM", "read-only", ("range", 1, None)),
    ("socket.receive.buffer.bytes", "INT", 102400, "HIGH", "read-only", None),
    ("socket.request.max.bytes", "INT", 104857600, "HIGH", "read-only", ("range", 1, None)),
    ("socket.send.buffer.bytes", "INT", 102400, "HIGH", "read-only", None),
    ("telemetry.max.bytes", "INT", 1048576, "LOW", "read-only", ("range", 1, None)),
)
