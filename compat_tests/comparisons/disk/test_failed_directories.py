"""Log directories that fail: the broker logs it once, serves the others, and has all of them again after a restart."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from compat_tests.comparisons.disk.volumes import STORAGE_ERROR, Account, Volume
from harness.processes.brokers import Broker, BrokerFailed, wait_until
from kwire.codec.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kwire.codec.messages.elect_leaders_request import ElectLeadersRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest

MakeVolume = Callable[..., Volume]
BrokerOn = Callable[..., Broker]
AccountWith = Callable[[Broker], Account]

LEADER_NOT_AVAILABLE = 5
GONE: tuple[int, int, list[int]] = (LEADER_NOT_AVAILABLE, -1, [1])
THERE: tuple[int, int, list[int]] = (0, 1, [])
COORDINATOR_NOT_AVAILABLE = 15


def partitions_in(directory: Path) -> list[int]:
    return sorted(int(each.name[2:]) for each in (directory / "data").glob("t-?"))


def failures(broker: Broker) -> int:
    return broker.log_text().count("log directory failed")


def directories(account: Account) -> list[int]:
    response = account.wire.call(DescribeLogDirsRequest(topics=None), 4)
    return [each.error_code for each in response.results]


def test_a_directory_that_is_unmounted_is_given_up_and_comes_back_with_the_next_start_that_has_it(
    tmp_path: Path, volume: MakeVolume, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    disk = volume("ext4")
    broker = broker_on(tmp_path / "stays", disk.path)
    account = account_with(broker)
    assert account.create(4) == 0
    for partition in (0, 1, 2, 3):
        assert account.write(partition) == 0
    lost, kept = partitions_in(disk.path), partitions_in(tmp_path / "stays")
    assert len(lost) == len(kept) == 2
    wait_until(lambda: "t 3 1" in checkpoint(disk.path) + checkpoint(tmp_path / "stays"), 5, "checkpoints")
    disk.unmount()
    wait_until(lambda: account.leaders()[lost[0]] == GONE, 5, "the failure in the metadata")
    assert failures(broker) == 1
    check_what_goes_on(account, kept, lost)
    account.create(2, name="u")
    assert len(list((tmp_path / "stays" / "data").glob("u-?"))) == 2

    broker.restart()  # the mount point exists and is empty
    account.reconnect()
    assert "is it mounted?" in broker.log_text()
    check_what_goes_on(account, kept, lost)
    assert not list((disk.path / "data").glob("t-*"))

    broker.kill()
    shutil.rmtree(disk.path / "data")
    disk.mount()
    broker.start()
    account.reconnect()
    assert account.leaders() == [THERE] * 4
    for partition in (0, 1, 2, 3):
        assert account.write(partition) == 0
        account.check(partition)
    assert failures(broker) == 2


def checkpoint(directory: Path) -> str:
    path = directory / "data" / "replication-offset-checkpoint"
    return path.read_text() if path.exists() else ""


def check_what_goes_on(account: Account, kept: list[int], lost: list[int]) -> None:
    leaders = account.leaders()
    assert [leaders[partition] for partition in lost] == [GONE] * len(lost)
    assert [leaders[partition] for partition in kept] == [THERE] * len(kept)
    for partition in lost:
        assert account.write(partition) == STORAGE_ERROR
        assert account.read(partition) == STORAGE_ERROR
    for partition in kept:
        assert account.write(partition) == 0
        account.check(partition)
    assert directories(account) == [0, STORAGE_ERROR]
    unclean = account.wire.call(ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=3000), 2)
    found = {each.topic: each.partition_result for each in unclean.replica_election_results}
    assert sorted((each.partition_id, each.error_code) for each in found["t"]) == [(each, 80) for each in lost]


def test_a_removed_directory_is_noticed_while_nobody_asks(tmp_path: Path, broker_on: BrokerOn) -> None:
    broker = broker_on(tmp_path / "stays", tmp_path / "goes")
    shutil.rmtree(tmp_path / "goes")
    wait_until(lambda: failures(broker), 5, "the line in the log")
    assert str(tmp_path / "goes") in broker.log_text()
    assert broker.stop() == 0
    assert failures(broker) == 1


def test_coordinators_on_a_failed_directory_are_not_available(
    tmp_path: Path, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    broker = broker_on(tmp_path / "stays", tmp_path / "goes")
    account = account_with(broker)

    def coordinators() -> list[int]:
        keys = ["a", "b", "c", "d"]  # one for each of the four partitions
        response = account.wire.call(FindCoordinatorRequest(key_type=0, coordinator_keys=keys), 4)
        return sorted(each.error_code for each in response.coordinators)

    wait_until(lambda: coordinators() == [0] * 4, 10, "coordinators")
    shutil.rmtree(tmp_path / "goes")
    wanted = [0, 0, COORDINATOR_NOT_AVAILABLE, COORDINATOR_NOT_AVAILABLE]
    wait_until(lambda: coordinators() == wanted, 5, "the coordinators' failure")


def test_without_any_directory_the_broker_ends_with_one_line(tmp_path: Path, broker_on: BrokerOn) -> None:
    broker = broker_on(tmp_path / "only")
    shutil.rmtree(tmp_path / "only")
    wait_until(lambda: not broker.is_running(), 15, "the broker's end")
    assert broker.stop() == 1
    last = broker.log_text().splitlines()[-1]
    assert last.startswith("kwire: stopped: all log.dirs have failed")
    assert "Traceback" not in broker.log_text()


def test_without_the_directory_of_the_metadata_store_the_broker_ends_as_well(
    tmp_path: Path, broker_on: BrokerOn
) -> None:
    broker = broker_on(tmp_path / "first", tmp_path / "second")
    shutil.rmtree(tmp_path / "first")
    wait_until(lambda: not broker.is_running(), 15, "the broker's end")
    assert broker.stop() == 1
    assert "the directory of the metadata store" in broker.log_text().splitlines()[-1]


def test_a_directory_that_cannot_be_opened_at_the_start_is_left_out(
    tmp_path: Path, broker_on: BrokerOn, account_with: AccountWith
) -> None:
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "data").write_text("no directory")
    broker = broker_on(tmp_path / "stays", tmp_path / "file")
    account = account_with(broker)
    assert failures(broker) == 1
    assert account.create(4) == 0
    for partition in (0, 1, 2, 3):
        assert account.write(partition) == 0
    assert directories(account) == [0, STORAGE_ERROR]
    assert broker.stop() == 0


def test_the_first_directory_has_to_be_there(tmp_path: Path, broker_on: BrokerOn) -> None:
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "data").write_text("no directory")
    try:
        broker_on(tmp_path / "file", tmp_path / "other")
    except BrokerFailed as why:
        assert "cannot be used" in str(why)
        assert "Traceback" not in str(why)
    else:
        raise AssertionError("the metadata store lies in the first directory")
