"""The keys of the metadata store, and the JSON in their values.

| key | lifetime | value |
| --- | --- | --- |
| ``balance`` | always, once `kwire.balance.enable` was true | over which brokers partitions have been spread, and which
throttles were set to move them |
| ``cluster`` | always | the cluster id |
| ``features`` | always | finalised feature levels by name (each registration writes them again, unchanged) |
| ``brokers/<id>`` | with the broker's session | endpoints, rack, supported feature levels; ``created`` is the broker
epoch, ``leaving`` marks a controlled shutdown |
| ``registrations/<id>`` | until the broker is unregistered | the value of the broker's latest registration: a fenced
broker still counts |
| ``controller`` | with the controller's session | broker id and controller epoch |
| ``controller-epoch`` | always | the newest controller epoch |
| ``topics/<name>`` | always | topic id |
| ``partitions/<topic id>/<shard>`` | always | `PartitionState` of up to `SHARD_PARTITIONS` partitions |
| ``configs/<type>/<name>`` | always | dynamic properties; the name is escaped, "" stands for all brokers |
| ``directories/<id>`` | always | the paths of `log.dirs` that a broker with more than one has used |
| ``producer-ids`` | always | the first producer id that is not allocated yet |
| ``scram/<mechanism>/<user>`` | until it is deleted | a user's SCRAM credential; the name is escaped |
| ``scram-secret`` | always, once a broker has offered SCRAM | the secret for the salts of unknown users |
| ``delegation-tokens/<token id>`` | until it is deleted | a delegation token, without its HMAC |
| ``acls/<digest>`` | until it is deleted | an access control entry; the digest is of what it says, so none is there
twice |
| ``acl-change`` | always, once there was an entry | its version is that of the newest change of the entries |
| ``acl-confirmations/<id>`` | with the broker's session | this broker decides by the newest change that there was when
the key was written |
| ``quotas/<digest>`` | until it is deleted | the quotas of a user, a client id, both or an address; the digest is of
its names |

Partitions are kept in shards, so that no value grows with a topic and the failover of thousands of partitions writes
only a few hundred keys. Every value is an object whose ``v`` is its format version; readers refuse a newer one and
ignore unknown fields. What lives elsewhere: the state in memory (`kwire.cluster.metadata.image`).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kwire.base.uuids import uuid_to_text
from kwire.cluster.store.store import StoreFormatError

VALUE_FORMAT: Final = 1
_DIGEST_CHARACTERS: Final = 40
SHARD_PARTITIONS: Final = 64

BALANCE: Final = "balance"
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
SCRAM: Final = "scram/"
SCRAM_SECRET: Final = "scram-secret"
DELEGATION_TOKENS: Final = "delegation-tokens/"
ACLS: Final = "acls/"
ACL_CHANGE: Final = "acl-change"
ACL_CONFIRMATIONS: Final = "acl-confirmations/"
CLIENT_QUOTAS: Final = "quotas/"
ACCESS: Final = (SCRAM, DELEGATION_TOKENS, ACLS, CLIENT_QUOTAS)
"""How the keys begin that need the feature level `kwire.access.version`."""


class ConfigResource(IntEnum):
    """The type of a resource that has configuration: Kafka's `ConfigResource.Type` codes."""

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
    """One partition in the metadata. ``leader`` is -1 if there is none. Both epochs start at 0: the leader epoch grows
    with every election, the partition epoch with every change.

    ``elr``: eligible leader replicas, which left the ISR when it became smaller than `min.insync.replicas` and have all
    committed records. ``last_leader``: the last known leader if ISR and ELR are empty, else no broker (KIP-966).
    ``adding`` and ``removing``: replicas that a reassignment adds and removes (KIP-455). ``offline``: replicas whose
    log directory has failed; their brokers may be live.
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
        """Whether a replica cannot serve: its broker is not live, or its log directory has failed."""
        return replica not in brokers or replica in self.offline


class BalanceState(NamedTuple):
    """How far partitions are spread. ``brokers``: those over which they have been. ``topics`` and ``rates``: the topics
    and the brokers whose replication is throttled to move partitions to other brokers; an operator's own throttles are
    not among them."""

    brokers: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    rates: tuple[int, ...] = ()


def pack_balance(state: BalanceState) -> bytes:
    """The value of `BALANCE`."""
    return pack(**state._asdict())


def unpack_balance(value: bytes) -> BalanceState:
    """The inverse of `pack_balance`."""
    fields = unpack(BALANCE, value)
    return BalanceState(tuple(fields["brokers"]), tuple(fields["topics"]), tuple(fields["rates"]))


def broker_key(broker_id: int) -> str:
    """The key of a broker's registration that vanishes with its session."""
    return f"{BROKERS}{broker_id}"


