"""The records of ``__consumer_offsets`` that hold committed offsets and classic groups: building and parsing.

They are written in the versions that Kafka 4.3 writes. A key is a 16-bit record type and the key's fields, a value a
16-bit version and the value's fields. `classic.records` builds the values of classic groups, `consumer.records` has the
records of consumer groups, and `groups.shard` applies them all.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from kwire.base.uuids import ZERO_UUID
from kwire.codec.errors import CodecError
from kwire.codec.messages.group_metadata_key import GroupMetadataKey
from kwire.codec.messages.group_metadata_value import GroupMetadataValue
from kwire.codec.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kwire.codec.messages.offset_commit_key import OffsetCommitKey
from kwire.codec.messages.offset_commit_value import OffsetCommitValue
from kwire.codec.protocol import decode, encode
from kwire.coordinator.runtime.machine import CoordinatorRecord

NO_TIMESTAMP: Final = -1
_GROUP_METADATA_VERSION = 3
_OFFSET_VERSION = 3
_OFFSET_VERSION_WITH_EXPIRY = 1
_OFFSET_VERSION_WITH_TOPIC_ID = 4
_PREFIX = struct.Struct(">h")
_KEYS: dict[int, type[Any]] = {
    kind.API_KEY: kind for kind in (LegacyOffsetCommitKey, OffsetCommitKey, GroupMetadataKey)
}


class CommittedOffset(NamedTuple):
    """One committed offset.

    ``expire_ms`` is -1 unless the client set a retention time itself (OffsetCommit v2 to v4). ``record_offset`` is the
    offset of its record in the log: of two commits, one of them in a transaction, the one written later counts.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = NO_TIMESTAMP
    expire_ms: int = NO_TIMESTAMP
    topic_id: bytes = ZERO_UUID
    record_offset: int = -1


def offset_commit(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> CoordinatorRecord:
    """The record of a committed offset."""
    if committed.expire_ms != NO_TIMESTAMP:
        version = _OFFSET_VERSION_WITH_EXPIRY
    elif committed.topic_id != ZERO_UUID:
        version = _OFFSET_VERSION_WITH_TOPIC_ID
    else:
        version = _OFFSET_VERSION
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_ms,
        expire_timestamp=committed.expire_ms,
        topic_id=committed.topic_id,
    )
    return CoordinatorRecord(_offset_key(group_id, topic, partition), _with_prefix(version, value))


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """The record that deletes a committed offset."""
    return CoordinatorRecord(_offset_key(group_id, topic, partition), None)


def group_metadata(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    """The record of a classic group's state, whose value `classic.records` builds."""
    return CoordinatorRecord(_group_key(group_id), _with_prefix(_GROUP_METADATA_VERSION, value))


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that deletes a classic group."""
    return CoordinatorRecord(_group_key(group_id), None)


def parse_key(key: bytes | memoryview) -> Any | None:
    """The message of a key, or None if the record is neither a committed offset nor a classic group.

    Raises CodecError for invalid bytes.
    """
    kind = _KEYS.get(_prefix(key, "key"))
    return None if kind is None else decode(kind, 0, key, _PREFIX.size)[0]


def record_type(key: bytes | memoryview) -> int:
    """The type of a record. Raises CodecError."""
    return _prefix(key, "key")


def parse_value(kind: type[Any], value: bytes | memoryview) -> Any:
    """A value of the class ``kind``, in the version in which it was written. Raises CodecError."""
    version = _prefix(value, "value")
    low, high = kind.VALID_VERSIONS
    if not low <= version <= high:
        raise CodecError(f"{kind.__name__}: version {version} is not one of {low} to {high}")
    return decode(kind, version, value, _PREFIX.size)[0]


def _prefix(data: bytes | memoryview, what: str) -> int:
    if len(data) < _PREFIX.size:
        raise CodecError(f"a coordinator record's {what} of {len(data)} bytes has no version")
    number: int = _PREFIX.unpack_from(data)[0]
    return number


def _with_prefix(number: int, message: Any) -> bytes:
    return _PREFIX.pack(number) + encode(message, number)


def _group_key(group_id: str) -> bytes:
    return _PREFIX.pack(GroupMetadataKey.API_KEY) + encode(GroupMetadataKey(group=group_id), 0)


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return _PREFIX.pack(OffsetCommitKey.API_KEY) + encode(key, 0)
