"""InitProducerId, DescribeProducers, DeleteRecords and OffsetForLeaderEpoch: the same responses as Apache Kafka's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.comparisons.configs.requests import Configs, error_name, wait_until
from compat_tests.comparisons.data.requests import Topic, batch
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker
from harness.wire_client import WireClient
from kwire.codec.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.codec.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kwire.codec.messages.init_producer_id_request import InitProducerIdRequest
from kwire.codec.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def init_producer(client: WireClient, version: int = 5, **fields: Any) -> tuple[str, int, int]:
    """(error, id, epoch); retries while the broker has no producer ids available."""
    request = InitProducerIdRequest(**{"transactional_id": None, "transaction_timeout_ms": 1000, **fields})
    while True:
        response = client.call(request, version)
        error = error_name(response.error_code)
        if error != "COORDINATOR_LOAD_IN_PROGRESS":
            return error, response.producer_id, response.producer_epoch
        time.sleep(0.05)


def shape(response: tuple[str, int, int]) -> list[Any]:
    return [response[0], response[1] >= 0, response[2]]


def test_producer_ids(configs: Configs, observe: Observations) -> None:
    client = configs.client
    observe("versions", [shape(init_producer(client, version)) for version in range(6)])
    ids = [init_producer(client)[1] for _ in range(5)]
    assert len(set(ids)) == 5
    scripts: dict[str, dict[str, Any]] = {
        "no timeout": {"transaction_timeout_ms": 0},
        "goes on": {"producer_id": 5, "producer_epoch": 3},
        "no epoch": {"producer_id": 5},
        "no id": {"producer_epoch": 3},
        "impossible id": {"producer_id": -2, "producer_epoch": 3},
        "empty transactional id": {"transactional_id": ""},
        "timeout too long": {"transactional_id": "t", "transaction_timeout_ms": 100_000_000},
        "timeout not positive": {"transactional_id": "t", "transaction_timeout_ms": 0},
        "no coordinator": {"transactional_id": "t"},
        "no coordinator and no epoch": {"transactional_id": "t", "producer_id": 5},
    }
    for what, fields in scripts.items():
        observe(what, shape(init_producer(client, **fields)))


def test_no_producer_id_is_given_twice_whatever_happens(broker_factory: Callable[..., Broker]) -> None:
    broker = broker_factory()
    seen: list[int] = []
    for end in (broker.kill, lambda: None):
        with WireClient(broker.bootstrap) as client:
            seen += [init_producer(client)[1] for _ in range(3)]
        end()
        if not broker.is_running():
            broker.start()
    assert len(set(seen)) == len(seen)


@pytest.fixture
def filled(configs: Configs, new_name: Names) -> Topic:
    """A topic of two partitions, five records in the first."""
    topic = Topic(configs.client, configs.create(new_name(), partitions=2))
    assert topic.produce(batch(b"a", b"b", b"c", b"d", b"e"))["error_code"] == 0
    return topic


def test_active_producers(filled: Topic, observe: Observations) -> None:
    client = filled.client
    _, producer_id, epoch = init_producer(client)
    data = batch(b"a", b"b", b"c", producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    assert filled.produce(data)["error_code"] == 0

    def describe(name: str, *indexes: int) -> list[Any]:
        request = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=list(indexes))])
        (topic,) = client.call(request, 0).topics
        return [
            [each.partition_index, error_name(each.error_code), [_producer(one) for one in each.active_producers]]
            for each in topic.partitions
        ]

    def _producer(one: Any) -> list[Any]:
        assert one.producer_id == producer_id
        state = [one.producer_epoch, one.last_sequence, one.coordinator_epoch, one.current_txn_start_offset]
        return [*state, one.last_timestamp > 0]

    observe("partitions", describe(filled.name, 0, 1, 7, 0, -1))
    observe("none", describe(filled.name))
    observe("unknown topic", describe("no-such-topic", 0))
    observe("impossible topic", describe("no/such", 0))


def delete(client: WireClient, name: str, *requested: tuple[int, int], version: int = 2) -> list[Any]:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in requested]
    topic = DeleteRecordsTopic(name=name, partitions=partitions)
    response = client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=5000), version)
    return sorted(
        [each.partition_index, error_name(each.error_code), each.low_watermark]
        for each in response.topics[0].partitions
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_deleting_records(filled: Topic, observe: Observations, version: int) -> None:
    for offset in (2, 1, 9, -2, -1, 5, 6):
        observe(f"{offset}", delete(filled.client, filled.name, (0, offset), version=version))
    observe("start", filled.offset_at(-2))
    observe("below the start", filled.fetch(1))
    observe("empty partition", delete(filled.client, filled.name, (1, -1), version=version))
    observe("twice", delete(filled.client, filled.name, (1, 0), (1, 0), version=version))
    observe("partly", delete(filled.client, filled.name, (1, 0), (0, 5), (9, 1), version=version))
    for name in ("no-such-topic", "no/such"):
        observe(name, delete(filled.client, name, (0, 0), version=version))


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete", ""])
def test_deleting_records_of_compacted_topics(
    configs: Configs, new_name: Names, observe: Observations, policy: str
) -> None:
    topic = Topic(configs.client, configs.create(new_name(), {"cleanup.policy": policy}))
    topic.produce(batch(b"a", b"b", b"c"))
    observe("response", delete(topic.client, topic.name, (0, 1)))


def test_deleted_records_stay_deleted(broker_factory: Callable[..., Broker], observe: Observations) -> None:
    broker = broker_factory()
    with WireClient(broker.bootstrap) as client:
        topic = Topic(client, Configs(client).create("deleted"))
        topic.produce(batch(b"a", b"b", b"c", b"d"))
        observe("response", delete(client, "deleted", (0, 3)))
    broker.restart()
    with WireClient(broker.bootstrap) as client:
        topic = Topic(client, "deleted")
        wait_until(lambda: topic.offset_at(-2)["error_code"] == 0)
        observe("start", [topic.offset_at(-2)["offset"], topic.offset_at(-1)["offset"]])


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_leader_epochs_end(filled: Topic, observe: Observations, version: int) -> None:
    def ends(name: str, *requested: tuple[int, int, int], replica: int = -1) -> list[Any]:
        partitions = [
            OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
            for index, current, epoch in requested
        ]
        topic = OffsetForLeaderTopic(topic=name, partitions=partitions)
        response = filled.client.call(OffsetForLeaderEpochRequest(replica_id=replica, topics=[topic]), version)
        return [
            [each.partition, error_name(each.error_code), each.leader_epoch, each.end_offset]
            for each in response.topics[0].partitions
        ]

    for current in (-2, -1, 0, 5):
        for epoch in (-2, -1, 0, 1, 5):
            observe(f"{current} {epoch}", ends(filled.name, (0, current, epoch)))
    observe("empty log", ends(filled.name, (1, -1, 0)))
    observe("two", ends(filled.name, (0, -1, 0), (1, 0, 0), (0, -1, 0)))
    observe("unknown", [ends("no-such-topic", (0, -1, 0)), ends("no/such", (0, -1, 0)), ends(filled.name, (8, -1, 0))])
