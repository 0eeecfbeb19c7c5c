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

from kwire.base.config.definitions import BROKER_ROWS, general_name


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
        "authorizer.class.name",
        "auto.create.topics.enable",
        "broker.id",
        "broker.rack",
        "broker.session.timeout.ms",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "connection.failed.authentication.delay.ms",
        "connections.max.idle.ms",
        "connections.max.reauth.ms",
        "controlled.shutdown.enable",
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "cordoned.log.dirs",
        "default.replication.factor",
        "delegation.token.expiry.check.interval.ms",
        "delegation.token.expiry.time.ms",
        "delegation.token.max.lifetime.ms",
        "delegation.token.secret.key",
        "delete.topic.enable",
        "fetch.max.bytes",
        "follower.replication.throttled.rate",
        "group.consumer.assignment.interval.ms",
        "group.consumer.assignors",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.max.size",
        "group.consumer.migration.policy",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.consumer.session.timeout.ms",
        "group.coordinator.rebalance.protocols",
        "group.initial.rebalance.delay.ms",
        "group.max.session.timeout.ms",
        "group.max.size",
        "group.min.session.timeout.ms",
        "group.streams.assignment.interval.ms",
        "group.streams.heartbeat.interval.ms",
        "group.streams.initial.rebalance.delay.ms",
        "group.streams.max.assignment.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
        "group.streams.max.session.timeout.ms",
        "group.streams.max.size",
        "group.streams.max.standby.replicas",
        "group.streams.min.assignment.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.num.standby.replicas",
        "group.streams.session.timeout.ms",
        "inter.broker.listener.name",
        "kwire.balance.enable",
        "kwire.balance.throttled.rate",
        "kwire.jaas.config.file",
        "kwire.metadata.dir",
        "kwire.metrics.listen",
        "kwire.metrics.names",
        "kwire.metrics.otel.endpoint",
        "kwire.metrics.otel.interval.ms",
        "kwire.metrics.password",
        "kwire.metrics.ssl.certificate.location",
        "kwire.metrics.ssl.key.location",
        "kwire.metrics.topics",
        "kwire.metrics.username",
        "kwire.sasl.oauthbearer.allowed.urls",
        "kwire.telemetry.otlp.endpoint",
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
        "max.connection.creation.rate",
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
        "quota.window.num",
        "quota.window.size.seconds",
        "replication.quota.window.num",
        "replication.quota.window.size.seconds",
        "request.timeout.ms",
        "sasl.client.callback.handler.class",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.template.file",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.server.callback.handler.class",
        "sasl.server.max.receive.size",
        "security.inter.broker.protocol",
        "socket.listen.backlog.size",
        "socket.receive.buffer.bytes",
        "socket.request.max.bytes",
        "socket.send.buffer.bytes",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
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
        "client.quota.callback.class",
        "config.providers",
        "create.topic.policy.class.name",
        "kafka.metrics.reporters",
        "metric.reporters",
        "principal.builder.class",
        "remote.log.storage.system.enable",
        "security.providers",
        "transaction.two.phase.commit.enable",
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

# Names that Kafka's own definitions leave out: settings of its authorizer.
_PLUGIN_NAMES = frozenset({"super.users", "allow.everyone.if.no.acl.found"})

# When a login is renewed, and what only a JVM has: these protect nothing.
_WITHOUT_EFFECT = ("sasl.kerberos.kinit.", "sasl.kerberos.min.time.", "sasl.kerberos.ticket.")
_OF_THE_JVM = frozenset({"ssl.keymanager.algorithm", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm"})

_SECURITY = "org.apache.kafka.common.security."
# Kafka's own classes are names for what kwire does anyway; others cannot be loaded.
_CLASSES: dict[str, tuple[str, ...]] = {
    "authorizer.class.name": ("org.apache.kafka.metadata.authorizer.StandardAuthorizer",),
    "sasl.client.callback.handler.class": (
        _SECURITY + "authenticator.SaslClientCallbackHandler",
        _SECURITY + "scram.internals.ScramSaslClientCallbackHandler",
    ),
    "sasl.login.callback.handler.class": (
        _SECURITY + "authenticator.AbstractLogin$DefaultLoginCallbackHandler",
        _SECURITY + "oauthbearer.OAuthBearerLoginCallbackHandler",
        _SECURITY + "oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    ),
    "sasl.login.class": (_SECURITY + "authenticator.DefaultLogin", _SECURITY + "kerberos.KerberosLogin"),
    "sasl.oauthbearer.jwt.validator.class": (
        _SECURITY + "oauthbearer.DefaultJwtValidator",
        _SECURITY + "oauthbearer.BrokerJwtValidator",
    ),
    "sasl.oauthbearer.jwt.retriever.class": tuple(
        f"{_SECURITY}oauthbearer.{name}JwtRetriever" for name in ("Default", "ClientCredentials", "JwtBearer", "File")
    ),
    "sasl.server.callback.handler.class": (
        _SECURITY + "authenticator.SaslServerCallbackHandler",
        _SECURITY + "oauthbearer.OAuthBearerValidatorCallbackHandler",
        _SECURITY + "oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
        _SECURITY + "plain.internals.PlainServerCallbackHandler",
        _SECURITY + "scram.internals.ScramServerCallbackHandler",
    ),
    "ssl.engine.factory.class": (_SECURITY + "ssl.DefaultSslEngineFactory",),
}

# Values other than the default that change nothing here.
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "metric.reporters": ((),),
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
    name = general_name(name)
    if name in SUPPORTED:
        return Support.SUPPORTED
    if name in _PLUGIN_NAMES:
        return Support.SUPPORTED
    if name in _KRAFT_ONLY or (name.startswith(_KRAFT_PREFIXES) and name in BROKER_ROWS):
        return Support.KRAFT_ONLY
    if name in _OF_THE_JVM or (name.startswith(_WITHOUT_EFFECT) and name in BROKER_ROWS):
        return Support.NO_EFFECT
    if name in _REFUSED or name.startswith(_REFUSED_PREFIXES):
        return Support.REFUSED if name in BROKER_ROWS else Support.UNKNOWN
    return Support.NO_EFFECT if name in BROKER_ROWS else Support.UNKNOWN


def why_refused(name: str, value: Any) -> str | None:
    """Why a (typed) value of this property makes the start, or the request that sets it, fail (INVALID_CONFIG); None
    if it does not."""
    general = general_name(name)
    row = BROKER_ROWS.get(general)
    if (classes := _CLASSES.get(general)) is not None:
        reason = f"is not supported by kwire: only {', '.join(classes)}"
        return None if not value or value in classes else reason
    if support_of(name) is not Support.REFUSED:
        return None
    if row is not None and (value == row[2] or value in _HARMLESS.get(general, ())):
        return None
    return "is not supported by kwire: only the default is allowed"
