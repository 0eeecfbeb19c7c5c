"""Requests about thousands of partitions, groups, users or access control entries, for `tools.benchmark.turns`, and
what follows them by itself: retention, time-outs, the removal of files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final

from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kwire.codec.messages.alter_configs_request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.describe_acls_request import DescribeAclsRequest
from kwire.codec.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kwire.codec.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kwire.codec.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.list_transactions_request import ListTransactionsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.codec.messages.offset_fetch_response import OffsetFetchResponseGroup
from kwire.codec.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codec.records import Record, build_batch
from kwire.log.common.names import DELETE_DIRECTORY_SUFFIX

LARGE_TOPICS: Final = 5
TOPIC: Final = 2
ALL, READ = 2, 3
LEADERS_ONLY: Final = (
    "_offsets",
    "_fetch_records",
    "_fetch_in_session",
    "_producers",
    "_epochs",
    "_delete_records",
    "_produce_expired",
)
"""Steps about partitions that one broker alone must lead."""
COORDINATORS_ONLY: Final = (
    "_find",
    "_commit_all",
    "_fetch_all",
    "_fetch_named",
    "_delete_one",
    "_begin",
    "_commit_in_transaction",
    "_end",
    "_begin_many",
    "_wait_for_time_outs",
    "_commit_briefly",
    "_expire",
    "_commit_each",
    "_groups",
    "_describe_groups",
    "_fetch_each",
    "_delete_shared",
    "_delete_groups",
)
"""Steps about groups that one broker alone must coordinate."""
ONE_GROUP: Final = "all"
"""The group that has offsets of all partitions."""

OTHER_USER: Final = "User:beside"
"""The user whose entries are created and deleted."""

OTHER_ENTRIES: Final[dict[str, Any]] = {
    "resource_type_filter": TOPIC,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": OTHER_USER,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
"""The filter that chooses this user's entries."""

SHARED_TOPIC: Final = "shared"
"""The topic of which every group has an offset."""

EXPIRED_MS: Final = 400 * 3_600_000
"""The age of a record that has expired."""

AT_ONCE: Final = 100
"""Partitions in one Produce request."""

WAIT_MS: Final = 100
"""How long a Fetch waits for data that does not come."""

TRANSACTIONS: Final = 1000
TIMED_OUT_MS: Final = 15_000
"""A transaction that takes longer is aborted, with the others that have been begun since the last look (10 s)."""


