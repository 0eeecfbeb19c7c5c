"""The longest turns of a broker's event loop while requests about thousands of partitions are handled.

    .venv/bin/python -m tools.benchmark.turns [--partitions 10000] [--acls] [--forwarded] [--rounds 3] [--dir DIR]

A broker runs in this process on a loop that measures the processor time of its own thread in each turn; a thread sends
the requests, one after the other. Half of the partitions are topics of one partition, the others are in five topics. A
line for each step says how many turns it took, which the longest were, and the round's processor time; of several
rounds, the one with the shortest longest turn is shown, because other work on the machine only makes turns longer. The
small topics give their names to as many users with quotas. With ``--acls``, an authorizer with 1,000 entries decides.
With ``--forwarded``, the requests go to a second broker on the same loop, which is not the controller.
Creating files takes the kernel very different times; data in ``--dir /dev/shm`` leave that out.

What lives elsewhere: how long clients wait for each other (``scripts/bench --only beside-others``).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, NamedTuple

from harness.waiting import PATIENCE_S
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.base.logging import configure, get_logger
from kwire.cli.start import GC_THRESHOLDS
from kwire.cluster.store.memory import MemoryStore
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
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
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
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.log.common.names import DELETE_DIRECTORY_SUFFIX
from kwire.server.broker import Broker

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LARGE_TOPICS: Final = 5
TOPIC: Final = 2
LEADERS_ONLY: Final = ("_offsets", "_producers", "_epochs", "_delete_records")
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

SHARED_TOPIC: Final = "shared"
"""The topic of which every group has an offset."""

REMOVED_MS: Final = 4000
"""When the files of a topic that was deleted are removed: after the step that deletes it."""

REST_S: Final = 0.3
"""What a request has set in motion is part of its step; a pause of the loop ends the step."""


class MeasuredLoop(asyncio.SelectorEventLoop):
    """Measures the processor time of each turn."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[float] = []

    def _run_once(self) -> None:
        begun = time.thread_time()
        super()._run_once()  # type: ignore[misc]  # asyncio has no public way to see a turn
        self.turns.append(time.thread_time() - begun)


class Step(NamedTuple):
    """What was measured of one request, in milliseconds."""

    turns: int
    longest: list[float]
    busy: float


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
            ("DescribeProducers of all", self._producers),
            ("OffsetForLeaderEpoch of all", self._epochs),
            ("DescribeTopicPartitions, a page", self._page),
            ("DescribeLogDirs", self._log_dirs),
            ("DeleteRecords of all", self._delete_records),
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
        creations = [_read_by(OTHER_USER, name) for name in self._small]
        self._check(self._client.call(CreateAclsRequest(creations=creations), 3).results)

    def _describe_acls(self) -> None:
        request = DescribeAclsRequest(
            resource_type_filter=TOPIC,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=OTHER_USER,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        assert len(self._client.call(request, 3).resources) == len(self._small)

    def _delete_acls(self) -> None:
        chosen = DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=OTHER_USER,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        [result] = self._client.call(DeleteAclsRequest(filters=[chosen]), 3).filter_results
        assert len(result.matching_acls) == len(self._small)

    def _check(self, results: Any) -> None:
        wrong = [each.error_code for each in results if each.error_code]
        assert not wrong, wrong[:3]


async def measured(
    partitions: int, rounds: int, *, acls: bool, is_forwarded: bool = False, place: str | None = None
) -> dict[str, Step]:
    """Each step with its shortest longest turn."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MeasuredLoop)
    best: dict[str, Step] = {}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-turns-", dir=place))
        brokers = [await stack.enter_async_context(each) for each in _brokers(folder, acls, is_forwarded)]
        call = asyncio.to_thread
        client = await call(WireClient, brokers[-1].bootstrap_servers, timeout_s=10 * PATIENCE_S)
        expire_offsets = partial(loop.call_soon_threadsafe, brokers[-1].services.groups.expire_offsets)
        if acls:
            await call(_allow_everything, client)
        for _ in range(rounds):
            for name, send in Requests(client, partitions, folder, acls=acls, expire_offsets=expire_offsets).steps():
                if is_forwarded and send.__name__ in (*LEADERS_ONLY, *COORDINATORS_ONLY):
                    continue
                await asyncio.sleep(REST_S)
                loop.turns.clear()
                await call(send)
                await _settled(loop, brokers)
                step = _step(loop.turns)
                if name not in best or step.longest[0] < best[name].longest[0]:
                    best[name] = step
        await call(client.close)
    return best


def _brokers(folder: str, acls: bool, is_forwarded: bool) -> list[Broker]:
    """One broker, or two of one cluster, of which the first is the controller."""
    access: dict[str, Any] = {"authorizer_class_name": STANDARD_AUTHORIZER} if acls else {}
    access |= {"allow_everyone_if_no_acl_found": True}  # the client may add the first entries
    access |= {"log_segment_delete_delay_ms": REMOVED_MS}
    listener = "PLAINTEXT://127.0.0.1:0"
    if not is_forwarded:
        return [Broker(listeners=listener, log_dirs=folder, **access)]
    store = MemoryStore()
    return [
        Broker(store=store, node_id=number, listeners=listener, log_dirs=f"{folder}/{number}", **access)
        for number in (1, 2)
    ]


def _allow_everything(client: WireClient) -> None:
    """An entry that allows everything, and many others."""
    users = ["User:ANONYMOUS", *(f"User:other-{number}" for number in range(999))]
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=3,
            principal=user,
            host="*",
            operation=2,
            permission_type=3,
        )
        for user in users
        for kind, name in ((2, "*"), (4, "kafka-cluster"))[: 2 if user == users[0] else 1]
    ]
    results = client.call(CreateAclsRequest(creations=creations), 3).results
    assert not any(each.error_code for each in results)


def _read_by(user: str, topic: str) -> AclCreation:
    """An entry that lets a user read a topic."""
    return AclCreation(
        resource_type=TOPIC,
        resource_name=topic,
        resource_pattern_type=3,
        principal=user,
        host="*",
        operation=3,
        permission_type=3,
    )


async def _settled(loop: MeasuredLoop, brokers: list[Broker]) -> None:
    """Return when the loop has little to do: what a request has set in motion is done."""
    while True:
        for broker in brokers:
            await broker.replicas.wait_until_applied()
        before = len(loop.turns)
        await asyncio.sleep(REST_S)
        if len(loop.turns) - before < 10:
            return


def _step(turns: list[float]) -> Step:
    longest = sorted((each * 1000 for each in turns), reverse=True)
    return Step(len(turns), longest[:3], sum(longest))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure the longest turns of a broker's event loop.")
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", help="where the broker has its data (default: a temporary directory)")
    parser.add_argument("--acls", action="store_true", help="with an authorizer of 1,000 entries")
    parser.add_argument("--forwarded", action="store_true", help="through a broker that is not the controller")
    arguments = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    with (
        open(os.devnull, "w") as log,
        asyncio.Runner(loop_factory=MeasuredLoop) as runner,
    ):
        configure(stream=log)  # the lines are made, as those of a broker are
        get_logger("kwire.server").info("measuring")  # the first line takes what a broker's start has taken
        best = runner.run(
            measured(
                arguments.partitions,
                arguments.rounds,
                acls=arguments.acls,
                is_forwarded=arguments.forwarded,
                place=arguments.dir,
            )
        )
    print(f"{'request':45} {'turns':>6} {'processor time':>15}   longest turns")
    for name, step in best.items():
        print(f"{name:45} {step.turns:6} {step.busy:12.0f} ms   {', '.join(f'{each:.1f}' for each in step.longest)} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
