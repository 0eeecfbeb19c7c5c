"""Fetch requests about very many partitions: they take turns with others, and give what smaller ones give."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import until
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.file_range import FileRange
from kwire.base.futures import resolved
from kwire.cluster.replication.partition import Partition
from kwire.cluster.store.keys import PartitionState
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.fetch_response import FetchResponse
from kwire.codec.protocol import encode_parts
from kwire.codec.records import Record, build_batch
from kwire.handlers.context import RequestContext
from kwire.handlers.data.fetch import handler, large, partitions
from kwire.handlers.data.fetch.fetched_partition import records_size
from kwire.handlers.topics import create_topics
from kwire.log.segment import segment
from kwire.server.broker import Broker

VERSION = 12
PARTITIONS = 12
FOLLOWER = 99
LONG_MS = 60_000
"""Nothing here waits for so long."""


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path)) as broker:
        topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        context = RequestContext(broker.services, api_key=19, api_version=7)
        assert not (await resolved(create_topics.API.handle(request, context))).topics[0].error_code
        yield broker


@contextmanager
def slices_of(size: int) -> Iterator[None]:
    """Every request is large, and its slices have so many partitions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "LARGE_PARTITIONS", 0)
        patch.setattr(partitions, "SLICE_PARTITIONS", size)
        patch.setattr(large, "SLICE_PARTITIONS", size)
        yield


def log_of(broker: Broker, index: int) -> Partition:
    return broker.replicas.partition("t", index)


def append(broker: Broker, index: int, size: int = 10) -> None:
    data = build_batch([Record(timestamp=1_790_000_000_000, value=b"v" * size)])
    log_of(broker, index).append(memoryview(bytearray(data)), required_acks=1)


def request(*, offsets: dict[int, int] | None = None, **options: Any) -> FetchRequest:
    wanted = dict.fromkeys(range(PARTITIONS), 0) if offsets is None else offsets
    parts = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index, offset in wanted.items()
    ]
    fields = {"max_wait_ms": LONG_MS, "min_bytes": 1, "max_bytes": 1 << 22, "session_epoch": -1, **options}
    return FetchRequest(topics=[FetchTopic(topic="t", partitions=parts)] if parts else [], **fields)


def begin(broker: Broker, asked: FetchRequest) -> tuple[Any, RequestContext]:
    context = RequestContext(broker.services, api_key=1, api_version=VERSION)
    return handler.API.handle(asked, context), context


async def ask(broker: Broker, asked: FetchRequest) -> FetchResponse:
    response: FetchResponse = await asyncio.wait_for(resolved(begin(broker, asked)[0]), 20)
    return response


def listeners(broker: Broker) -> int:
    return sum(len(log_of(broker, index)._listeners) for index in range(PARTITIONS))


def content(broker: Broker, response: FetchResponse) -> list[tuple[int, int, int]]:
    """Partition, error and size of the records of each; the ranges are released."""
    found = []
    for data in response.responses[0].partitions if response.responses else []:
        found.append((data.partition_index, data.error_code, records_size(data.records)))
        if isinstance(data.records, FileRange):
            data.records.release()
    return found


async def turns_of(step: int) -> None:
    for _ in range(step):
        await asyncio.sleep(0)


@pytest.mark.parametrize("size", [1, 5, 100])
async def test_the_response_is_that_of_one_turn(broker: Broker, size: int) -> None:
    for index in (1, 3, 4):
        append(broker, index)
    append(broker, 7, size=30_000)  # a range of the file
    wanted = dict.fromkeys([*range(PARTITIONS), 77], 0) | {5: 9}  # one is unknown, one outside the log
    whole = await ask(broker, request(offsets=wanted))
    with slices_of(size):
        response, context = begin(broker, request(offsets=wanted))
        sliced = await response
    assert context.charged is not None

    def joined(parts: list[Any]) -> bytes:
        return b"".join(b"<%d>" % part.size if isinstance(part, FileRange) else bytes(part) for part in parts)

    assert joined(context.charged) == joined(encode_parts(whole, VERSION))
    assert content(broker, sliced) == content(broker, whole)


async def test_others_get_their_turn_between_slices(broker: Broker) -> None:
    append(broker, 0)
    with slices_of(1):
        fetching = asyncio.ensure_future(begin(broker, request())[0])
        turns = 0
        while not fetching.done():
            await asyncio.sleep(0)
            turns += 1
    assert turns > 1.5 * PARTITIONS  # read, and put into the response
    content(broker, fetching.result())


async def test_it_waits_until_there_is_enough(broker: Broker) -> None:
    with slices_of(2):
        fetching = asyncio.ensure_future(begin(broker, request(min_bytes=100))[0])
        await until(lambda: listeners(broker) == PARTITIONS)
        append(broker, 3)
        await turns_of(10)
        assert not fetching.done()
        append(broker, 9, size=100)
        sizes = content(broker, await asyncio.wait_for(fetching, 20))
        assert [index for index, _, size in sizes if size] == [3, 9]
        await until(lambda: listeners(broker) == 0)


