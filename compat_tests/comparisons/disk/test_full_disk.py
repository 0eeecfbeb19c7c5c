"""A full file system: producers get errors, fetches continue, and produce works again once there is space."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.comparisons.disk.volumes import STORAGE_ERROR, Account, Volume
from harness.processes.brokers import Broker, wait_until
from kwire.codec.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import RecordBatchBuilder

MakeVolume = Callable[..., Volume]
BrokerOn = Callable[..., Broker]
AccountWith = Callable[[Broker], Account]
NOT_COORDINATOR = 16
CONCURRENT_TRANSACTIONS = 51
LOAD_IN_PROGRESS = 14  # while there is no block of producer ids


def write_until_full(account: Account, volume: Volume) -> None:
    """Fill the disk while writing: appends succeed until their space is used up, then all are refused."""
    for partition in (0, 1):
        for _ in range(10):
            assert account.write(partition) == 0
    volume.fill(leave_bytes=200_000)
    codes = [account.write(partition, size=20_000) for _ in range(30) for partition in (0, 1)]
    assert {0, STORAGE_ERROR} == set(codes)
    volume.fill()
    assert {account.write(partition, size=20_000) for partition in (0, 1)} == {STORAGE_ERROR}


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_writers_are_told_and_room_is_enough_to_go_on(
    kind: str, volume: MakeVolume, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    disk = volume(kind)
    broker = broker_on(disk.path)
    account = account_with(broker)
    assert account.create(2) == 0
    write_until_full(account, disk)
    for partition in (0, 1):
        account.check(partition)
    assert account.leaders() == [(0, 1, []), (0, 1, [])]
    disk.free()
    for partition in (0, 1):
        assert account.write(partition, size=20_000) == 0
        account.check(partition)
    broker.restart()
    account.reconnect()
    for partition in (0, 1):
        account.check(partition)
        assert account.write(partition) == 0
    assert broker.log_text().count("accepts no writes at present") < 10


@pytest.mark.parametrize(("kind", "end"), [("ext4", "kill"), ("ext4", "stop"), ("tmpfs", "kill")])
def test_nothing_acknowledged_is_lost_when_the_broker_ends_on_a_full_disk_and_starts_there(
    kind: str, end: str, volume: MakeVolume, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    disk = volume(kind)
    broker = broker_on(disk.path, **{"log.segment.bytes": "1048576"})
    account = account_with(broker)
    assert account.create(2) == 0
    write_until_full(account, disk)
    getattr(broker, end)()
    disk.fill()
    broker.start()
    account.reconnect()
    for partition in (0, 1):
        account.check(partition)
    disk.fill()  # the start has restored the metadata store's reserve
    assert account.write(0, size=200_000) == STORAGE_ERROR
    broker.kill()
    disk.free()
    broker.start()
    account.reconnect()
    for partition in (0, 1):
        account.check(partition)
        assert account.write(partition) == 0
        account.check(partition)


def test_a_log_that_cannot_be_made_is_made_when_there_is_room(
    volume: MakeVolume, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    disk = volume("tmpfs")
    broker = broker_on(disk.path)
    account = account_with(broker)
    assert account.create() == 0
    account.write()
    disk.fill(leave_bytes=100_000)
    codes = {f"u{number}": account.create(name=f"u{number}") for number in range(100)}
    assert set(codes.values()) == {0, STORAGE_ERROR}
    made = [name for name, code in codes.items() if code == 0]
    assert {account.write(topic=name, size=200_000) for name in made} == {STORAGE_ERROR}
    disk.free()
    for name in made:
        wait_until(lambda: account.write(topic=name) == 0, 10, name)  # noqa: B023 - called at once
    assert account.create(name="v") == 0
    assert account.write(topic="v") == 0


def test_the_metadata_store_may_be_full_while_other_directories_are_not(
    tmp_path: Path, volume: MakeVolume, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    disk = volume("tmpfs")
    broker = broker_on(disk.path, tmp_path / "roomy")
    account = account_with(broker)
    assert account.create(2) == 0
    in_store, beside = (1, 0) if (tmp_path / "roomy" / "data" / "t-0").exists() else (0, 1)
    codes: dict[str, int] = {}
    while STORAGE_ERROR not in codes.values():  # the metadata store uses its reserve first
        disk.fill()
        codes[f"u{len(codes)}"] = account.create(name=f"u{len(codes)}")
    assert set(codes.values()) <= {0, STORAGE_ERROR}
    assert len(codes) < 200
    assert account.write(in_store) == STORAGE_ERROR
    assert account.write(beside) == 0
    disk.free()
    assert account.create(name="v") == 0
    assert account.write(in_store) == 0
    account.check(0)
    account.check(1)
    assert broker.stop() == 0


def test_a_new_log_goes_where_there_is_room(
    tmp_path: Path, volume: MakeVolume, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    disk = volume("tmpfs")
    broker = broker_on(tmp_path / "roomy", disk.path)
    account = account_with(broker)
    disk.fill()
    assert account.create(4) == 0
    assert [account.write(partition) for partition in range(4)] == [0] * 4
    assert len(list((tmp_path / "roomy" / "data").glob("t-?"))) == 4


def test_deleting_a_topic_makes_room(volume: MakeVolume, broker_on: BrokerOn, account_with: AccountWith) -> None:
    disk = volume("tmpfs")
    broker = broker_on(disk.path)
    account = account_with(broker)
    assert account.create() == 0
    assert account.create(name="big", file_delete_delay_ms="0") == 0
    assert [account.write(topic="big", size=500_000) for _ in range(4)] == [0] * 4
    disk.fill()
    assert account.write(size=100_000) == STORAGE_ERROR
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="big")], timeout_ms=10_000)
    assert account.wire.call(request, 6).responses[0].error_code == 0
    wait_until(lambda: account.write(size=100_000) == 0, 10, "room")
    account.check()


def commit(account: Account, group: str, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=account.topic, partitions=[partition])]
    response = account.wire.call(OffsetCommitRequest(group_id=group, topics=topics), 7)
    code: int = response.topics[0].partitions[0].error_code
    return code


def committed(account: Account, group: str) -> int:
    groups = [OffsetFetchRequestGroup(group_id=group, topics=None)]
    response = account.wire.call(OffsetFetchRequest(groups=groups), 8).groups[0]
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset


def test_coordinators_refuse_and_go_on(
    tmp_path: Path, volume: MakeVolume, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    disk = volume("tmpfs")
    broker = broker_on(disk.path)
    account = account_with(broker)
    assert account.create() == 0
    for key_type in (0, 1):
        account.wire.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
    wait_until(lambda: commit(account, "g", 7) == 0, 10, "the first commit")
    disk.fill()
    refused = [commit(account, "g", 1000 + number) for number in range(200)]
    assert NOT_COORDINATOR in refused
    last = 1000 + max((number for number, code in enumerate(refused) if code == 0), default=-993)
    assert committed(account, "g") == last
    requested = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=10_000)
    codes = [0]
    while codes[-1] == 0:  # the metadata store uses its reserve first
        disk.fill()
        codes.append(account.wire.call(requested, 2).error_code)
    assert codes[-1] in (NOT_COORDINATOR, LOAD_IN_PROGRESS)
    assert len(codes) < 200
    disk.free()
    assert commit(account, "g", 2000) == 0
    wait_until(lambda: account.wire.call(requested, 2).error_code == 0, 10, "a producer id")
    broker.kill()
    broker.start()
    account.reconnect()
    assert committed(account, "g") == 2000


class Transaction:
    """A transaction on partition 0 of the account's topic, request by request."""

    def __init__(self, account: Account) -> None:
        self._account = account
        requested = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        wait_until(lambda: account.wire.call(requested, 4).error_code == 0, 10, "a producer id")
        found = account.wire.call(requested, 4)
        self._producer = {"producer_id": found.producer_id, "producer_epoch": found.producer_epoch}

    def begin(self) -> None:
        topics = [AddPartitionsToTxnTopic(name=self._account.topic, partitions=[0])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=self._producer["producer_id"],
            v3_and_below_producer_epoch=self._producer["producer_epoch"],
            v3_and_below_topics=topics,
        )
        response = self._account.wire.call(request, 3)
        assert response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0

    def write(self) -> int:
        builder = RecordBatchBuilder(**self._producer, base_sequence=0, is_transactional=True)
        builder.append(1_790_000_000_000, b"k", b"in a transaction")
        data = PartitionProduceData(index=0, records=memoryview(bytearray(builder.build())))
        topics = [TopicProduceData(name=self._account.topic, partition_data=[data])]
        request = ProduceRequest(acks=-1, timeout_ms=5000, transactional_id="x", topic_data=topics)
        code: int = self._account.wire.call(request, 9).responses[0].partition_responses[0].error_code
        return code

    def commit(self) -> int:
        request = EndTxnRequest(transactional_id="x", **self._producer, committed=True)
        code: int = self._account.wire.call(request, 3).error_code
        return code


def test_a_transaction_ends_when_there_is_room(
    volume: MakeVolume, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    disk = volume("tmpfs")
    broker = broker_on(disk.path)
    account = account_with(broker)
    assert account.create() == 0
    account.wire.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
    transaction = Transaction(account)
    transaction.begin()
    assert transaction.write() == 0
    for _ in range(500):  # the free part of the logs' last pages
        disk.fill()
        if account.write(size=100) == STORAGE_ERROR:
            break
    first = transaction.commit()
    assert first in (0, NOT_COORDINATOR, LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS)
    disk.free()
    wait_until(lambda: transaction.commit() == 0, 10, "the commit")
    wait_until(lambda: last_stable(account) == len(account.read()), 10, "the marker")  # type: ignore[arg-type]
    broker.kill()
    broker.start()
    account.reconnect()
    assert b"in a transaction" in account.read().values()  # type: ignore[union-attr]


def last_stable(account: Account) -> int:
    """The last stable offset as consumers see it, without the marker's own offset."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name=account.topic, partitions=[partition])]
    response = account.wire.call(ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=topics), 5)
    offset: int = response.topics[0].partitions[0].offset
    return offset
