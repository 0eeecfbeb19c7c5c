"""`KafkaMetadata`: what the records of a Kafka cluster's metadata say, as far as kwire adopts it.

Records are replayed in the order of the log, as Kafka's controller and brokers do. What lives elsewhere: reading the
records (`metadata_log`), what of this kwire takes (`kwire.server.adoption`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from kwire.cluster.kraft.records import UnknownRecord
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
from kwire.quotas.entities import QuotaEntity

TOPIC: Final = 2
"""Kafka's `ConfigResource.Type` code of topics."""


class MetadataLogError(Exception):
    """A metadata log or snapshot that cannot be read; the message is one line for the operator."""


class KafkaMetadata:
    """The metadata of a Kafka cluster as of ``end_offset``, the offset after the last record that was read.

    ``configs``: properties by resource type and name. ``users``: SCRAM credentials by mechanism and name. ``unknown``:
    records whose meaning is not known, with how often they occur. ``notes``: one line each about what was left out.
    """

    def __init__(self) -> None:
        self.end_offset = 0
        self.features: dict[str, int] = {}
        self.topics: dict[bytes, str] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        self.users: dict[tuple[int, str], UserScramCredentialRecord] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.brokers: dict[int, RegisterBrokerRecord] = {}
        self.next_producer_id = 0
        self.unknown: Counter[UnknownRecord] = Counter()
        self.notes: list[str] = []
        self._transaction: list[Message | UnknownRecord] | None = None

    def replay(self, record: Message | UnknownRecord) -> None:
        """Apply the next record; those of a transaction (KIP-868) when it ends. `MetadataLogError`."""
        if isinstance(record, BeginTransactionRecord):
            if self._transaction is not None:
                raise MetadataLogError("a metadata transaction begins inside another one")
            self._transaction = []
        elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            self._end_transaction(commit=isinstance(record, EndTransactionRecord))
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._apply(record)

    def finish(self) -> None:
        """There are no more records."""
        if self._transaction is not None:
            self.notes.append(f"{len(self._transaction)} records of a metadata transaction that has not ended")
            self._transaction = None

    def _end_transaction(self, *, commit: bool) -> None:
        if self._transaction is None:
            raise MetadataLogError("a metadata transaction ends that has not begun")
        records, self._transaction = self._transaction, None
        if commit:
            for each in records:
                self._apply(each)

    def _apply(self, record: Message | UnknownRecord) -> None:
        if isinstance(record, UnknownRecord):
            self.unknown[record] += 1
        else:
            _EFFECTS[type(record)](self, record)


def _feature(metadata: KafkaMetadata, record: FeatureLevelRecord) -> None:
    metadata.features[record.name] = record.feature_level


def _topic(metadata: KafkaMetadata, record: TopicRecord) -> None:
    metadata.topics[record.topic_id] = record.name


def _topic_removed(metadata: KafkaMetadata, record: RemoveTopicRecord) -> None:
    name = metadata.topics.pop(record.topic_id, None)
    if name is not None:
        metadata.configs.pop((TOPIC, name), None)


def _config(metadata: KafkaMetadata, record: ConfigRecord) -> None:
    key = (record.resource_type, record.resource_name)
    values = metadata.configs.setdefault(key, {})
    if record.value is None:
        values.pop(record.name, None)
    else:
        values[record.name] = record.value
    if not values:
        del metadata.configs[key]


def _acl(metadata: KafkaMetadata, record: AccessControlEntryRecord) -> None:
    metadata.acls[record.id] = record


def _acl_removed(metadata: KafkaMetadata, record: RemoveAccessControlEntryRecord) -> None:
    metadata.acls.pop(record.id, None)


def _user(metadata: KafkaMetadata, record: UserScramCredentialRecord) -> None:
    metadata.users[record.mechanism, record.name] = record


def _user_removed(metadata: KafkaMetadata, record: RemoveUserScramCredentialRecord) -> None:
    metadata.users.pop((record.mechanism, record.name), None)


def _token(metadata: KafkaMetadata, record: DelegationTokenRecord) -> None:
    metadata.tokens[record.token_id] = record


def _token_removed(metadata: KafkaMetadata, record: RemoveDelegationTokenRecord) -> None:
    metadata.tokens.pop(record.token_id, None)


def _quota(metadata: KafkaMetadata, record: ClientQuotaRecord) -> None:
    entity = QuotaEntity.of({each.entity_type: each.entity_name for each in record.entity})
    limits = metadata.quotas.setdefault(entity, {})
    if record.remove:
        limits.pop(record.key, None)
    else:
        limits[record.key] = record.value
    if not limits:
        del metadata.quotas[entity]


def _broker(metadata: KafkaMetadata, record: RegisterBrokerRecord) -> None:
    metadata.brokers[record.broker_id] = record


def _broker_removed(metadata: KafkaMetadata, record: UnregisterBrokerRecord) -> None:
    metadata.brokers.pop(record.broker_id, None)


def _producer_ids(metadata: KafkaMetadata, record: ProducerIdsRecord) -> None:
    metadata.next_producer_id = record.next_producer_id


_EFFECTS: Final[dict[type[Message], Callable[[KafkaMetadata, Any], None]]] = {
    AccessControlEntryRecord: _acl,
    ClientQuotaRecord: _quota,
    ConfigRecord: _config,
    DelegationTokenRecord: _token,
    FeatureLevelRecord: _feature,
    ProducerIdsRecord: _producer_ids,
    RegisterBrokerRecord: _broker,
    RemoveAccessControlEntryRecord: _acl_removed,
    RemoveDelegationTokenRecord: _token_removed,
    RemoveTopicRecord: _topic_removed,
    RemoveUserScramCredentialRecord: _user_removed,
    TopicRecord: _topic,
    UnregisterBrokerRecord: _broker_removed,
    UserScramCredentialRecord: _user,
}
