"""The records of KRaft's metadata log: from bytes to messages.

A record's value is a frame: the version of the frame, the type of the record and its version as unsigned varints, then
the message (`MetadataRecordSerde` in Kafka). What lives elsewhere: files (`metadata_log`), meaning (`metadata`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kwire.codec.errors import CodecError
from kwire.codec.message import Message
from kwire.codec.messages.abort_transaction_record import AbortTransactionRecord
from kwire.codec.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.codec.messages.begin_transaction_record import BeginTransactionRecord
from kwire.codec.messages.client_quota_record import ClientQuotaRecord
from kwire.codec.messages.config_record import ConfigRecord
from kwire.codec.messages.delegation_token_record import DelegationTokenRecord
from kwire.codec.messages.end_transaction_record import EndTransactionRecord
from kwire.codec.messages.feature_level_record import FeatureLevelRecord
from kwire.codec.messages.producer_ids_record import ProducerIdsRecord
from kwire.codec.messages.register_broker_record import RegisterBrokerRecord
from kwire.codec.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.codec.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.codec.messages.remove_topic_record import RemoveTopicRecord
from kwire.codec.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kwire.codec.messages.topic_record import TopicRecord
from kwire.codec.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.codec.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.codec.primitives import read_varint, varint
from kwire.codec.protocol import decode, encode

FRAME_VERSION: Final = 1

USED: Final[dict[int, type[Message]]] = {
    each.API_KEY: each
    for each in (
        AbortTransactionRecord,
        AccessControlEntryRecord,
        BeginTransactionRecord,
        ClientQuotaRecord,
        ConfigRecord,
        DelegationTokenRecord,
        EndTransactionRecord,
        FeatureLevelRecord,
        ProducerIdsRecord,
        RegisterBrokerRecord,
        RemoveAccessControlEntryRecord,
        RemoveDelegationTokenRecord,
        RemoveTopicRecord,
        RemoveUserScramCredentialRecord,
        TopicRecord,
        UnregisterBrokerRecord,
        UserScramCredentialRecord,
    )
}
"""The types of records that say what is adopted."""

UNUSED: Final = {
    3: "PartitionRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    17: "BrokerRegistrationChangeRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
}
"""The other types of Apache Kafka 4.3.1: they are about replicas, brokers and controllers, which kwire has of its own.
A newer version of them does not matter."""


class UnknownRecord(NamedTuple):
    """A record whose meaning is not known: its type, or the version of its type, is newer than Apache Kafka 4.3.1."""

    type: int
    version: int
    new_fields: bool = False

    def __str__(self) -> str:
        known = USED.get(self.type)
        if known is None:
            return f"type {self.type}"
        return f"{known.__name__} with new fields" if self.new_fields else f"{known.__name__} version {self.version}"


def decode_metadata_record(value: bytes | None) -> Message | UnknownRecord | None:
    """The message in the value of a record; None for a type that says nothing about what is adopted. CodecError."""
    if value is None:
        raise CodecError("a metadata record has no value")
    try:
        frame_version, position = read_varint(value, 0)
        if frame_version != FRAME_VERSION:
            raise CodecError(f"the frame of a metadata record has version {frame_version}, not {FRAME_VERSION}")
        record_type, position = read_varint(value, position)
        version, position = read_varint(value, position)
    except IndexError:
        raise CodecError("a metadata record ends early") from None
    if record_type in UNUSED:
        return None
    cls = USED.get(record_type)
    if cls is None or version > cls.VALID_VERSIONS[1]:
        return UnknownRecord(record_type, version)
    message, end = decode(cls, version, value, position)
    if end != len(value):
        raise CodecError(f"{len(value) - end} bytes follow a {cls.__name__}")
    if message.unknown_tags and cls is AccessControlEntryRecord:  # they may say when the entry applies
        return UnknownRecord(record_type, version, new_fields=True)
    return message


def encode_metadata_record(message: Message, version: int = 0) -> bytes:
    """The inverse of `decode_metadata_record`."""
    return varint(FRAME_VERSION) + varint(message.API_KEY) + varint(version) + encode(message, version)
