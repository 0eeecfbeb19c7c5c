"""Kafka 4.3's properties about quotas that exist only as dynamic broker values: facts only.

Written by `tools/config_facts/generate.py`; do not edit. A row: name, type, default, importance, update mode,
validator (`kwire.base.config.values` explains the validators).
"""

from __future__ import annotations

ROWS = (
    ("follower.replication.throttled.rate", "LONG", 9223372036854775807, "MEDIUM", "cluster-wide", ("range", 0, None)),
    ("leader.replication.throttled.rate", "LONG", 9223372036854775807, "MEDIUM", "cluster-wide", ("range", 0, None)),
    (
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "LONG",
        9223372036854775807,
        "MEDIUM",
        "cluster-wide",
        ("range", 0, None),
    ),
)

INTERNAL = frozenset(
    {
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.share.initialize.retry.interval.ms",
        "group.share.persister.class.name",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "remote.log.index.file.cache.ttl.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "server.max.startup.time.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.state.topic.prune.interval.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)
