"""A file system that fills up under a broker: writers are told, reads go on, and room is all it takes to go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.brokers import Broker, wait_until
from compat_tests.disk.volumes import STORAGE_ERROR, Account, Volume
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup

MakeVolume = Callable[..., Volume]
BrokerOn = Callable[..., Broker]
AccountWith = Callable[[Broker], Account]
NOT_COORDINATOR = 16
LOAD_IN_PROGRESS = 14  # as long as there is no block of producer ids


def write_until_full(account: Account, volume: Volume) -> None:
    """Fill the disk while writing: some appends that take their room, then refusals only."""
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
    assert broker.log_text().count("takes no writes at present") < 10


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
    disk.fill()  # the start has given back what the metadata store keeps for such a day
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
    while STORAGE_ERROR not in codes.values():  # at first there is the store's reserve
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
    answer = account.wire.call(OffsetCommitRequest(group_id=group, topics=topics), 7)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def committed(account: Account, group: str) -> int:
    groups = [OffsetFetchRequestGroup(group_id=group, topics=None)]
    answer = account.wire.call(OffsetFetchRequest(groups=groups), 8).groups[0]
    offset: int = answer.topics[0].partitions[0].committed_offset
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
    asked = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=10_000)
    codes = [0]
    while codes[-1] == 0:  # at first there is the metadata store's reserve
        disk.fill()
        codes.append(account.wire.call(asked, 2).error_code)
    assert codes[-1] in (NOT_COORDINATOR, LOAD_IN_PROGRESS)
    assert len(codes) < 200
    disk.free()
    assert commit(account, "g", 2000) == 0
    wait_until(lambda: account.wire.call(asked, 2).error_code == 0, 10, "a producer id")
    broker.kill()
    broker.start()
    account.reconnect()
    assert committed(account, "g") == 2000
