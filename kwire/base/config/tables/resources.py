"""Kafka 4.3's properties about groups, client metrics subscriptions and client quotas: facts only.

Written by `tools/config_facts/generate.py`; do not edit. A row: name, type, default, importance, update mode,
validator (`kwire.base.config.values` explains the validators).
"""

from __future__ import annotations

GROUP_ROWS = (
    ("consumer.assignment.interval.ms", "INT", 1000, "MEDIUM", "dynamic", ("range", 0, None)),
    ("consumer.heartbeat.interval.ms", "INT", 5000, "MEDIUM", "dynamic", ("range", 1, None)),
    ("consumer.session.timeout.ms", "INT", 45000, "MEDIUM", "dynamic", ("range", 1, None)),
    ("share.assignment.interval.ms", "INT", 1000, "MEDIUM", "dynamic", ("range", 0, None)),
    ("share.auto.offset.reset", "STRING", "latest", "MEDIUM", "dynamic", ("share_offset_reset",)),
    ("share.delivery.count.limit", "INT", 5, "MEDIUM", "dynamic", ("range", 2, None)),
    ("share.heartbeat.interval.ms", "INT", 5000, "MEDIUM", "dynamic", ("range", 1, None)),
    (
        "share.isolation.level",
        "STRING",
        "read_uncommitted",
        "MEDIUM",
        "dynamic",
        ("in", ("read_committed", "read_uncommitted")),
    ),
    ("share.partition.max.record.locks", "INT", 2000, "MEDIUM", "dynamic", ("range", 100, None)),
    ("share.record.lock.duration.ms", "INT", 30000, "MEDIUM", "dynamic", ("range", 1000, None)),
    ("share.renew.acknowledge.enable", "BOOLEAN", True, "MEDIUM", "dynamic", None),
    ("share.session.timeout.ms", "INT", 45000, "MEDIUM", "dynamic", ("range", 1, None)),
    ("streams.assignment.interval.ms", "INT", 1000, "MEDIUM", "dynamic", ("range", 0, None)),
    ("streams.heartbeat.interval.ms", "INT", 5000, "MEDIUM", "dynamic", ("range", 1, None)),
    ("streams.initial.rebalance.delay.ms", "INT", 3000, "MEDIUM", "dynamic", ("range", 0, None)),
    ("streams.num.standby.replicas", "INT", 0, "MEDIUM", "dynamic", ("range", 0, None)),
    ("streams.session.timeout.ms", "INT", 45000, "MEDIUM", "dynamic", ("range", 1, None)),
)

CLIENT_METRICS_ROWS = (
    ("interval.ms", "INT", 300000, "MEDIUM", "dynamic", None),
    ("match", "LIST", (), "MEDIUM", "dynamic", ("list", None, True, False)),
    ("metrics", "LIST", (), "MEDIUM", "dynamic", ("list", None, True, False)),
)

QUOTA_ROWS = (
    ("consumer_byte_rate", "LONG", 9223372036854775807, "MEDIUM", "dynamic", None),
    ("controller_mutation_rate", "DOUBLE", 2147483647.0, "MEDIUM", "dynamic", None),
    ("producer_byte_rate", "LONG", 9223372036854775807, "MEDIUM", "dynamic", None),
    ("request_percentage", "DOUBLE", 2147483647.0, "MEDIUM", "dynamic", None),
)

GROUP_SYNONYMS = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.assignment.interval.ms",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas": "group.streams.num.standby.replicas",
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
}
