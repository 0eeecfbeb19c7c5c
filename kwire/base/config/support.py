"""How kwire supports each of Kafka's broker properties.

Every property of Kafka 4.3 is in one of four states:

- supported: it does what Kafka's does (`documentation.py` describes it in one sentence);
- no effect: accepted and ignored, because it only tunes something kwire does not have (threads, purgatories, buffers)
  or belongs to something whose switch is refused (tiered storage, transactions' internals);
- KRaft only: accepted, with one log line for all of them, because kwire has no KRaft quorum;
- refused: not supported, and ignoring it would break a promise; only its default is accepted.

A name in no set below is "no effect". The syntax of values is in `values.py`.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from kwire.base.config.definitions import BROKER_ROWS, LISTENER_PREFIX


class Support(Enum):
    """The state of a broker property in kwire."""

    SUPPORTED = "supported"
    NO_EFFECT = "no effect"
    KRAFT_ONLY = "KRaft only"
    REFUSED = "refused"
    UNKNOWN = "unknown"


SUPPORTED = frozenset(
    [
        "advertised.listeners",
        "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds",
        "auto.create.topics.enable",
        "broker.id",
        "broker.rack",
        "broker.session.timeout.ms",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "controlled.shutdown.enable",
        "default.replication.factor",
        "delete.topic.enable",
        "fetch.max.bytes",
        "follower.replication.throttled.rate",
        "group.coordinator.rebalance.protocols",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "inter.broker.listener.name",
        "kwire.metadata.dir",
        "kwire.test.control",
        "kwire.test.supported.features",
        "kwire.validate.records",
        "kwire.zookeeper.sasl.jaas.config",
        "leader.replication.throttled.rate",
        "listener.security.protocol.map",
        "listeners",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.enable",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.threads",
        "log.cleanup.policy",
        "log.dir",
        "log.dirs",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.scheduler.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.retention.bytes",
        "log.retention.check.interval.ms",
        "log.retention.hours",
        "log.retention.minutes",
        "log.retention.ms",
        "log.roll.hours",
        "log.roll.jitter.hours",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.incremental.fetch.session.cache.slots",
        "max.request.partition.size.limit",
        "message.max.bytes",
        "min.insync.replicas",
        "node.id",
        "num.partitions",
        "offset.metadata.max.bytes",
        "offsets.commit.timeout.ms",
        "offsets.retention.check.interval.ms",
        "offsets.retention.minutes",
        "offsets.topic.compression.codec",
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        "process.roles",
        "producer.id.expiration.check.interval.ms",
        "producer.id.expiration.ms",
        "queued.max.request.bytes",
        "queued.max.requests",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "replica.fetch.backoff.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.min.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "replica.lag.time.max.ms",
        "replica.selector.class",
        "replica.socket.timeout.ms",
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
        "request.timeout.ms",
        "socket.listen.backlog.size",
        "socket.receive.buffer.bytes",
        "socket.request.max.bytes",
        "socket.send.buffer.bytes",
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
        "zookeeper.session.timeout.ms",
        "zookeeper.set.acl",
        "zookeeper.ssl.client.enable",
        "zookeeper.ssl.endpoint.identification.algorithm",
        "zookeeper.ssl.keystore.location",
        "zookeeper.ssl.keystore.password",
        "zookeeper.ssl.truststore.location",
    ]
)

_REFUSED = frozenset(
    [
        "alter.config.policy.class.name",
        "authorizer.class.name",
        "client.quota.callback.class",
        "config.providers",
        "cordoned.log.dirs",
        "create.topic.policy.class.name",
        "delegation.token.secret.key",
        "kafka.metrics.reporters",
        "max.connection.creation.rate",
        "metric.reporters",
        "principal.builder.class",
        "remote.log.storage.system.enable",
        "security.inter.broker.protocol",
        "security.providers",
        "transaction.two.phase.commit.enable",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
        "zookeeper.clientCnxnSocket",
        "zookeeper.metadata.migration.enable",
        "zookeeper.ssl.cipher.suites",
        "zookeeper.ssl.crl.enable",
        "zookeeper.ssl.enabled.protocols",
        "zookeeper.ssl.keystore.type",
        "zookeeper.ssl.ocsp.enable",
        "zookeeper.ssl.protocol",
        "zookeeper.ssl.truststore.password",
        "zookeeper.ssl.truststore.type",
    ]
)
_REFUSED_PREFIXES = ("sasl.", "ssl.")

_KRAFT_ONLY = frozenset(
    [
        "broker.heartbeat.interval.ms",
        "controller.socket.timeout.ms",
        "early.start.listeners",
        "initial.broker.registration.timeout.ms",
        "sasl.mechanism.controller.protocol",
        "server.max.startup.time.ms",
    ]
)
_KRAFT_PREFIXES = (
    "controller.listener.",
    "controller.performance.",
    "controller.quorum.",
    "internal.metadata.",
    "metadata.",
)

# Names that Kafka's own definitions leave out but that belong to a plug-in of Kafka's: no effect without it.
_PLUGIN_NAMES = frozenset({"super.users", "allow.everyone.if.no.acl.found"})

# When a login is renewed: these protect nothing, and there is no login.
_LOGIN_TIMES = ("sasl.kerberos.min.time.", "sasl.kerberos.ticket.", "sasl.login.refresh.")

# Values other than the default that change nothing here.
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "metric.reporters": ((),),
    "sasl.enabled.mechanisms": ((),),
    "ssl.endpoint.identification.algorithm": ("",),
    "zookeeper.clientCnxnSocket": (
        "org.apache.zookeeper.ClientCnxnSocketNIO",
        "org.apache.zookeeper.ClientCnxnSocketNetty",
    ),
    "zookeeper.ssl.keystore.type": ("PEM",),
    "zookeeper.ssl.protocol": ("TLS", "TLSv1.3"),
    "zookeeper.ssl.truststore.type": ("PEM",),
}


def support_of(name: str) -> Support:
    """The state of a property, also under a listener's prefix."""
    if name.startswith(LISTENER_PREFIX) and name not in BROKER_ROWS:
        name = name[len(LISTENER_PREFIX) :].partition(".")[2]
    if name in SUPPORTED:
        return Support.SUPPORTED
    if name in _PLUGIN_NAMES:
        return Support.NO_EFFECT
    if name in _KRAFT_ONLY or (name.startswith(_KRAFT_PREFIXES) and name in BROKER_ROWS):
        return Support.KRAFT_ONLY
    if name.startswith(_LOGIN_TIMES) and name in BROKER_ROWS:
        return Support.NO_EFFECT
    if name in _REFUSED or name.startswith(_REFUSED_PREFIXES):
        return Support.REFUSED if name in BROKER_ROWS else Support.UNKNOWN
    return Support.NO_EFFECT if name in BROKER_ROWS else Support.UNKNOWN


def is_refused(name: str, value: Any) -> bool:
    """Whether a (typed) value of this property makes the start, or the request that sets it, fail (INVALID_CONFIG)."""
    if support_of(name) is not Support.REFUSED:
        return False
    row = BROKER_ROWS.get(name)
    return row is None or (value != row[2] and value not in _HARMLESS.get(name, ()))
