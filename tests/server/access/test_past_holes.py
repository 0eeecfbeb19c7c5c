"""Holes that Apache Kafka and its peers once had, as requests of a client without the ACLs for them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.cluster.replication.partition import Partition
from kwire.codec.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kwire.codec.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.create_acls_request import CreateAclsRequest
from kwire.codec.messages.create_topics_request import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.describe_transactions_request import DescribeTransactionsRequest
from kwire.codec.messages.end_txn_request import EndTxnRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.codec.records import Record, build_batch
from kwire.handlers.context import RequestContext
from kwire.handlers.security import create_acls
from kwire.handlers.topics import create_topics
from kwire.security.principals import Principal
from kwire.server.broker import Broker
from tests.server.access.guarded_cluster import GuardedCluster
from tests.server.access.test_authorizers import acl, start
from tests.server.conftest import Brokers

READ, WRITE = 3, 4


@pytest.fixture
async def broker(brokers: Brokers) -> Broker:
    """A broker with the topic "orders", which everybody may read."""
    broker = await start(brokers, super_users="User:root")
    context = RequestContext(broker.services, api_version=7, principal=Principal("User", "root"))
    topics = [CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]
    created: Any = create_topics.handle(CreateTopicsRequest(topics=topics, timeout_ms=5000), context)
    assert (await created).topics[0].error_code == 0
    await create_acls.handle(CreateAclsRequest(creations=[acl("orders", READ, "User:*")]), context)
    return broker


@pytest.mark.parametrize("version", [12, 13, 15, 18])
async def test_a_reader_does_not_fetch_as_a_follower(
    brokers: Brokers, broker: Broker, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """CVE-2018-1288: such a fetch told the leader what the follower has, and so advanced the high watermark."""
    told: list[object] = []
    monkeypatch.setattr(Partition, "follower_at", lambda *arguments, **_options: told.append(arguments))
    topic = FetchTopic(
        topic="orders",
        topic_id=broker.metadata.image.topics["orders"].id,
        partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
    )
    replica: dict[str, Any] = {"replica_id": 1} if version < 15 else {"replica_state": ReplicaState(replica_id=1)}
    client = await brokers.connect(broker)
    answer = await client.call(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic], **replica), version)
    assert [each.error_code for each in answer.responses[0].partitions] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert not told
    answer = await client.call(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), version)
    assert answer.responses[0].partitions[0].error_code == 0


async def test_a_reader_does_not_fetch_as_a_follower_in_a_cluster(tmp_path: Path) -> None:
    """CVE-2018-1288 with the id of a follower that is in the cluster, and with that broker's client id."""
    async with AsyncExitStack() as stack:
        guarded = GuardedCluster(tmp_path, stack)
        leader = await guarded.start(1)
        await guarded.start(2)
        root = await guarded.log_in(2, "root")
        replicas = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
        topic = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1, assignments=[replicas])
        assert (await root.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)).topics[0].error_code == 0
        await root.call(CreateAclsRequest(creations=[acl("orders", READ, "User:*")]), 3)
        alice = await guarded.log_in(1, "alice")
        alice._client_id = "broker-2"
        wanted = FetchTopic(
            topic="orders",
            topic_id=leader.metadata.image.topics["orders"].id,
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
        )
        for version, replica in ((12, {"replica_id": 2}), (18, {"replica_state": ReplicaState(replica_id=2)})):
            request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[wanted], **replica)
            answer = await alice.call(request, version)
            codes = [each.error_code for each in answer.responses[0].partitions]
            assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


