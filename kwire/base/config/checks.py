"""Rules that tie properties to each other, or that Kafka checks outside its definitions (`KafkaConfig.validateValues`).

Values are typed and within their own limits already.
"""

from __future__ import annotations

import re
from typing import Any

from kwire.base.addresses import parse_address
from kwire.base.config.cordoning import ALL_DIRECTORIES
from kwire.base.config.errors import ConfigError


def check_values(values: dict[str, Any]) -> None:
    """Raise `ConfigError` for the first rule that does not hold."""
    _check_log(values)
    _check_sockets(values)
    _check_replication(values)
    _check_groups(values)
    _check_zookeeper(values)
    _check_security(values)
    _check_telemetry(values)
    _check_metrics(values)


def _fail(name: str, values: dict[str, Any], reason: str) -> None:
    value = values[name]
    raise ConfigError(name, ",".join(value) if isinstance(value, tuple) else str(value), reason)


def _check_log(values: dict[str, Any]) -> None:
    for name in ("log.roll.ms", "log.roll.hours"):
        if values[name] is not None and values[name] < 1:
            _fail(name, values, "must be at least 1")
    for name in ("log.roll.jitter.ms", "log.roll.jitter.hours"):
        if values[name] is not None and values[name] < 0:
            _fail(name, values, "must be at least 0")
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if values[name] is not None:  # the names after it have no effect; a negative value means no limit
            if values[name] == 0:
                _fail(name, values, "must be at least 1, or -1 for no limit")
            break
    buffer = values["log.cleaner.dedupe.buffer.size"]
    if buffer // max(1, values["log.cleaner.threads"]) <= 1024 * 1024:
        _fail("log.cleaner.dedupe.buffer.size", values, "must be at least 1MB per cleaner thread")
    if values["offsets.topic.compression.codec"] not in range(5):
        _fail("offsets.topic.compression.codec", values, "must be between 0 and 4")

    cordoned = values["cordoned.log.dirs"]
    if ALL_DIRECTORIES in cordoned and len(cordoned) > 1:
        _fail("cordoned.log.dirs", values, f"must be a list of entries of log.dirs, or {ALL_DIRECTORIES} alone")


def _check_sockets(values: dict[str, Any]) -> None:
    for name in ("socket.receive.buffer.bytes", "socket.send.buffer.bytes"):
        if values[name] < 1 and values[name] != -1:
            _fail(name, values, "must be at least 1, or -1 for the system's default")
    queued = values["queued.max.request.bytes"]
    if queued > 0 and queued < values["socket.request.max.bytes"]:
        _fail("queued.max.request.bytes", values, "must be -1, or at least socket.request.max.bytes")
    _check_connection_overrides(values)
    if values["max.connections.per.ip"] == 0 and not values["max.connections.per.ip.overrides"]:
        _fail("max.connections.per.ip", values, "may be 0 only beside max.connections.per.ip.overrides")


def _check_connection_overrides(values: dict[str, Any]) -> None:
    for entry in filter(None, values["max.connections.per.ip.overrides"].split(",")):
        host, _, limit = entry.strip().rpartition(":")
        if not host or not limit.strip().isascii() or not limit.strip().isdecimal():
            _fail("max.connections.per.ip.overrides", values, "must be a list of host:limit")


RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only selector that comes with Kafka, and the only one that kwire has."""


def _check_replication(values: dict[str, Any]) -> None:
    if values["replica.selector.class"] not in (None, RACK_AWARE_SELECTOR):
        _fail("replica.selector.class", values, f"is not supported by kwire: only {RACK_AWARE_SELECTOR} is")
    wait = values["replica.fetch.wait.max.ms"]
    if wait > values["replica.socket.timeout.ms"]:
        _fail("replica.fetch.wait.max.ms", values, "must be at most replica.socket.timeout.ms")
    if wait > values["replica.lag.time.max.ms"]:
        _fail("replica.fetch.wait.max.ms", values, "must be at most replica.lag.time.max.ms")


def _check_groups(values: dict[str, Any]) -> None:
    if "classic" not in values["group.coordinator.rebalance.protocols"]:
        _fail("group.coordinator.rebalance.protocols", values, "must have classic")
    for kind in ("consumer", "share", "streams"):
        for what in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
            _check_between(values, f"group.{kind}.", what)
        if values[f"group.{kind}.heartbeat.interval.ms"] >= values[f"group.{kind}.session.timeout.ms"]:
            _fail(f"group.{kind}.heartbeat.interval.ms", values, f"must be less than group.{kind}.session.timeout.ms")

    if values["group.streams.num.standby.replicas"] > values["group.streams.max.standby.replicas"]:
        name = "group.streams.num.standby.replicas"
        _fail(name, values, "must be at most group.streams.max.standby.replicas")


def _check_between(values: dict[str, Any], prefix: str, what: str) -> None:
    low, high = f"{prefix}min.{what}", f"{prefix}max.{what}"
    if values[low] > values[high]:
        _fail(low, values, f"must be at most {high}")
    if not values[low] <= values[prefix + what] <= values[high]:
        _fail(prefix + what, values, f"must be between {low} and {high}")


def _check_security(values: dict[str, Any]) -> None:
    idle = values["connections.max.idle.ms"]
    if 0 <= idle <= values["connection.failed.authentication.delay.ms"]:
        _fail("connection.failed.authentication.delay.ms", values, "must be less than connections.max.idle.ms")


def _check_zookeeper(values: dict[str, Any]) -> None:
    """Rules between `zookeeper.*` properties. Kafka's own do not apply: kwire stores its metadata differently."""
    if values["zookeeper.connect"] is None:
        return
    hosts = values["zookeeper.connect"].partition("/")[0]
    if not all(_is_host(each.strip()) for each in hosts.split(",")):
        _fail("zookeeper.connect", values, "must be a list of host:port, with or without a path at its end")
    if values["kwire.metadata.dir"] is not None:
        _fail("zookeeper.connect", values, "cannot be set beside kwire.metadata.dir: there is one metadata store")
    for store in ("keystore", "truststore"):
        name = f"zookeeper.ssl.{store}.location"
        is_pem = values[f"zookeeper.ssl.{store}.type"] == "PEM" or (values[name] or ".pem").endswith(".pem")
        if values["zookeeper.ssl.client.enable"] and not is_pem:
            _fail(name, values, f"must be a PEM file (zookeeper.ssl.{store}.type=PEM)")
    jaas = values["kwire.zookeeper.sasl.jaas.config"]
    if jaas is not None and not _is_login(jaas.split()):
        raise ConfigError(
            "kwire.zookeeper.sasl.jaas.config",
            "[hidden]",
            'must be DigestLoginModule required username="..." password="..."; or Krb5LoginModule required ...;',
        )


def _is_host(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(text) and (not colon or text.endswith("]") or (bool(host) and port.isascii() and port.isdecimal()))


def _is_login(words: list[str]) -> bool:
    if len(words) < 2 or words[1] not in ("required", "required;"):
        return False
    if words[0].endswith("DigestLoginModule"):
        return {"username", "password"} <= {word.partition("=")[0] for word in words[2:]}
    return words[0].endswith("Krb5LoginModule")


def _check_metrics(values: dict[str, Any]) -> None:
    listen, topics = values["kwire.metrics.listen"], values["kwire.metrics.topics"]
    if listen and not listen.startswith("unix:"):
        try:
            parse_address(listen)
        except ValueError:
            _fail("kwire.metrics.listen", values, "must be HOST:PORT, such as localhost:9464")
    if topics:
        try:
            re.compile(topics)
        except re.error as error:
            _fail("kwire.metrics.topics", values, f"must be a regular expression: {error}")
    for one, other in (
        ("kwire.metrics.username", "kwire.metrics.password"),
        ("kwire.metrics.ssl.certificate.location", "kwire.metrics.ssl.key.location"),
    ):
        if bool(values[one]) != bool(values[other]):
            missing = other if values[one] else one
            _fail(missing, values, f"must be set, as {one if values[one] else other} is")


def _check_telemetry(values: dict[str, Any]) -> None:
    for name in ("kwire.telemetry.otlp.endpoint", "kwire.metrics.otel.endpoint"):
        if values[name] and not re.fullmatch(r"https?://[^/\s]+(/\S*)?", values[name]):
            _fail(name, values, "must be a URL such as http://localhost:4318/v1/metrics")
