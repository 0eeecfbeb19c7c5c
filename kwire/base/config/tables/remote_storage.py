"""Kafka 4.3's properties about tiered storage: facts only.

Written by `tools/config_facts/generate.py`; do not edit. A row: name, type, default, importance, update mode,
validator (`kwire.base.config.values` explains the validators).
"""

from __future__ import annotations

ROWS = (
    ("follower.fetch.last.tiered.offset.enable", "BOOLEAN", False, "MEDIUM", "cluster-wide", None),
    ("log.local.retention.bytes", "LONG", -2, "MEDIUM", "cluster-wide", ("range", -2, None)),
    ("log.local.retention.ms", "LONG", -2, "MEDIUM", "cluster-wide", ("range", -2, None)),
    ("remote.fetch.max.wait.ms", "INT", 500, "MEDIUM", "cluster-wide", ("range", 1, None)),
    ("remote.list.offsets.request.timeout.ms", "LONG", 30000, "MEDIUM", "cluster-wide", ("range", 1, None)),
    ("remote.log.index.file.cache.total.size.bytes", "LONG", 1073741824, "LOW", "cluster-wide", ("range", 1, None)),
    ("remote.log.index.file.cache.ttl.ms", "LONG", 900000, "LOW", "read-only", ("range", -1, None)),
    ("remote.log.manager.copier.thread.pool.size", "INT", 10, "MEDIUM", "cluster-wide", ("range", 1, None)),
    (
        "remote.log.manager.copy.max.bytes.per.second",
        "LONG",
        9223372036854775807,
        "MEDIUM",
        "cluster-wide",
        ("range", 1, None),
    ),
    ("remote.log.manager.copy.quota.window.num", "INT", 11, "MEDIUM", "read-only", ("range", 1, None)),
    ("remote.log.manager.copy.quota.window.size.seconds", "INT", 1, "MEDIUM", "read-only", ("range", 1, None)),
    ("remote.log.manager.expiration.thread.pool.size", "INT", 10, "MEDIUM", "cluster-wide", ("range", 1, None)),
    (
        "remote.log.manager.fetch.max.bytes.per.second",
        "LONG",
        9223372036854775807,
        "MEDIUM",
        "cluster-wide",
        ("range", 1, None),
    ),
    ("remote.log.manager.fetch.quota.window.num", "INT", 11, "MEDIUM", "read-only", ("range", 1, None)),
    ("remote.log.manager.fetch.quota.window.size.seconds", "INT", 1, "MEDIUM", "read-only", ("range", 1, None)),
    ("remote.log.manager.follower.thread.pool.size", "INT", 2, "MEDIUM", "cluster-wide", ("range", 1, None)),
    ("remote.log.manager.task.interval.ms", "LONG", 30000, "LOW", "read-only", ("range", 1, None)),
    ("remote.log.manager.task.retry.backoff.max.ms", "LONG", 30000, "LOW", "read-only", ("range", 1, None)),
    ("remote.log.manager.task.retry.backoff.ms", "LONG", 500, "LOW", "read-only", ("range", 1, None)),
    ("remote.log.manager.task.retry.jitter", "DOUBLE", 0.2, "LOW", "read-only", ("range", 0, 0.5)),
    ("remote.log.manager.thread.pool.size", "INT", 2, "MEDIUM", "read-only", ("range", 1, None)),
    ("remote.log.metadata.custom.metadata.max.bytes", "INT", 128, "LOW", "read-only", ("range", 0, None)),
    (
        "remote.log.metadata.manager.class.name",
        "STRING",
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "MEDIUM",
        "read-only",
        ("non_empty",),
    ),
    ("remote.log.metadata.manager.class.path", "STRING", None, "MEDIUM", "read-only", None),
    ("remote.log.metadata.manager.impl.prefix", "STRING", "rlmm.config.", "MEDIUM", "read-only", ("non_empty",)),
    ("remote.log.metadata.manager.listener.name", "STRING", None, "MEDIUM", "read-only", ("non_empty",)),
    ("remote.log.reader.max.pending.tasks", "INT", 100, "MEDIUM", "read-only", ("range", 1, None)),
    ("remote.log.reader.threads", "INT", 10, "MEDIUM", "cluster-wide", ("range", 1, None)),
    ("remote.log.storage.manager.class.name", "STRING", None, "MEDIUM", "read-only", ("non_empty",)),
    ("remote.log.storage.manager.class.path", "STRING", None, "MEDIUM", "read-only", None),
    ("remote.log.storage.manager.impl.prefix", "STRING", "rsm.config.", "MEDIUM", "read-only", ("non_empty",)),
    ("remote.log.storage.system.enable", "BOOLEAN", False, "MEDIUM", "read-only", None),
)
