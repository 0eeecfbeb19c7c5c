"""Large batches that the broker compresses anew: elsewhere, with the outcome that the event loop would have had."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwire.base.futures import resolved
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.protocol import decode, encode
from kwire.codec.records import Record, build_batch, parse_header
from kwire.handlers.context import Decisions, RequestContext
from kwire.handlers.data.produce import fast_path
from kwire.handlers.data.produce import handler as produce
from kwire.handlers.topics import create_topics
from kwire.log.partition import validator
from kwire.server.broker import Broker

NOW_MS = 1_790_000_000_000
LARGE = 60_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path)) as broker:
        new = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "ab"], timeout_ms=5000
        )
        await create_topics.handle(new, RequestContext(broker.services, api_version=7))
        for name in "ab":
            log = broker.replicas.partition(name, 0).log
            log.update_config(dataclasses.replace(log.config, compression_type="zstd"))
        yield broker


def batch(size: int = LARGE, **options: Any) -> bytes:
    values = [os.urandom(50) * (size // 500) for _ in range(10)]
    return build_batch([Record(timestamp=NOW_MS, value=value) for value in values], **options)


def request_for(topic: str, records: bytes) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def handled(broker: Broker, topic: str, records: bytes) -> tuple[Any, RequestContext]:
    request, _ = decode(ProduceRequest, 9, memoryview(bytearray(encode(request_for(topic, records), 9))))
    context = RequestContext(broker.services, api_key=0, api_version=9)
    return produce.API.handle(request, context), context


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The thread of each walk over records in this process."""
    seen: list[str] = []
    walk = validator.walk

    def spied(*arguments: Any) -> Any:
        seen.append(threading.current_thread().name)
        return walk(*arguments)

    monkeypatch.setattr(validator, "walk", spied)
    return seen


async def test_another_process_compresses_a_large_batch(broker: Broker, walks: list[str]) -> None:
    records = batch()
    waiting, context = handled(broker, "a", records)
    assert asyncio.iscoroutine(waiting) and context.exclusive
    response = await waiting
    assert response.responses[0].partition_responses[0].base_offset == 0
    assert walks == []
    broker.replicas.partition("b", 0).append(memoryview(bytearray(records)), required_acks=-1)  # on the loop
    logs = [broker.replicas.partition(name, 0).log for name in "ab"]
    contents = [broker.doors.files.read(log.active.file.path) for log in logs]
    assert contents[0] == contents[1]
    assert parse_header(contents[0]).compression == 4


async def test_what_need_not_be_compressed_anew_is_appended_at_once(broker: Broker, walks: list[str]) -> None:
    for records in (batch(compression=4), batch(5000)):
        response, _ = handled(broker, "a", records)
        assert response.responses[0].partition_responses[0].error_code == 0
    assert walks == ["MainThread"]  # the small one


@pytest.mark.parametrize("size", [5000, LARGE])
async def test_a_batch_that_is_refused_gets_the_error_of_the_append(broker: Broker, size: int) -> None:
    damaged = bytearray(batch(size))
    damaged[-1] ^= 1
    future = build_batch([Record(timestamp=9 * NOW_MS, value=os.urandom(size // 2))] * 2)
    for records, code, named in ((damaged, 2, 0), (future, 32, 2)):
        response = await resolved(handled(broker, "a", bytes(records))[0])
        part = response.responses[0].partition_responses[0]
        assert (part.error_code, len(part.record_errors)) == (code, named)
    assert broker.replicas.partition("a", 0).log_end_offset == 0


async def test_an_old_producer_writes_to_a_topic_whose_compression_it_does_not_know(broker: Broker) -> None:
    for size in (5000, LARGE):
        context = RequestContext(broker.services, api_key=0, api_version=3)
        request, _ = decode(ProduceRequest, 3, memoryview(bytearray(encode(request_for("a", batch(size)), 3))))
        response: Any = await resolved(produce.API.handle(request, context))
        assert response.responses[0].partition_responses[0].error_code == 0


async def test_the_fast_path_leaves_it_to_the_handler(broker: Broker) -> None:
    for records, expected in ((batch(), False), (batch(5000), True), (batch(compression=4), True)):
        frame = memoryview(bytearray(encode(request_for("a", records), 9)))
        append = fast_path.of_version(9)(frame, 0, 9, 1, broker.services, Decisions())
        assert (append is not None) is expected


async def test_settings_that_need_a_walk_anyway_keep_it_on_the_loop(broker: Broker) -> None:
    log = broker.replicas.partition("a", 0).log
    for options in ({"cleanup_policy": ("compact",)}, {"message_timestamp_type": "LogAppendTime"}):
        log.update_config(dataclasses.replace(log.config, **options))
        assert log.recompression(memoryview(batch())) is None
