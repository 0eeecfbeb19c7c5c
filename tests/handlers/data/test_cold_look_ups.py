"""Look-ups by time in data that is not in the page cache: a thread reads it before the look-up."""

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
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.list_offsets_response import ListOffsetsResponse
from kwire.codec.records import Record, build_batch
from kwire.handlers.context import RequestContext
from kwire.handlers.data import list_offsets
from kwire.handlers.topics import create_topics
from kwire.server.broker import Broker

NOW_MS = 1_790_000_000_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path)) as broker:
        new = CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)], timeout_ms=5000
        )
        await create_topics.handle(new, RequestContext(broker.services, api_version=7))
        log = broker.replicas.partition("t", 0).log
        log.update_config(dataclasses.replace(log.config, segment_bytes=9000, index_interval_bytes=100))
        for number in range(12):
            records = build_batch([Record(timestamp=NOW_MS + number, value=bytes(2000))])
            broker.replicas.partition("t", 0).append(memoryview(bytearray(records)), required_acks=-1)
        assert len(log.segments) == 3
        yield broker


class Reads:
    """What is read from now on, and on which thread; ``is_cold``: what RWF_NOWAIT says."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_cold = True
        self.by_thread: list[str] = []
        files = broker.doors.files
        pread, read = files.pread, files.read

        def spied_pread(fd: int, size: int, position: int) -> bytes:
            self._note(f"{size} bytes")
            return pread(fd, size, position)

        def spied_read(path: Any) -> bytes:
            self._note(os.path.splitext(str(path))[1])
            return read(path)

        def preadv(*_: Any) -> int:
            if self.is_cold:
                raise BlockingIOError
            return 1

        monkeypatch.setattr(files, "pread", spied_pread)
        monkeypatch.setattr(files, "read", spied_read)
        monkeypatch.setattr(files, "preadv", preadv)
        monkeypatch.setattr(files, "RWF_NOWAIT", 8)

    def _note(self, what: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.by_thread.append(what)


def look_up(broker: Broker, timestamp: int) -> Any:
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    return list_offsets.handle(ListOffsetsRequest(topics=[topic]), RequestContext(broker.services, api_version=7))


def offset_of(response: Any) -> int:
    assert isinstance(response, ListOffsetsResponse)
    (part,) = response.topics[0].partitions
    assert not part.error_code
    return part.offset


@pytest.mark.parametrize(("timestamp", "offset"), [(NOW_MS + 5, 5), (NOW_MS, 0), (list_offsets.MAX_TIMESTAMP, 11)])
async def test_a_thread_reads_what_a_look_up_needs(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, timestamp: int, offset: int
) -> None:
    segments = broker.replicas.partition("t", 0).log.segments
    before = sum(segment.file.users for segment in segments)  # of sealed segments that are being synced
    reads = Reads(broker, monkeypatch)
    waiting = look_up(broker, timestamp)
    assert asyncio.iscoroutine(waiting)
    assert offset_of(await waiting) == offset
    assert any(each.endswith("bytes") for each in reads.by_thread)
    assert sum(segment.file.users for segment in segments) <= before


async def test_what_is_cached_is_answered_at_once(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(broker, monkeypatch)
    reads.is_cold = False
    for timestamp in (NOW_MS + 5, list_offsets.MAX_TIMESTAMP):
        await resolved(look_up(broker, timestamp))  # loads the indexes
    reads.by_thread.clear()
    for timestamp, offset in ((NOW_MS + 5, 5), (list_offsets.MAX_TIMESTAMP, 11), (-1, 12), (-2, 0)):
        assert offset_of(look_up(broker, timestamp)) == offset
    assert reads.by_thread == []


async def test_index_files_that_are_not_loaded_are_read_first(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    log = broker.replicas.partition("t", 0).log
    for segment in log.segments[:-1]:
        segment.index.unload()
        segment.time_index.unload()
        segment._max_timestamp = None
    reads = Reads(broker, monkeypatch)
    assert offset_of(await look_up(broker, NOW_MS + 5)) == 5
    assert ".timeindex" in reads.by_thread and ".index" in reads.by_thread


async def test_the_ends_of_a_log_read_nothing(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(broker, monkeypatch)
    assert [offset_of(look_up(broker, each)) for each in (-1, -2)] == [12, 0]
    assert reads.by_thread == []


async def test_what_cannot_be_read_is_the_look_ups_error(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    Reads(broker, monkeypatch)
    waiting = look_up(broker, NOW_MS + 5)

    def failing(*_: Any) -> bytes:
        raise OSError(5, "broken")

    monkeypatch.setattr(broker.doors.files, "pread", failing)
    (part,) = (await waiting).topics[0].partitions
    assert part.error_code
