"""The keys of the metadata store, and the JSON in their values.

| key | lives | value |
| --- | --- | --- |
| ``cluster`` | always | the cluster id |
| ``features`` | always | finalised feature levels by name (written anew, unchanged, by each registration) |
| ``brokers/<id>`` | with the broker's session | endpoints, rack, the levels of features that it supports;
``created`` is the broker epoch, ``leaving``: it is about to stop and wants to lead nothing |
| ``registrations/<id>`` | until it is unregistered | what the broker's latest registration told: a broker that is
away still counts |
| ``controller`` | with the controller's session | broker id and controller epoch |
| ``controller-epoch`` | always | the newest controller epoch |
| ``topics/<name>`` | always | topic id |
| ``partitions/<topic id>/<shard>`` | always | `PartitionState` of up to `SHARD_PARTITIONS` partitions |
| ``configs/<type>/<name>`` | always | properties that were set by request; the name is escaped, "" is "all brokers" |
| ``directories/<id>`` | always | the paths of `log.dirs` that a broker with more than one has used |
| ``producer-ids`` | always | the first producer id that no block holds yet |

Partitions are kept in shards, so that no value grows with a topic and the fail-over of thousands of partitions is a
few hundred keys. Every value is an object whose ``v`` is its format version; a newer one is refused, unknown fields
are left alone by readers. What lives elsewhere: what is made of it in memory (`kwire.cluster.metadata.image`).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kwire.base.uuids import uuid_to_text
from kwire.cluster.store.store import StoreFormatError

VALUE_FORMAT: Final = 1
SHARD_PARTITIONS: Final = 64

CLUSTER: Final = "cluster"
FEATURES: Final = "features"
CONTROLLER: Final = "controller"
CONTROLLER_EPOCH: Final = "controller-epoch"
PRODUCER_IDS: Final = "producer-ids"
BROKERS: Final = "brokers/"
REGISTRATIONS: Final = "registrations/"
TOPICS: Final = "topics/"
PARTITIONS: Final = "partitions/"
CONFIGS: Final = "configs/"
DIRECTORIES: Final = "directories/"


class ConfigResource(IntEnum):
    """What a configuration belongs to: Kafka's `ConfigResource.Type` codes."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_RESOURCE_NAMES: Final = {
    ConfigResource.TOPIC: "topic",
    ConfigResource.BROKER: "broker",
    ConfigResource.CLIENT_METRICS: "client-metrics",
    ConfigResource.GROUP: "group",
}
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._")
_RESOURCES: Final = {name: resource for resource, name in _RESOURCE_NAMES.items()}


class PartitionState(NamedTuple):
    """One partition as the cluster knows it. ``leader`` is -1 while there is none; both epochs start at 0 and grow
    with every election and every change of any kind, respectively.

    ``elr``: eligible leader replicas, out of the ISR since it became smaller than `min.insync.replicas`, which have all
    that was committed. ``last_leader``: one broker or none, who led when nobody was left in ISR and ELR (KIP-966).
    ``adding`` and ``removing``: replicas that a reassignment brings and takes away (KIP-455). ``offline``: replicas
    whose log is in a directory that has failed, on a broker that may be well otherwise.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    last_leader: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()

    def is_offline(self, replica: int, brokers: Collection[int]) -> bool:
        """Whether a replica cannot serve: its broker is gone, or the directory that it lies in has failed."""
        return replica not in brokers or replica in self.offline


def broker_key(broker_id: int) -> str:
    return f"{BROKERS}{broker_id}"


def registration_key(broker_id: int) -> str:
    return f"{REGISTRATIONS}{broker_id}"


def topic_key(name: str) -> str:
    return TOPICS + name


def shard_key(topic_id: bytes, shard: int) -> str:
    return f"{PARTITIONS}{uuid_to_text(topic_id)}/{shard:06d}"


def config_key(resource: ConfigResource, name: str) -> str:
    return f"{CONFIGS}{_RESOURCE_NAMES[resource]}/{_escape(name)}"


def config_resource(key: str) -> tuple[ConfigResource, str]:
    """The inverse of `config_key`."""
    _, kind, name = key.split("/", 2)
    return _RESOURCES[kind], _unescape(name)


def pack(**fields: Any) -> bytes:
    """A value of the present format."""
    return json.dumps({"v": VALUE_FORMAT, **fields}, separators=(",", ":")).encode()


def unpack(key: str, value: bytes) -> dict[str, Any]:
    """The fields of a value; `StoreFormatError` for one that this kwire cannot read."""
    try:
        fields = json.loads(value)
        version = fields["v"]
    except (ValueError, KeyError, TypeError):
        raise StoreFormatError(f"the metadata store holds no kwire value under {key}") from None
    if version > VALUE_FORMAT:
        raise StoreFormatError(f"the metadata store's value under {key} was written by a newer kwire")
    return fields  # type: ignore[no-any-return]


def pack_shard(states: list[PartitionState]) -> bytes:
    """The partitions of one shard, in order of their index."""
    return pack(p=[list(state) if any(state[5:]) else list(state[:5]) for state in states])


def unpack_shard(key: str, value: bytes) -> list[PartitionState]:
    """The inverse of `pack_shard`."""
    return [
        PartitionState(tuple(replicas), tuple(isr), leader, leader_epoch, partition_epoch, *map(tuple, more[:5]))
        for replicas, isr, leader, leader_epoch, partition_epoch, *more in unpack(key, value)["p"]
    ]


def _escape(name: str) -> str:
    """Percent-encoding of all but letters, digits and ``-._``, so that any name is one key segment."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in name.encode())


def _unescape(text: str) -> str:
    first, *rest = text.split("%")
    return (first.encode() + b"".join(bytes.fromhex(part[:2]) + part[2:].encode() for part in rest)).decode()
