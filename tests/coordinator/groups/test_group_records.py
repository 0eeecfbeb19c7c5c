"""Records of ``__consumer_offsets``: the bytes are from a log that Apache Kafka 4.3 wrote."""

from __future__ import annotations

import pytest

from kwire.base.uuids import uuid_from_text
from kwire.codec.errors import CodecError
from kwire.codec.messages.group_metadata_key import GroupMetadataKey
from kwire.codec.messages.group_metadata_value import GroupMetadataValue
from kwire.codec.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kwire.codec.messages.offset_commit_key import OffsetCommitKey
from kwire.codec.messages.offset_commit_value import OffsetCommitValue
from kwire.coordinator.groups import records as group_records
from kwire.coordinator.groups.classic import records as classic_records
from kwire.coordinator.groups.classic.group import ClassicGroup, subscription_topics
from kwire.coordinator.groups.group import GroupCounters
from kwire.coordinator.groups.records import CommittedOffset
from kwire.coordinator.groups.shard import GroupShard
from tests.coordinator.bench import NO_TOPICS, Settings

GROUP_KEY = bytes.fromhex("000200026831")
EMPTY_GROUP = bytes.fromhex("0003000000000000ffffffff000001a1fd9bdaa700000000")
STABLE_GROUP = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e67650029776972652d63613832646561392d653836352d343239652d38623462"
    "2d363161363634663465323264000001a1fd9bdab0000000010029776972652d63613832646561392d653836352d343239652d3862"
    "34622d363161363634663465323264ffff000477697265000a2f3132372e302e302e3100001388000027100000000e000000000001"
    "00027474000000000000000378797a"
)
EMPTY_AGAIN = bytes.fromhex("00030008636f6e73756d657200000002ffffffff000001a1fd9bdafd00000000")
OFFSET_KEY = bytes.fromhex("0001000268310002747400000000")
OFFSET = bytes.fromhex("000400000000000000050000000001000001a1fd9bdabb010010638412a3b20e4165a54d8d625a808f4d")
OFFSET_WITH_EXPIRY = bytes.fromhex("000100000000000000050000000001a1fd9bdabe000001a1fdab1cfe")

TOPIC_ID = uuid_from_text("Y4QSo7IOQWWlTY1iWoCPTQ")
MEMBER_ID = "wire-ca82dea9-e865-429e-8b4b-61a664f4e22d"


def loaded(*records: tuple[bytes, bytes | None]) -> GroupShard:
    shard = GroupShard(Settings(), lambda: "id", GroupCounters(), NO_TOPICS)
    for offset, (key, value) in enumerate(records):
        shard.apply(key, value, offset, wall_ms=0)
    return shard


def test_offsets_are_written_as_kafka_writes_them() -> None:
    committed = CommittedOffset(5, 0, "", 1795256212155, topic_id=TOPIC_ID)
    assert group_records.offset_commit("h1", "tt", 0, committed) == (OFFSET_KEY, OFFSET)


def test_offsets_with_a_retention_time_are_written_as_kafka_writes_them() -> None:
    committed = CommittedOffset(5, -1, "", 1795256212158, 1795257212158, TOPIC_ID)
    assert group_records.offset_commit("h1", "tt", 0, committed) == (OFFSET_KEY, OFFSET_WITH_EXPIRY)


def test_groups_are_written_as_kafka_writes_them() -> None:
    shard = loaded((GROUP_KEY, STABLE_GROUP))
    group = shard.groups.find("h1")
    assert isinstance(group, ClassicGroup)
    assert group.state_name == "Stable" and group.generation == 1 and group.leader == MEMBER_ID
    assert group.subscribed_topics == frozenset({"tt"})
    member = group.members[MEMBER_ID]
    assert (member.client_id, member.client_host, member.assignment) == ("wire", "/127.0.0.1", b"xyz")
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 5_000)
    assert classic_records.assigned_group(group, {MEMBER_ID: b"xyz"}) == (GROUP_KEY, STABLE_GROUP)


def test_empty_groups_are_written_as_kafka_writes_them() -> None:
    fresh = ClassicGroup("h1", 0)
    assert classic_records.empty_group(fresh, 0, 1795256212135) == (GROUP_KEY, EMPTY_GROUP)
    fresh.protocol_type = "consumer"
    assert classic_records.empty_group(fresh, 2, 1795256212221) == (GROUP_KEY, EMPTY_AGAIN)


def test_tombstones_have_the_keys_of_the_records_they_delete() -> None:
    assert group_records.group_tombstone("h1") == (GROUP_KEY, None)
    assert group_records.offset_tombstone("h1", "tt", 0) == (OFFSET_KEY, None)


def test_keys_are_parsed() -> None:
    assert group_records.parse_key(GROUP_KEY) == GroupMetadataKey(group="h1")
    assert group_records.parse_key(OFFSET_KEY) == OffsetCommitKey(group="h1", topic="tt", partition=0)
    legacy = group_records.parse_key(b"\0\0" + OFFSET_KEY[2:])
    assert isinstance(legacy, LegacyOffsetCommitKey)
    assert (legacy.group, legacy.topic, legacy.partition) == ("h1", "tt", 0)


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_every_version_are_read(version: int) -> None:
    from kwire.codec.protocol import encode

    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=3)
    shard = loaded((OFFSET_KEY, version.to_bytes(2, "big") + encode(value, version)))
    committed = shard.offsets.find("h1", "tt", 0)
    assert committed is not None
    assert (committed.offset, committed.metadata, committed.commit_ms, committed.expire_ms) == (7, "m", 3, -1)


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_read(version: int) -> None:
    from kwire.codec.messages.group_metadata_value import MemberMetadata
    from kwire.codec.protocol import encode

    member = MemberMetadata(member_id="m", client_id="c", client_host="/h", session_timeout=9, subscription=b"s")
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="p", leader="m", members=[member])
    group = loaded((GROUP_KEY, version.to_bytes(2, "big") + encode(value, version))).groups.find("h1")
    assert isinstance(group, ClassicGroup)
    assert group.members["m"].rebalance_timeout_ms == 9, "the session timeout, if the record has no rebalance timeout"
    assert group.members["m"].protocols == {"p": b"s"}


def test_records_of_unknown_group_types_are_ignored() -> None:
    shard = loaded((b"\x00\x63\x00\x02h1", b"whatever"), (b"\x7f\xff", None))
    assert len(shard.groups) == 0


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\2", b"\0\1\0\5ab", b"\0\2\xff\xff"])
def test_invalid_keys_are_refused(key: bytes) -> None:
    with pytest.raises(CodecError):
        loaded((key, None))


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\x05", b"\xff\xff", STABLE_GROUP[:40]])
def test_invalid_values_are_refused(value: bytes) -> None:
    with pytest.raises(CodecError):
        loaded((GROUP_KEY, value))


def test_subscriptions_of_any_version_are_read() -> None:
    one_topic = b"\x00\x00\x00\x01\x00\x02tt"
    assert subscription_topics(b"\0\0" + one_topic + b"\xff\xff\xff\xff") == ["tt"]
    assert subscription_topics(b"\0\1" + one_topic + b"\xff\xff\xff\xff" + b"\0\0\0\0") == ["tt"]
    later = b"\0\x09" + one_topic + b"\xff\xff\xff\xff" + b"\0\0\0\0" + b"\0\0\0\1" + b"\xff\xff" + b"future"
    assert subscription_topics(later) == ["tt"]


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\5"])
def test_invalid_subscriptions_are_refused(metadata: bytes) -> None:
    with pytest.raises(CodecError):
        subscription_topics(metadata)
