"""One of two log directories fails, with kwire and with Apache Kafka: the responses to clients must be the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compat_tests.comparisons.disk.volumes import Account
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until
from kwire.codec.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.codec.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.codec.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kwire.codec.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from kwire.codec.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.codec.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

GROUPS = ["a", "b", "c", "d"]  # one for each of the four partitions of __consumer_offsets


def metadata(account: Account, index: int) -> list[Any]:
    requested = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    partitions = account.wire.call(requested, 9).topics[0].partitions
    found = next(each for each in partitions if each.partition_index == index)
    return [found.error_code, found.leader_id, found.leader_epoch, found.isr_nodes, found.offline_replicas]


def described(account: Account, index: int) -> list[Any]:
    partitions = (
        account.wire.call(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]), 0).topics[0].partitions
    )
    found = next(each for each in partitions if each.partition_index == index)
    eligible, last = found.eligible_leader_replicas, found.last_known_elr
    return [found.error_code, found.leader_id, found.isr_nodes, eligible, last, found.offline_replicas]


def offset(account: Account, index: int, timestamp: int) -> list[int]:
    partition = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
    found = account.wire.call(request, 5).topics[0].partitions[0]
    return [found.error_code, found.offset]


def deleted(account: Account, index: int) -> int:
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=index, offset=0)])
    response = account.wire.call(DeleteRecordsRequest(timeout_ms=1000, topics=[topic]), 1)
    code: int = response.topics[0].partitions[0].error_code
    return code


def epoch_end(account: Account, index: int) -> int:
    partition = OffsetForLeaderPartition(partition=index, current_leader_epoch=-1, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic="t", partitions=[partition])]
    code: int = account.wire.call(OffsetForLeaderEpochRequest(topics=topics), 3).topics[0].partitions[0].error_code
    return code


def elected(account: Account, kind: int, index: int) -> list[int]:
    topics = [TopicPartitions(topic="t", partitions=[index])]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=3000)
    response = account.wire.call(request, 2)
    return [each.error_code for result in response.replica_election_results for each in result.partition_result]


def moved(account: Account, index: int, path: Path) -> int:
    topic = AlterReplicaLogDirTopic(name="t", partitions=[index])
    response = account.wire.call(
        AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(path), topics=[topic])]), 1
    )
    code: int = response.results[0].partitions[0].error_code
    return code


def group(account: Account, name: str) -> list[Any]:
    found = account.wire.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[name]), 4).coordinators[0]
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    commit = account.wire.call(OffsetCommitRequest(group_id=name, topics=topics), 7).topics[0].partitions[0]
    requested = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None)])
    fetched = account.wire.call(requested, 8).groups[0]
    return [found.error_code, found.node_id, found.error_message, commit.error_code, fetched.error_code]


def responses(account: Account, index: int) -> dict[str, Any]:
    found = account.read(index)
    return {
        "metadata": metadata(account, index),
        "described": described(account, index),
        "produce": account.write(index),
        "fetch": found if isinstance(found, int) else "records",
        "latest": offset(account, index, -1)[0],
        "earliest": offset(account, index, -2),
        "by time": offset(account, index, 1000),
        "delete records": deleted(account, index),
        "epoch end": epoch_end(account, index),
        "elections": [elected(account, kind, index) for kind in (0, 1)],
    }


def directories(account: Account) -> list[list[int]]:
    found = account.wire.call(DescribeLogDirsRequest(topics=None), 4).results
    return [[each.error_code, int(each.total_bytes > 0)] for each in found]


def test_clients_are_told_the_same_of_a_directory_that_vanished(
    tmp_path: Path, broker_factory: Callable[..., Broker], observe: Observations
) -> None:
    stays, goes = tmp_path / "stays", tmp_path / "goes"
    settings = {"log.dirs": f"{stays},{goes}", "replica.high.watermark.checkpoint.interval.ms": "500"}
    account = Account(broker_factory(settings).bootstrap)
    assert account.create(4) == 0
    wait_until(lambda: [account.write(index) for index in range(4)] == [0] * 4, 20, "four leaders")
    wait_until(lambda: all(group(account, name) == [0, 1, "", 0, 0] for name in GROUPS), 20, "coordinators")
    lost = next(int(each.name[2:]) for each in goes.glob("t-?"))
    kept = next(int(each.name[2:]) for each in stays.glob("t-?"))
    shutil.rmtree(goes)
    wait_until(lambda: metadata(account, lost)[1] == -1, 20, "the failure in the metadata")
    observe("lost", responses(account, lost))
    observe("kept", responses(account, kept))
    observe("groups", sorted(group(account, name) for name in GROUPS))
    observe("directories", directories(account))
    observe("moves", [moved(account, lost, stays), moved(account, kept, goes), moved(account, kept, stays)])
    assert account.create(2, name="u") == 0
    wait_until(lambda: account.write(0, topic="u") == 0, 20, "a new topic")
    observe("new", sorted(each.name for each in stays.glob("u-?")))
    account.wire.close()