async def test_a_stranger_does_not_learn_what_files_there_are(brokers: Brokers, broker: Broker, tmp_path: Path) -> None:
    """Apache Kafka tries a key store before it asks whether the client may change the listener."""
    client = await brokers.connect(broker)
    for path in (tmp_path / "nothing", __file__):
        config = AlterableConfig(name="listener.name.ssl.ssl.keystore.location", value=str(path))
        resource = AlterConfigsResource(resource_type=4, resource_name=str(broker.config.node_id), configs=[config])
        answer = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_batch_of_a_transaction_needs_the_acl_of_a_transactional_id(brokers: Brokers, broker: Broker) -> None:
    """CVE-2018-17196: a request without a transactional id brought batches of a transaction past the check."""
    context = RequestContext(broker.services, api_version=3, principal=Principal("User", "root"))
    await create_acls.handle(CreateAclsRequest(creations=[acl("orders", WRITE, "User:*")]), context)
    client = await brokers.connect(broker)
    records = [Record(timestamp=1, value=b"value")]
    ordinary = build_batch(records)
    crafted = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)

    async def produced(batch: bytes, transactional_id: str | None) -> int:
        data = [PartitionProduceData(index=0, records=batch)]
        topic = TopicProduceData(name="orders", partition_data=data)
        request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=5000, topic_data=[topic])
        answer = await client.call(request, 9)
        code: int = answer.responses[0].partition_responses[0].error_code
        return code

    assert await produced(ordinary, None) == 0
    for transactional_id in (None, "of another"):
        assert await produced(crafted, transactional_id) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_every_request_of_a_transaction_needs_its_acls(brokers: Brokers, broker: Broker) -> None:
    """CVE-2023-50976: Redpanda carried out requests of transactions without asking whether the client may send them."""
    client = await brokers.connect(broker)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    producer: dict[str, Any] = {"transactional_id": "txn", "producer_id": 7, "producer_epoch": 0}
    begun = await client.call(InitProducerIdRequest(transactional_id="txn", transaction_timeout_ms=1000), 4)
    assert begun.error_code == refused
    topics = [AddPartitionsToTxnTopic(name="orders", partitions=[0])]
    added = await client.call(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="txn",
            v3_and_below_producer_id=7,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        ),
        3,
    )
    assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == refused
    offsets = await client.call(AddOffsetsToTxnRequest(group_id="group", **producer), 3)
    assert offsets.error_code == refused
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    committed = [TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])]
    commit = await client.call(TxnOffsetCommitRequest(group_id="group", topics=committed, **producer), 3)
    assert commit.topics[0].partitions[0].error_code == refused
    for commits in (True, False):
        ended = await client.call(EndTxnRequest(committed=commits, **producer), 3)
        assert ended.error_code == refused
    described = await client.call(DescribeTransactionsRequest(transactional_ids=["txn"]), 0)
    assert described.transaction_states[0].error_code == refused


async def test_a_stranger_does_not_end_a_followers_session(tmp_path: Path) -> None:
    """In kwire, a follower has one session: a new one ends the former."""
    async with AsyncExitStack() as stack:
        guarded = GuardedCluster(tmp_path, stack)
        leader = await guarded.start(1)
        root = await guarded.log_in(1, "root")
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
        assert (await root.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)).topics[0].error_code == 0
        wanted = FetchTopic(
            topic_id=leader.metadata.image.topics["orders"].id,
            partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
        )
        opens = FetchRequest(max_wait_ms=0, session_epoch=0, topics=[wanted], replica_state=ReplicaState(replica_id=2))
        follower = await guarded.connect(1)
        session = (await follower.call(opens, 18)).session_id
        alice = await guarded.log_in(1, "alice")
        refused = await alice.call(opens, 18)
        assert refused.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        continued = FetchRequest(
            max_wait_ms=0, session_id=session, session_epoch=1, replica_state=ReplicaState(replica_id=2)
        )
        assert (await follower.call(continued, 18)).error_code == 0


async def test_a_pattern_matches_only_topics_that_its_subscriber_may_describe(brokers: Brokers, broker: Broker) -> None:
    root = RequestContext(broker.services, api_version=7, principal=Principal("User", "root"))
    hidden = CreateTopicsRequest(
        topics=[CreatableTopic(name="hidden", num_partitions=1, replication_factor=1)], timeout_ms=5000
    )
    created: Any = create_topics.handle(hidden, root)
    assert (await created).topics[0].error_code == 0
    group = acl("group", READ, "User:ANONYMOUS")
    group.resource_type = 3
    await create_acls.handle(CreateAclsRequest(creations=[group]), root)
    client = await brokers.connect(broker)
    epoch, assigned = 0, None
    async with asyncio.timeout(30):
        while assigned is None or not assigned.topic_partitions:
            await client.call(FindCoordinatorRequest(coordinator_keys=["group"]), 6)
            joins: dict[str, Any] = {}
            if not epoch:
                joins = {"rebalance_timeout_ms": 60000, "subscribed_topic_regex": ".*", "topic_partitions": []}
            request = ConsumerGroupHeartbeatRequest(group_id="group", member_id="A" * 22, member_epoch=epoch, **joins)
            answer = await client.call(request, 1)
            if not answer.error_code:
                epoch, assigned = answer.member_epoch, answer.assignment or assigned
            await asyncio.sleep(0.02)
    orders = broker.metadata.image.topics["orders"].id
    assert {each.topic_id for each in assigned.topic_partitions} == {orders}


@pytest.mark.parametrize("key_type", [0, 1])
async def test_a_stranger_does_not_have_internal_topics_created(
    brokers: Brokers, broker: Broker, key_type: int
) -> None:
    client = await brokers.connect(broker)
    answer = await client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"]), 6)
    assert answer.coordinators[0].error_code in (
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
    assert set(broker.metadata.image.topics) == {"orders"}
