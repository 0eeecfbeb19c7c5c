"""Kafka 4.3's properties about KRaft's own quorum, which kwire does not have: facts only.

Written by `tools/config_facts/generate.py`; do not edit. A row: name, type, default, importance, update mode,
validator (`kwire.base.config.values` explains the validators).
"""

from __future__ import annotations

ROWS = (
    ("broker.heartbeat.interval.ms", "INT", 2000, "MEDIUM", "read-only", None),
    ("broker.session.timeout.ms", "INT", 9000, "MEDIUM", "read-only", None),
    ("controller.listener.names", "LIST", None, "HIGH", "read-only", ("list", None, False, False)),
    ("controller.performance.always.log.threshold.ms", "LONG", 2000, "MEDIUM", "read-only", ("range", 0, None)),
    ("controller.performance.sample.period.ms", "LONG", 60000, "MEDIUM", "read-only", ("range", 100, None)),
    ("controller.quorum.append.linger.ms", "INT", 25, "MEDIUM", "read-only", ("range", 0, None)),
    ("controller.quorum.auto.join.enable", "BOOLEAN", False, "LOW", "read-only", None),
    ("controller.quorum.bootstrap.servers", "LIST", (), "HIGH", "read-only", None),
    ("controller.quorum.election.backoff.max.ms", "INT", 1000, "HIGH", "read-only", ("range", 0, None)),
    ("controller.quorum.election.timeout.ms", "INT", 1000, "HIGH", "read-only", ("range", 0, None)),
    ("controller.quorum.fetch.max.bytes", "INT", 1048576, "LOW", "read-only", ("range", 1, None)),
    ("controller.quorum.fetch.snapshot.max.bytes", "INT", 1048576, "LOW", "read-only", ("range", 1, None)),
    ("controller.quorum.fetch.timeout.ms", "INT", 2000, "HIGH", "read-only", ("range", 0, None)),
    ("controller.quorum.request.timeout.ms", "INT", 2000, "MEDIUM", "read-only", ("range", 0, None)),
    ("controller.quorum.retry.backoff.ms", "INT", 20, "LOW", "read-only", ("range", 0, None)),
    ("controller.quorum.voters", "LIST", (), "HIGH", "read-only", None),
    ("controller.socket.timeout.ms", "INT", 30000, "MEDIUM", "read-only", None),
    ("cordoned.log.dirs", "LIST", (), "MEDIUM", "per-broker", ("list", None, True, True)),
    ("early.start.listeners", "LIST", None, "HIGH", "read-only", ("list", None, True, True)),
    ("initial.broker.registration.timeout.ms", "INT", 60000, "MEDIUM", "read-only", None),
    ("internal.metadata.delete.delay.millis", "LONG", 60000, "LOW", "read-only", None),
    ("internal.metadata.log.segment.bytes", "INT", None, "LOW", "read-only", None),
    ("internal.metadata.max.batch.size.in.bytes", "INT", 8388608, "LOW", "read-only", None),
    ("metadata.log.dir", "STRING", None, "HIGH", "read-only", None),
    ("metadata.log.max.record.bytes.between.snapshots", "LONG", 20971520, "HIGH", "read-only", ("range", 1, None)),
    ("metadata.log.max.snapshot.interval.ms", "LONG", 3600000, "HIGH", "read-only", ("range", 0, None)),
    ("metadata.log.segment.bytes", "INT", 1073741824, "HIGH", "read-only", ("range", 8388608, None)),
    ("metadata.log.segment.ms", "LONG", 604800000, "HIGH", "read-only", None),
    ("metadata.max.idle.interval.ms", "INT", 500, "LOW", "read-only", ("range", 0, None)),
    ("metadata.max.retention.bytes", "LONG", 104857600, "HIGH", "read-only", None),
    ("metadata.max.retention.ms", "LONG", 604800000, "HIGH", "read-only", None),
    ("process.roles", "LIST", None, "HIGH", "read-only", ("list", ("broker", "controller"), False, False)),
    ("server.max.startup.time.ms", "LONG", 9223372036854775807, "MEDIUM", "read-only", ("range", 0, None)),
)