async def test_it_ends_after_its_time_with_what_there_is(broker: Broker) -> None:
    with slices_of(2):
        append(broker, 3)
        sizes = content(broker, await ask(broker, request(min_bytes=1000, max_wait_ms=30)))
    assert [index for index, _, size in sizes if size] == [3]
    await until(lambda: listeners(broker) == 0)


@pytest.mark.parametrize("turns", range(0, 3 * PARTITIONS, 5))
async def test_no_append_between_slices_is_missed(broker: Broker, turns: int) -> None:
    with slices_of(1):
        fetching = asyncio.ensure_future(begin(broker, request())[0])
        await turns_of(turns)
        append(broker, 0)  # has been read, after the first turns
        sizes = content(broker, await asyncio.wait_for(fetching, 20))
    assert [index for index, _, size in sizes if size] == [0]


async def test_the_failure_of_a_partition_between_slices_is_not_missed(broker: Broker) -> None:
    with slices_of(1):
        fetching = asyncio.ensure_future(begin(broker, request())[0])
        await turns_of(4)
        log_of(broker, 0).fail()
        errors = [error for _, error, _ in content(broker, await asyncio.wait_for(fetching, 20))]
    assert errors[0] == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_client_that_goes_away_leaves_nothing_behind(broker: Broker) -> None:
    append(broker, 0, size=segment.SMALL_READ + 1)
    file = log_of(broker, 0).log.active.file
    for turns in (1, 5, PARTITIONS + 5, 200):
        with slices_of(1):
            fetching = asyncio.ensure_future(begin(broker, request(min_bytes=1 << 20))[0])
            await turns_of(turns)
            assert not fetching.done()
            fetching.cancel()
            await asyncio.wait([fetching])
        await until(lambda: listeners(broker) == 0)
        assert file.users == 0


# -- followers


def with_follower(broker: Broker) -> None:
    """Give every partition a second replica."""
    for index in range(PARTITIONS):
        partition = log_of(broker, index)
        state = {name: getattr(partition, name) for name in ("leader", "leader_epoch")}
        replicas = (partition.leader, FOLLOWER)
        epoch = partition.partition_epoch + 1
        partition.update(PartitionState(**state, partition_epoch=epoch, replicas=replicas, isr=replicas))


async def open_session(broker: Broker) -> int:
    response = await ask(broker, request(replica_id=FOLLOWER, session_epoch=0, max_wait_ms=0))
    return response.session_id


def with_a_record_each(session: int, **options: Any) -> FetchRequest:
    """The follower's next request, which says that it has a record of each partition."""
    ends = dict.fromkeys(range(PARTITIONS), 1)
    return request(replica_id=FOLLOWER, session_id=session, session_epoch=1, offsets=ends, **options)


async def test_a_follower_moves_the_high_watermark_and_learns_of_it(broker: Broker) -> None:
    with_follower(broker)
    for index in range(PARTITIONS):
        append(broker, index)
    with slices_of(1):
        session = await open_session(broker)
        response = await ask(broker, with_a_record_each(session, max_wait_ms=0))
    assert {data.high_watermark for data in response.responses[0].partitions} == {1}
    assert {log_of(broker, index).high_watermark for index in range(PARTITIONS)} == {1}


@pytest.mark.parametrize("turns", range(0, 3 * PARTITIONS, 5))
async def test_no_append_is_missed_by_a_waiting_follower(broker: Broker, turns: int) -> None:
    with_follower(broker)
    with slices_of(1):
        session = await open_session(broker)
        asked = request(replica_id=FOLLOWER, session_id=session, session_epoch=1)
        fetching = asyncio.ensure_future(begin(broker, asked)[0])
        await turns_of(turns)
        append(broker, 0)
        sizes = content(broker, await asyncio.wait_for(fetching, 20))
    assert [index for index, _, size in sizes if size] == [0]


@pytest.mark.parametrize("turns", [1, 200])
async def test_a_follower_that_has_sent_its_next_request_does_not_wait(broker: Broker, turns: int) -> None:
    with_follower(broker)
    with slices_of(1):
        session = await open_session(broker)
        asked = request(replica_id=FOLLOWER, session_id=session, session_epoch=1)
        response, context = begin(broker, asked)
        fetching = asyncio.ensure_future(response)
        await turns_of(turns)
        assert not fetching.done()
        assert context.wake_early is not None
        context.wake_early()
        await asyncio.wait_for(fetching, 20)


async def test_a_request_of_an_earlier_session_says_nothing_about_the_follower_any_more(broker: Broker) -> None:
    with_follower(broker)
    for index in range(PARTITIONS):
        append(broker, index)
    with slices_of(1):
        session = await open_session(broker)
        old = asyncio.ensure_future(begin(broker, with_a_record_each(session))[0])
        await turns_of(3)
        await open_session(broker)  # its log was truncated: it has nothing
        with pytest.raises(KafkaError) as failure:
            await asyncio.wait_for(old, 20)
    assert failure.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert log_of(broker, PARTITIONS - 1).high_watermark == 0
