"""InitProducerId, DeleteRecords, DescribeProducers and OffsetForLeaderEpoch on a broker in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
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
from kwire.codec.records import Record, build_batch
from kwire.handlers.context import RequestContext
from kwire.handlers.data import delete_records, offset_for_leader_epoch
from kwire.handlers.topics import create_topics
from kwire.handlers.transactions import describe_producers, init_producer_id
from kwire.server.broker import Broker

NOW_MS = int(time.time() * 1000)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path)) as broker:
        for name in ("t", "__consumer_offsets"):
            if name not in broker.services.image.topics:
                topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
                request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
                assert (await call(create_topics, request, broker, 7)).topics[0].error_code == 0
        yield broker


async def call(module: Any, request: Any, broker: Broker, version: int) -> Any:
    context = RequestContext(broker.services, api_key=int(module.API.key), api_version=version)
    try:
        return await resolved(module.API.handle(request, context))
    except KafkaError as error:  # as the dispatcher does
        return module.API.error_response(request, version, error.code, error.message)


async def producer_id(broker: Broker, **fields: Any) -> Any:
    request = InitProducerIdRequest(**{"transactional_id": None, "transaction_timeout_ms": 1, **fields})
    return await call(init_producer_id, request, broker, 5)


async def test_ids_are_in_order_and_waiting_requests_share_one_block(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocated: list[range] = []
    allocate = broker.services.controller.allocate_producer_ids

    async def counted() -> range:
        allocated.append(await allocate())
        return allocated[-1]

    monkeypatch.setattr(broker.services.controller, "allocate_producer_ids", counted)
    responses = await asyncio.gather(*(producer_id(broker) for _ in range(1500)))
    assert sorted(each.producer_id for each in responses) == [*allocated[0], *allocated[1][:500]]
    assert len(allocated) == 2
    assert {each.producer_epoch for each in responses} == {0}


async def test_ids_are_never_given_again_after_a_restart(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path)) as broker:
            seen += [(await producer_id(broker)).producer_id for _ in range(3)]
    assert len(set(seen)) == 6


async def test_without_a_block_a_producer_gets_a_retriable_error(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away() -> range:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    with monkeypatch.context() as patched:
        patched.setattr(broker.services.controller, "allocate_producer_ids", away)
        responses = await asyncio.gather(*(producer_id(broker) for _ in range(3)))
        assert {each.error_code for each in responses} == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert (await producer_id(broker)).error_code == 0


async def test_one_client_that_goes_away_does_not_spoil_the_block_for_others(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = asyncio.Event()
    allocate = broker.services.controller.allocate_producer_ids

    async def slow() -> range:
        await held.wait()
        return await allocate()

    monkeypatch.setattr(broker.services.controller, "allocate_producer_ids", slow)
    first, second = (asyncio.ensure_future(producer_id(broker)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    held.set()
    assert (await second).error_code == 0


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"producer_id": 5}, "INVALID_REQUEST"),
        ({"producer_epoch": 5}, "INVALID_REQUEST"),
        ({"producer_id": 5, "producer_epoch": 5}, "NONE"),
        ({"transactional_id": ""}, "INVALID_REQUEST"),
        ({"transactional_id": "x", "transaction_timeout_ms": 900_001}, "INVALID_TRANSACTION_TIMEOUT"),
        ({"transactional_id": "x"}, "NOT_COORDINATOR"),
    ],
)
async def test_which_requests_get_a_producer_id(broker: Broker, fields: dict[str, Any], error: str) -> None:
    response = await producer_id(broker, **fields)
    assert ErrorCode(response.error_code).name == error
    assert (response.producer_id >= 0) == (error == "NONE")


def append(broker: Broker, *values: bytes, **options: Any) -> None:
    records = build_batch([Record(timestamp=NOW_MS, value=value) for value in values], **options)
    broker.replicas.partition("t", 0).append(memoryview(bytearray(records)), required_acks=1)


async def test_deleting_moves_the_start_and_never_back(broker: Broker) -> None:
    append(broker, b"a", b"b", b"c")

    async def delete(offset: int, topic: str = "t", index: int = 0) -> tuple[str, int]:
        partition = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=1)
        result = (await call(delete_records, request, broker, 2)).topics[0].partitions[0]
        return ErrorCode(result.error_code).name, result.low_watermark

    assert await delete(2) == ("NONE", 2)
    assert await delete(1) == ("NONE", 2)
    assert await delete(4) == ("OFFSET_OUT_OF_RANGE", -1)
    assert await delete(-1) == ("NONE", 3)
    assert await delete(0, "__consumer_offsets") == ("INVALID_TOPIC_EXCEPTION", -1)
    assert await delete(0, "t", 9) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)


async def test_a_partition_lists_its_producers(broker: Broker) -> None:
    append(broker, b"a", b"b", producer_id=7, producer_epoch=2, base_sequence=0)
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1, 5])])
    partitions = (await call(describe_producers, request, broker, 0)).topics[0].partitions
    assert [each.error_code for each in partitions] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (producer,) = partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 2, 1)
    assert (producer.last_timestamp, producer.current_txn_start_offset) == (NOW_MS, -1)
    assert partitions[1].active_producers == []


async def test_a_leader_epoch_ends_where_the_log_does_while_it_lasts(broker: Broker) -> None:
    append(broker, b"a", b"b")

    async def end(epoch: int, current: int = -1) -> tuple[str, int, int]:
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])])
        result = (await call(offset_for_leader_epoch, request, broker, 4)).topics[0].partitions[0]
        return ErrorCode(result.error_code).name, result.leader_epoch, result.end_offset

    assert await end(0) == ("NONE", 0, 2)
    assert await end(3) == ("NONE", -1, -1)
    assert await end(0, current=5) == ("UNKNOWN_LEADER_EPOCH", -1, -1)
    assert await end(0, current=-2) == ("FENCED_LEADER_EPOCH", -1, -1)


DELETION = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=3)])
QUESTION = OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=3)])


@pytest.mark.parametrize(
    ("module", "request_"),
    [
        (delete_records, DeleteRecordsRequest(topics=[DELETION])),
        (describe_producers, DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[3])])),
        (offset_for_leader_epoch, OffsetForLeaderEpochRequest(topics=[QUESTION])),
    ],
)
def test_a_failed_request_has_the_error_for_every_partition(module: Any, request_: Any) -> None:
    response = module.API.error_response(request_, module.API.served[1], ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert [each.error_code for each in response.topics[0].partitions] == [-1]
