"""Metadata logs and snapshots as Apache Kafka writes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from struct import pack

from kwire.cluster.kraft.metadata_log import METADATA_DIRECTORY
from kwire.cluster.kraft.records import encode_metadata_record
from kwire.codec.message import Message
from kwire.codec.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codec.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.codec.messages.config_record import ConfigRecord
from kwire.codec.messages.delegation_token_record import DelegationTokenRecord
from kwire.codec.messages.feature_level_record import FeatureLevelRecord
from kwire.codec.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kwire.codec.messages.topic_record import TopicRecord
from kwire.codec.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.codec.records import Record, build_batch

LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 2, 3, 4
TOPIC_ID = bytes(range(16))


def values_batch(base_offset: int, values: Iterable[bytes]) -> bytes:
    """A batch of values of metadata records."""
    records = [Record(offset=-1, timestamp=1, key=None, value=value) for value in values]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=1)


def batch(base_offset: int, *messages: Message) -> bytes:
    """A batch of metadata records."""
    return values_batch(base_offset, map(encode_metadata_record, messages))


def control(base_offset: int, kind: int) -> bytes:
    """A control batch of KRaft."""
    record = Record(offset=-1, timestamp=1, key=pack(">hh", 0, kind), value=b"\0\0")
    return build_batch([record], base_offset=base_offset, partition_leader_epoch=1, is_control=True)


def snapshot(*messages: Message) -> bytes:
    """A whole snapshot."""
    count = len(messages)
    body = batch(1, *messages) if messages else b""
    return control(0, SNAPSHOT_HEADER) + body + control(1 + count, SNAPSHOT_FOOTER)


def write(log_dir: Path, **files: bytes) -> Path:
    """Write segments (``log_5``) and snapshots (``snapshot_5``) of the metadata; the log directory."""
    directory = log_dir / METADATA_DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        kind, _, offset = name.partition("_")
        file = f"{int(offset):020d}.log" if kind == "log" else f"{int(offset):020d}-0000000001.checkpoint"
        (directory / file).write_bytes(data)
    return log_dir


def config(kind: int, resource: str, name: str, value: str | None) -> ConfigRecord:
    """A property of a resource; None removes it."""
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def acl(number: int = 1, **fields: object) -> AccessControlEntryRecord:
    """An entry; by default alice may read the topic orders."""
    given: dict[str, object] = {
        "id": bytes([number] * 16),
        "resource_type": 2,
        "resource_name": "orders",
        "pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AccessControlEntryRecord(**(given | fields))  # type: ignore[arg-type]


def quota(names: dict[str, str | None], key: str, value: float, *, remove: bool = False) -> ClientQuotaRecord:
    """A limit of an entity."""
    entity = [EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()]
    return ClientQuotaRecord(entity=entity, key=key, value=value, remove=remove)


def user(name: str = "alice", mechanism: int = 1) -> UserScramCredentialRecord:
    """A credential."""
    return UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=b"salt", stored_key=b"s" * 32, server_key=b"k" * 32, iterations=4096
    )


def token(token_id: str = "dG9rZW4") -> DelegationTokenRecord:
    """A token of alice."""
    return DelegationTokenRecord(
        owner="User:alice",
        requester="User:alice",
        renewers=["User:bob"],
        issue_timestamp=1,
        max_timestamp=3,
        expiration_timestamp=2,
        token_id=token_id,
    )


def broker(broker_id: int, *protocols: int) -> RegisterBrokerRecord:
    """A registration with an endpoint of each security protocol."""
    endpoints = [
        BrokerEndpoint(name=f"L{number}", host="h", port=1 + number, security_protocol=protocol)
        for number, protocol in enumerate(protocols)
    ]
    return RegisterBrokerRecord(broker_id=broker_id, end_points=endpoints)


def some_of_everything() -> list[Message]:
    """Records of each kind that is adopted."""
    return [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        broker(1, 0),
        TopicRecord(name="orders", topic_id=TOPIC_ID),
        config(2, "orders", "retention.ms", "1000"),
        config(4, "1", "listener.name.x.ssl.keystore.password", "top secret"),
        acl(),
        quota({"user": "alice"}, "producer_byte_rate", 1000.0),
        user(),
        token(),
    ]