class Requests:
    """The steps, in their order: each is sent once a round."""

    def __init__(
        self, client: WireClient, partitions: int, folder: str, *, acls: bool, expire_offsets: Callable[[], object]
    ) -> None:
        self._client = client
        self._folder = folder
        self._acls = acls
        self._expire_offsets = expire_offsets
        self._producer: Any = None
        self._small = [f"small-{number}" for number in range(partitions // 2)]
        self._each = partitions // 2 // LARGE_TOPICS
        self._large = [f"large-{number}" for number in range(LARGE_TOPICS)]

    def steps(self) -> list[tuple[str, Callable[[], None]]]:
        """What is sent, by name."""
        small, large = len(self._small), len(self._large)
        return [
            (f"CreateTopics, {small:,} of one partition", lambda: self._create(self._small, 1)),
            (f"CreateTopics, {large} of {self._each:,}", lambda: self._create(self._large, self._each)),
            ("Metadata of all, the first one", lambda: self._metadata(False)),
            ("Metadata of all", lambda: self._metadata(False)),
            ("Metadata of all with operations", lambda: self._metadata(True)),
            (f"Metadata of {small:,} by id", self._by_id),
            ("ListOffsets of all", self._offsets),
            ("Fetch of all", self._fetch_records),
            ("Fetch of all, twice in a session", self._fetch_in_session),
            ("DescribeProducers of all", self._producers),
            ("OffsetForLeaderEpoch of all", self._epochs),
            ("DescribeTopicPartitions, a page", self._page),
            ("DescribeLogDirs", self._log_dirs),
            ("DeleteRecords of all", self._delete_records),
            ("Records of all are produced and expire", self._produce_expired),
            ("DescribeConfigs, 1,000 topics", self._describe_configs),
            ("AlterConfigs, 1,000 topics", self._alter_configs),
            ("FindCoordinator, which may create its topic", self._find),
            ("OffsetCommit of all", self._commit_all),
            ("OffsetFetch of all", self._fetch_all),
            ("OffsetFetch of all by name", self._fetch_named),
            ("DeleteGroups, one with all", self._delete_one),
            ("InitProducerId, which may create its topic", self._begin),
            ("TxnOffsetCommit of all", self._commit_in_transaction),
            ("EndTxn, with all of them", self._end),
            ("DeleteGroups, that one", self._delete_one),
            (f"Transactions, {TRANSACTIONS:,} one by one", self._begin_many),
            ("All of them time out", self._wait_for_time_outs),
            ("OffsetCommit of all, for a short time", self._commit_briefly),
            ("Offsets of all expire", self._expire),
            (f"OffsetCommit, {small:,} groups, one by one", self._commit_each),
            ("ListGroups", self._groups),
            (f"DescribeGroups, {small:,}", self._describe_groups),
            (f"OffsetFetch, {small:,} groups", self._fetch_each),
            (f"DeleteTopics, one with offsets of {small:,} groups", self._delete_shared),
            (f"DeleteGroups, {small:,}", self._delete_groups),
            (f"DeleteTopics, {large} of {self._each:,}", lambda: self._delete(self._large)),
            (f"DeleteTopics, {small:,} of one partition", lambda: self._delete(self._small)),
            (f"Metadata of {small:,} unknown names", self._unknown),
            (f"Metadata that creates {small:,} topics", self._create_named),
            (f"CreatePartitions, {small:,} topics", self._add_partitions),
            ("DeleteTopics, these", lambda: self._delete(self._small)),
            ("Files of deleted topics are removed", self._wait_for_removal),
            (f"AlterClientQuotas, {small:,} users", lambda: self._alter_quotas(is_removal=False)),
            ("DescribeClientQuotas", self._describe_quotas),
            (f"AlterClientQuotas, {small:,} removed", lambda: self._alter_quotas(is_removal=True)),
            *(self._about_acls() if self._acls else ()),
        ]

    def _about_acls(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            (f"CreateAcls, {len(self._small):,} entries", self._create_acls),
            ("DescribeAcls", self._describe_acls),
            ("DeleteAcls, these", self._delete_acls),
        ]

    def _create(self, names: list[str], partitions: int) -> None:
        topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
        self._check(self._client.call(CreateTopicsRequest(topics=topics, timeout_ms=600_000), 7).topics)

    def _add_partitions(self) -> None:
        topics = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in self._small]
        self._check(self._client.call(CreatePartitionsRequest(topics=topics, timeout_ms=600_000), 3).results)

    def _delete(self, names: list[str]) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=600_000)
        self._check(self._client.call(request, 6).responses)

    def _wait_for_removal(self) -> None:
        while any(name.endswith(DELETE_DIRECTORY_SUFFIX) for _, names, _ in os.walk(self._folder) for name in names):
            time.sleep(0.1)

    def _metadata(self, operations: bool) -> None:
        request = MetadataRequest(topics=None, include_topic_authorized_operations=operations)
        self._check(self._client.call(request, 12).topics)

    def _by_id(self) -> None:
        ids = [each.topic_id for each in self._client.call(MetadataRequest(topics=None), 12).topics]
        topics = [MetadataRequestTopic(name=None, topic_id=each) for each in ids]
        self._check(self._client.call(MetadataRequest(topics=topics), 12).topics)

    def _named(self, *, creates: bool) -> Any:
        topics = [MetadataRequestTopic(name=name) for name in self._small]
        return self._client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=creates), 12)

    def _unknown(self) -> None:
        assert {each.error_code for each in self._named(creates=False).topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    def _create_named(self) -> None:
        self._check(self._named(creates=True).topics)

    def _sizes(self) -> list[tuple[str, int]]:
        return [(name, 1) for name in self._small] + [(name, self._each) for name in self._large]

    def _offsets(self) -> None:
        topics = [
            ListOffsetsTopic(
                name=name, partitions=[ListOffsetsPartition(partition_index=at, timestamp=-1) for at in range(size)]
            )
            for name, size in self._sizes()
        ]
        response = self._client.call(ListOffsetsRequest(replica_id=-1, topics=topics), 9)
        self._check(each for topic in response.topics for each in topic.partitions)

    def _fetch_records(self) -> None:
        self._check_fetched(self._client.call(self._fetch_request(-1), 12))

    def _fetch_in_session(self) -> None:
        opened = self._client.call(self._fetch_request(0), 12)
        self._check_fetched(opened)
        again = FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, session_id=opened.session_id, session_epoch=1)
        assert not self._client.call(again, 12).error_code

    def _fetch_request(self, session_epoch: int) -> FetchRequest:
        """All partitions, for which a while is waited."""
        topics = [
            FetchTopic(
                topic=name,
                partitions=[
                    FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=1 << 20) for at in range(size)
                ],
            )
            for name, size in self._sizes()
        ]
        return FetchRequest(
            max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=1 << 26, session_epoch=session_epoch, topics=topics
        )

    def _check_fetched(self, response: Any) -> None:
        self._check(each for topic in response.responses for each in topic.partitions)

    def _delete_records(self) -> None:
        topics = [
            DeleteRecordsTopic(
                name=name, partitions=[DeleteRecordsPartition(partition_index=at, offset=-1) for at in range(size)]
            )
            for name, size in self._sizes()
        ]
        response = self._client.call(DeleteRecordsRequest(topics=topics, timeout_ms=600_000), 2)
        self._check(each for topic in response.topics for each in topic.partitions)

    def _producers(self) -> None:
        topics = [TopicRequest(name=name, partition_indexes=list(range(size))) for name, size in self._sizes()]
        response = self._client.call(DescribeProducersRequest(topics=topics), 0)
        self._check(each for topic in response.topics for each in topic.partitions)

    def _epochs(self) -> None:
        topics = [
            OffsetForLeaderTopic(
                topic=name, partitions=[OffsetForLeaderPartition(partition=at, leader_epoch=0) for at in range(size)]
            )
            for name, size in self._sizes()
        ]
        response = self._client.call(OffsetForLeaderEpochRequest(topics=topics), 4)
        self._check(each for topic in response.topics for each in topic.partitions)

    def _find(self) -> None:
        self._client.call(FindCoordinatorRequest(coordinator_keys=[ONE_GROUP]), 4)

    def _commit_all(self) -> None:
        self._commit(ONE_GROUP, self._sizes())

    def _fetch_all(self) -> None:
        [group] = self._fetch([ONE_GROUP])
        assert sum(len(topic.partitions) for topic in group.topics) == sum(size for _, size in self._sizes())

    def _fetch_named(self) -> None:
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=list(range(n))) for name, n in self._sizes()]
        group = OffsetFetchRequestGroup(group_id=ONE_GROUP, topics=topics)
        [fetched] = self._client.call(OffsetFetchRequest(groups=[group]), 9).groups
        self._check(each for topic in fetched.topics for each in topic.partitions)

    def _begin(self) -> None:
        coordinator = FindCoordinatorRequest(key_type=1, coordinator_keys=[ONE_GROUP])
        while self._client.call(coordinator, 4).coordinators[0].error_code:
            time.sleep(0.1)
        request = InitProducerIdRequest(transactional_id=ONE_GROUP, transaction_timeout_ms=600_000)
        self._producer = self._client.call(request, 4)
        self._check([self._producer])

    def _commit_in_transaction(self) -> None:
        topics = [
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=at, committed_offset=0) for at in range(size)
                ],
            )
            for name, size in self._sizes()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=ONE_GROUP,
            group_id=ONE_GROUP,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            topics=topics,
        )
        response = self._client.call(request, 5)
        self._check(each for topic in response.topics for each in topic.partitions)

    def _end(self) -> None:
        request = EndTxnRequest(
            transactional_id=ONE_GROUP,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            committed=True,
        )
        self._check([self._client.call(request, 5)])

    def _begin_many(self) -> None:
        for number in range(TRANSACTIONS):
            name = f"transaction-{number}"
            producer = self._client.call(
                InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMED_OUT_MS), 4
            )
            self._check([producer])
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=self._small[number % len(self._small)], partitions=[0])
                ],
            )
            self._client.call(request, 3)

    def _wait_for_time_outs(self) -> None:
        request = ListTransactionsRequest(state_filters=["Ongoing"])
        while self._client.call(request, 0).transaction_states:
            time.sleep(0.1)

    def _commit_briefly(self) -> None:
        self._commit(ONE_GROUP, self._sizes(), version=4)

    def _expire(self) -> None:
        self._expire_offsets()

    def _delete_one(self) -> None:
        self._check(self._client.call(DeleteGroupsRequest(groups_names=[ONE_GROUP]), 2).results)

    def _commit_each(self) -> None:
        self._create([SHARED_TOPIC], 1)
        for name in self._small:
            self._commit(name, [(name, 1), (SHARED_TOPIC, 1)])

    def _delete_shared(self) -> None:
        self._delete([SHARED_TOPIC])

    def _commit(self, group: str, sizes: list[tuple[str, int]], *, version: int = 9) -> None:
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                partitions=[OffsetCommitRequestPartition(partition_index=at, committed_offset=0) for at in range(size)],
            )
            for name, size in sizes
        ]
        request = OffsetCommitRequest(group_id=group, retention_time_ms=1, topics=topics)
        response = self._client.call(request, version)
        self._check(each for topic in response.topics for each in topic.partitions)

    def _groups(self) -> None:
        assert len(self._client.call(ListGroupsRequest(), 5).groups) == len(self._small)

    def _describe_groups(self) -> None:
        self._check(self._client.call(DescribeGroupsRequest(groups=self._small), 5).groups)

    def _fetch_each(self) -> None:
        self._check(self._fetch(self._small))

    def _fetch(self, names: list[str]) -> list[OffsetFetchResponseGroup]:
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        fetched: list[OffsetFetchResponseGroup] = self._client.call(OffsetFetchRequest(groups=groups), 9).groups
        return fetched

    def _delete_groups(self) -> None:
        self._check(self._client.call(DeleteGroupsRequest(groups_names=self._small), 2).results)

    def _page(self) -> None:
        self._check(self._client.call(DescribeTopicPartitionsRequest(topics=[]), 0).topics)

    def _log_dirs(self) -> None:
        self._check(self._client.call(DescribeLogDirsRequest(topics=None), 4).results)

    def _produce_expired(self) -> None:
        expired_ms = int(time.time() * 1000) - EXPIRED_MS
        batch = build_batch([Record(timestamp=expired_ms, value=bytes(100))])
        every = [(name, index) for name, size in self._sizes() for index in range(size)]
        for start in range(0, len(every), AT_ONCE):
            topics: dict[str, list[PartitionProduceData]] = {}
            for name, index in every[start : start + AT_ONCE]:
                topics.setdefault(name, []).append(PartitionProduceData(index=index, records=batch))
            data = [TopicProduceData(name=name, partition_data=each) for name, each in topics.items()]
            response = self._client.call(ProduceRequest(acks=-1, timeout_ms=600_000, topic_data=data), 9)
            self._check(each for topic in response.responses for each in topic.partition_responses)
        name, size = self._sizes()[-1]
        earliest = ListOffsetsPartition(partition_index=size - 1, timestamp=-2)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[earliest])])
        while not self._client.call(request, 9).topics[0].partitions[0].offset:
            time.sleep(0.1)

    def _describe_configs(self) -> None:
        resources = [DescribeConfigsResource(resource_type=TOPIC, resource_name=name) for name in self._small[:1000]]
        self._check(self._client.call(DescribeConfigsRequest(resources=resources), 4).results)

    def _alter_configs(self) -> None:
        configs = [AlterableConfig(name="retention.ms", value=str(1000 + time.time_ns()))]
        resources = [
            AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)
            for name in self._small[:1000]
        ]
        self._check(self._client.call(AlterConfigsRequest(resources=resources), 2).responses)

    def _alter_quotas(self, *, is_removal: bool) -> None:
        change = OpData(key="producer_byte_rate", value=0.0 if is_removal else 1e9, remove=is_removal)
        entries = [
            EntryData(entity=[EntityData(entity_type="user", entity_name=name)], ops=[change]) for name in self._small
        ]
        self._check(self._client.call(AlterClientQuotasRequest(entries=entries), 1).entries)

    def _describe_quotas(self) -> None:
        response = self._client.call(DescribeClientQuotasRequest(components=[]), 1)
        assert len(response.entries) == len(self._small)

    def _create_acls(self) -> None:
        creations = [allowed(OTHER_USER, TOPIC, name, READ) for name in self._small]
        self._check(self._client.call(CreateAclsRequest(creations=creations), 3).results)

    def _describe_acls(self) -> None:
        assert len(self._client.call(DescribeAclsRequest(**OTHER_ENTRIES), 3).resources) == len(self._small)

    def _delete_acls(self) -> None:
        chosen = DeleteAclsFilter(**OTHER_ENTRIES)
        [result] = self._client.call(DeleteAclsRequest(filters=[chosen]), 3).filter_results
        assert len(result.matching_acls) == len(self._small)

    def _check(self, results: Any) -> None:
        wrong = [each.error_code for each in results if each.error_code]
        assert not wrong, wrong[:3]


def allowed(user: str, kind: int, name: str, operation: int) -> AclCreation:
    """An entry that allows a user something, from every host."""
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=3,
        principal=user,
        host="*",
        operation=operation,
        permission_type=3,
    )
