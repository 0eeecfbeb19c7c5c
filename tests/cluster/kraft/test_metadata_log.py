"""KRaft's metadata is read from snapshots and logs, and damage is named in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.adoption.kraft_files import (
    LEADER_CHANGE,
    TOPIC_ID,
    acl,
    batch,
    broker,
    config,
    control,
    quota,
    snapshot,
    some_of_everything,
    token,
    user,
    values_batch,
    write,
)
from kwire.base.doors import Files
from kwire.cluster.kraft.metadata import KafkaMetadata, MetadataLogError
from kwire.cluster.kraft.metadata_log import METADATA_DIRECTORY, has_metadata, read_metadata
from kwire.cluster.kraft.records import UnknownRecord, encode_metadata_record
from kwire.codec.message import Message
from kwire.codec.messages.abort_transaction_record import AbortTransactionRecord
from kwire.codec.messages.begin_transaction_record import BeginTransactionRecord
from kwire.codec.messages.end_transaction_record import EndTransactionRecord
from kwire.codec.messages.no_op_record import NoOpRecord
from kwire.codec.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.codec.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kwire.codec.messages.remove_topic_record import RemoveTopicRecord
from kwire.codec.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kwire.codec.messages.topic_record import TopicRecord
from kwire.codec.messages.unregister_broker_record import UnregisterBrokerRecord
from kwire.quotas.entities import QuotaEntity

ALICE = QuotaEntity.of({"user": "alice"})


def read(log_dir: Path) -> KafkaMetadata:
    return read_metadata(Files(), str(log_dir))


def replayed(tmp_path: Path, *messages: Message) -> KafkaMetadata:
    return read(write(tmp_path, log_0=batch(0, *messages)))


def test_the_log_says_what_there_is(tmp_path: Path) -> None:
    records = some_of_everything()
    found = read(write(tmp_path, log_0=control(0, LEADER_CHANGE) + batch(1, *records)))
    assert found.end_offset == 1 + len(records)
    assert found.features == {"metadata.version": 30}
    assert found.topics == {TOPIC_ID: "orders"}
    assert found.configs[2, "orders"] == {"retention.ms": "1000"}
    assert [each.principal for each in found.acls.values()] == ["User:alice"]
    assert list(found.users) == [(1, "alice")]
    assert list(found.tokens) == ["dG9rZW4"]
    assert found.quotas == {ALICE: {"producer_byte_rate": 1000.0}}
    assert list(found.brokers) == [1]
    assert not found.notes
    assert not found.unknown


def test_what_was_removed_is_gone(tmp_path: Path) -> None:
    found = replayed(
        tmp_path,
        *some_of_everything(),
        config(4, "1", "listener.name.x.ssl.keystore.password", None),
        RemoveTopicRecord(topic_id=TOPIC_ID),
        RemoveAccessControlEntryRecord(id=acl().id),
        RemoveUserScramCredentialRecord(name="alice", mechanism=1),
        RemoveDelegationTokenRecord(token_id=token().token_id),
        UnregisterBrokerRecord(broker_id=1),
        quota({"user": "alice"}, "producer_byte_rate", 0.0, remove=True),
    )
    assert (found.configs, found.topics, found.acls, found.users) == ({}, {}, {}, {})
    assert (found.tokens, found.brokers, found.quotas) == ({}, {}, {})


def test_a_topic_that_was_created_again_has_only_its_new_configuration(tmp_path: Path) -> None:
    found = replayed(
        tmp_path,
        TopicRecord(name="orders", topic_id=TOPIC_ID),
        config(2, "orders", "retention.ms", "1000"),
        RemoveTopicRecord(topic_id=TOPIC_ID),
        TopicRecord(name="orders", topic_id=b"2" * 16),
        config(2, "orders", "segment.bytes", "2000"),
    )
    assert found.configs == {(2, "orders"): {"segment.bytes": "2000"}}


def test_the_newest_snapshot_replaces_the_log_before_it(tmp_path: Path) -> None:
    log = batch(0, acl(1), acl(2)) + batch(2, user("bob"))
    found = read(write(tmp_path, snapshot_1=snapshot(acl(9)), snapshot_2=snapshot(acl(3)), log_0=log))
    assert list(found.acls) == [bytes([3] * 16)]
    assert list(found.users) == [(1, "bob")]
    assert found.end_offset == 3


def test_the_log_may_begin_at_the_snapshot(tmp_path: Path) -> None:
    found = read(write(tmp_path, snapshot_7=snapshot(acl()), log_7=batch(7, user()), log_8=batch(8, user("bob"))))
    assert found.end_offset == 9
    assert sorted(name for _, name in found.users) == ["alice", "bob"]


def test_a_snapshot_is_enough(tmp_path: Path) -> None:
    assert read(write(tmp_path, snapshot_7=snapshot(acl()))).end_offset == 7


def test_a_directory_that_was_only_formatted_has_its_first_users(tmp_path: Path) -> None:
    assert not has_metadata(Files(), str(tmp_path))
    (tmp_path / "bootstrap.checkpoint").write_bytes(snapshot(user()))
    assert has_metadata(Files(), str(tmp_path))
    assert list(read(tmp_path).users) == [(1, "alice")]


def test_the_first_records_count_only_until_they_are_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "bootstrap.checkpoint").write_bytes(snapshot(user("carol")))
    assert list(replayed(tmp_path, user()).users) == [(1, "alice")]


def test_an_aborted_or_unfinished_transaction_changes_nothing(tmp_path: Path) -> None:
    begin, end, abort = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()
    found = replayed(
        tmp_path, begin, user("a"), end, begin, user("b"), abort, begin, user("c"), NoOpRecord(), user("d")
    )
    assert list(found.users) == [(1, "a")]
    assert found.notes == ["2 records of a metadata transaction that has not ended"]


@pytest.mark.parametrize(
    "messages",
    [
        [EndTransactionRecord()],
        [BeginTransactionRecord(), BeginTransactionRecord()],
    ],
)
def test_transactions_that_do_not_fit_together_are_refused(tmp_path: Path, messages: list[Message]) -> None:
    with pytest.raises(MetadataLogError, match="a metadata transaction"):
        replayed(tmp_path, *messages)


def test_records_without_a_known_meaning_are_counted(tmp_path: Path) -> None:
    newer = b"\x01\x12\x07whatever it means"
    future = b"\x01\x64\x00whatever it means"
    fields = encode_metadata_record(acl())[:-1] + b"\x01\x05\x01x"
    unused = b"\x01\x05\x63whatever it means"
    found = read(write(tmp_path, log_0=values_batch(0, [newer, future, fields, future, unused])))
    assert found.unknown == {UnknownRecord(18, 7): 1, UnknownRecord(100, 0): 2, UnknownRecord(18, 0, True): 1}
    assert sorted(map(str, found.unknown)) == [
        "AccessControlEntryRecord version 7",
        "AccessControlEntryRecord with new fields",
        "type 100",
    ]
    assert not found.acls


@pytest.mark.parametrize("kept", [1, 30, 61, 90])
def test_a_batch_that_was_not_completely_written_is_left_out(tmp_path: Path, kept: int) -> None:
    found = read(write(tmp_path, log_0=batch(0, acl()) + batch(1, user())[:kept]))
    assert found.end_offset == 1
    assert len(found.acls) == 1
    assert found.users == {}
    (note,) = found.notes
    assert f"the last {kept} bytes" in note


def test_zeros_after_the_last_batch_are_left_out(tmp_path: Path) -> None:
    found = read(write(tmp_path, log_0=batch(0, acl()) + bytes(5000)))
    assert found.end_offset == 1
    assert len(found.notes) == 1


def torn_between() -> bytes:
    """The length of the second of three batches is too large, as if it were the last and incomplete."""
    middle = bytearray(batch(1, acl(2, permission_type=2)))
    middle[8:12] = (1 << 20).to_bytes(4, "big")
    return batch(0, acl()) + bytes(middle) + batch(2, user())


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


ENTRY = batch(0, acl())
REFUSED = {
    "a checksum": ({"log_0": flipped(ENTRY, len(ENTRY) - 3)}, "the checksum does not match"),
    "a batch between others": ({"log_0": torn_between()}, "does not end inside the file"),
    "a segment before the last": ({"log_0": ENTRY[:-1], "log_1": batch(1, user())}, "does not end inside the file"),
    "a missing segment": ({"log_0": ENTRY, "log_5": batch(5, user())}, "from offset 1 to 4 are missing"),
    "a log without its beginning": ({"log_5": batch(5, user())}, "from offset 0 to 4 are missing"),
    "a log without its end": ({"log_0": ENTRY, "snapshot_5": snapshot(user())}, "before the snapshot of offset 5"),
    "an offset": ({"log_0": ENTRY + batch(7, user())}, "a batch begins with offset 7, not 1"),
    "a snapshot without a footer": ({"snapshot_5": snapshot(user())[:-20]}, "the file ends inside a batch header"),
    "half a snapshot": ({"snapshot_5": control(0, 3) + batch(1, user())}, "is not a complete snapshot"),
    "an empty snapshot": ({"snapshot_5": b""}, "is not a complete snapshot"),
    "a snapshot without a header": ({"snapshot_5": batch(0, user())}, "a record is outside of the snapshot"),
    "no files": ({}, "has neither segments nor snapshots"),
    "an older frame": ({"log_0": values_batch(0, [b"\x00\x12\x00"])}, "frame of a metadata record has version 0"),
    "an empty record": ({"log_0": values_batch(0, [b""])}, "a metadata record ends early"),
    "bytes after a record": (
        {"log_0": values_batch(0, [encode_metadata_record(user()) + b"x"])},
        "1 bytes follow a UserScramCredentialRecord",
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_other_damage_is_named_in_one_line(tmp_path: Path, name: str) -> None:
    files, reason = REFUSED[name]
    with pytest.raises(MetadataLogError) as error:
        read(write(tmp_path, **files))
    assert reason in str(error.value)
    assert "\n" not in str(error.value)
    assert METADATA_DIRECTORY in str(error.value)


LOG = control(0, LEADER_CHANGE) + b"".join(
    batch(1 + number, record) for number, record in enumerate([*some_of_everything(), broker(2, 1, 3)])
)
SNAPSHOT = snapshot(*some_of_everything(), acl(2))


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Some bytes changed, removed or added."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        end = min(len(changed), at + draw(st.integers(0, 40)))
        changed[at:end] = draw(st.binary(max_size=40))
    return bytes(changed)


@settings(max_examples=300, deadline=None)
@given(log=damaged(LOG), taken=damaged(SNAPSHOT), with_snapshot=st.booleans())
def test_no_damage_is_worse_than_an_error_of_one_line(
    tmp_path_factory: pytest.TempPathFactory, log: bytes, taken: bytes, with_snapshot: bool
) -> None:
    files = {"snapshot_3": taken, "log_0": LOG} if with_snapshot else {"log_0": log}
    try:
        found = read(write(tmp_path_factory.mktemp("kraft"), **files))
    except MetadataLogError as error:
        assert "\n" not in str(error)
    else:
        assert len(found.acls) <= 3


@settings(max_examples=300, deadline=None)
@given(values=st.lists(st.binary(max_size=60) | damaged(encode_metadata_record(acl())), max_size=4))
def test_no_record_is_worse_than_an_error_of_one_line(
    tmp_path_factory: pytest.TempPathFactory, values: list[bytes]
) -> None:
    log = values_batch(0, [b"\x01\x14\x00", *values])
    try:
        read(write(tmp_path_factory.mktemp("kraft"), log_0=log))
    except MetadataLogError as error:
        assert "\n" not in str(error)
