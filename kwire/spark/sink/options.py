"""Options of the sink, as `df.write` and `df.writeStream` give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kwire.codec.compression import NAMES
from kwire.spark.sink.errors import SinkError

SINK_ID, STAGING_TOPIC, COMMITS_TOPIC = "sinkId", "stagingTopic", "commitsTopic"
_STAGING_TOPIC, _COMMITS_TOPIC = "kwire-sink-staging", "kwire-sink-commits"
CHANGED_BATCH: Final = "changedBatch"
_CHANGED: Final = ("fail", "skip")
TRANSACTION_TIMEOUT_MS: Final = 300_000
"""Time for the copy of one batch. Readers with read_committed wait so long when a driver has died and does not come
again; one that comes again ends the transaction at once."""
_TIMEOUT_S: Final = 120.0
"""Seconds for which a request is made again, as Kafka's delivery.timeout.ms."""
_BLOCK_S: Final = 60.0
"""Seconds for which a topic that does not exist is waited for, as Kafka's max.block.ms."""
_RESERVED: Final = {
    "transactional.id": "the sink makes its own from sinkId",
    "enable.idempotence": "it is always on",
    "acks": "it is always all",
    "key.serializer": "keys are bytes; cast the column key instead",
    "value.serializer": "values are bytes; cast the column value instead",
}


class SinkOptions(NamedTuple):
    """``topic``: the one for all rows, None if rows name theirs. ``sink_id``: None for the default. ``compression``: a
    codec's number."""

    bootstrap: str
    properties: dict[str, str]
    topic: str | None = None
    sink_id: str | None = None
    checkpoint: str | None = None
    staging_topic: str = _STAGING_TOPIC
    commits_topic: str = _COMMITS_TOPIC
    skips_changed: bool = False
    compression: int = 0
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    timeout_s: float = _TIMEOUT_S
    block_s: float = _BLOCK_S

    def __repr__(self) -> str:
        """Without the properties, which may have passwords."""
        return f"SinkOptions(bootstrap={self.bootstrap!r}, topic={self.topic!r}, sink_id={self.sink_id!r})"

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        """Options by their names in any case. `SinkError` for one that is missing or wrong."""
        options = {name.lower(): value for name, value in given.items()}
        properties = {name[6:]: value for name, value in options.items() if name.startswith("kafka.")}
        bootstrap = properties.pop("bootstrap.servers", "")
        if not bootstrap:
            raise SinkError("option kafka.bootstrap.servers is missing: addresses as host:port,host:port")
        for name, reason in _RESERVED.items():
            if name in properties:
                raise SinkError(f"option kafka.{name} cannot be set: {reason}")
        changed = options.get(CHANGED_BATCH.lower(), "fail")
        if changed not in _CHANGED:
            raise SinkError(f"option {CHANGED_BATCH}={changed}: it is one of {', '.join(_CHANGED)}")
        return cls(
            bootstrap=bootstrap,
            topic=options.get("topic"),
            sink_id=options.get(SINK_ID.lower()),
            checkpoint=_path(options.get("checkpointlocation")),
            staging_topic=options.get(STAGING_TOPIC.lower()) or _STAGING_TOPIC,
            commits_topic=options.get(COMMITS_TOPIC.lower()) or _COMMITS_TOPIC,
            skips_changed=changed == "skip",
            compression=_compression(properties.pop("compression.type", "none")),
            transaction_timeout_ms=_milliseconds(properties, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
            timeout_s=_milliseconds(properties, "delivery.timeout.ms", round(_TIMEOUT_S * 1000)) / 1000,
            block_s=_milliseconds(properties, "max.block.ms", round(_BLOCK_S * 1000)) / 1000,
            properties=properties,
        )

    def identity(self, query: str) -> str:
        """Under which name the query's batches are marked: ``sinkId``, the checkpoint's path, or the query's own id."""
        return self.sink_id or self.checkpoint or query


def _path(checkpoint: str | None) -> str | None:
    """One spelling of a path: file:/a, file:///a and /a/ are the same folder."""
    if not checkpoint:
        return None
    if checkpoint.startswith("file:"):
        checkpoint = "/" + checkpoint[5:].lstrip("/")
    return checkpoint.rstrip("/") or "/"


def _compression(name: str) -> int:
    if name not in NAMES:
        raise SinkError(f"option kafka.compression.type={name}: it is one of {', '.join(NAMES)}")
    return NAMES.index(name)


def _milliseconds(properties: dict[str, str], name: str, default: int) -> int:
    text = properties.pop(name, str(default))
    if not text.isdecimal() or int(text) == 0:
        raise SinkError(f"option kafka.{name}={text}: it is a number of milliseconds")
    return int(text)