def registration_key(broker_id: int) -> str:
    """The key of a broker's registration that lasts until UnregisterBroker."""
    return f"{REGISTRATIONS}{broker_id}"


def topic_key(name: str) -> str:
    """The key of a topic's id."""
    return TOPICS + name


def shard_key(topic_id: bytes, shard: int) -> str:
    """The key of `SHARD_PARTITIONS` partitions of a topic."""
    return f"{PARTITIONS}{uuid_to_text(topic_id)}/{shard:06d}"


def config_key(resource: ConfigResource, name: str) -> str:
    """The key of a resource's dynamic properties."""
    return f"{CONFIGS}{_RESOURCE_NAMES[resource]}/{_escape(name)}"


def config_resource(key: str) -> tuple[ConfigResource, str]:
    """The inverse of `config_key`."""
    _, kind, name = key.split("/", 2)
    return _RESOURCES[kind], _unescape(name)


def scram_key(mechanism: int, user: str) -> str:
    """The key of a user's credential of one mechanism (by its code)."""
    return f"{SCRAM}{mechanism}/{_escape(user)}"


def scram_user(key: str) -> tuple[int, str]:
    """The inverse of `scram_key`."""
    _, mechanism, name = key.split("/", 2)
    return int(mechanism), _unescape(name)


def delegation_token_key(token_id: str) -> str:
    """The key of a delegation token."""
    return f"{DELEGATION_TOKENS}{token_id}"


def acl_confirmation_key(broker_id: int) -> str:
    """The key with which a broker confirms the newest change of the access control entries."""
    return f"{ACL_CONFIRMATIONS}{broker_id}"


def digest_key(prefix: str, *names: object) -> str:
    """A key below a prefix for what has these names, of whatever length."""
    from hashlib import sha256  # few clusters have such keys

    return prefix + sha256(json.dumps(names).encode()).hexdigest()[:_DIGEST_CHARACTERS]


def pack(**fields: Any) -> bytes:
    """A value in the current format."""
    return json.dumps({"v": VALUE_FORMAT, **fields}, separators=(",", ":")).encode()


def unpack(key: str, value: bytes) -> dict[str, Any]:
    """The fields of a value; `StoreFormatError` if this version of kwire cannot read it."""
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
    return [_state(*fields) for fields in unpack(key, value)["p"]]


def _state(
    replicas: list[int], isr: list[int], leader: int, leader_epoch: int, partition_epoch: int, *more: list[int]
) -> PartitionState:
    assigned = tuple(replicas)
    in_sync = assigned if isr == replicas else tuple(isr)  # one tuple: every broker has every partition in memory
    return PartitionState(assigned, in_sync, leader, leader_epoch, partition_epoch, *map(tuple, more[:5]))


def _escape(name: str) -> str:
    """Percent-encode all but letters, digits and ``-._``, so that any name is one key segment."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in name.encode())


def _unescape(text: str) -> str:
    first, *rest = text.split("%")
    return (first.encode() + b"".join(bytes.fromhex(part[:2]) + part[2:].encode() for part in rest)).decode()
