"""The helper process that compresses batches anew: started, replaced, ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from harness.waiting import until
from kwire.base.doors import Doors
from kwire.base.errors import KafkaError
from kwire.codec.records import Record, build_batch, iter_records, parse_header
from kwire.log.common.log_config import LogConfig
from kwire.log.partition import recompression
from kwire.log.partition.recompression import Recompression, Recompressor

NOW_MS = 1_790_000_000_000
CONFIG = LogConfig(compression_type="lz4", max_message_bytes=5_000_000)


def wanted(values: int = 3, config: LogConfig = CONFIG) -> Recompression:
    records = [Record(timestamp=NOW_MS, value=b"v" * 1000) for _ in range(values)]
    return Recompression(memoryview(bytearray(build_batch(records))), config, "t-0", NOW_MS)


@pytest.fixture
async def recompressor() -> AsyncIterator[Recompressor]:
    made = Recompressor(Doors())
    yield made
    await made.close()


def pid(recompressor: Recompressor) -> int:
    process = recompressor._process
    assert process is not None
    return process.pid


def has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


async def test_batches_of_any_size_go_there_and_back(recompressor: Recompressor) -> None:
    for values in (1, 3000, 20):
        result = await recompressor.run(wanted(values))
        assert parse_header(result).compression == 3 and not result.readonly
        assert len(list(iter_records(result, max_bytes=1 << 24))) == values
        assert recompressor._process is not None and recompressor._process.area is not None
        assert os.fstat(recompressor._process.area).st_size == 0
    assert bytes(result) == bytes(wanted(20).carry_out())


async def test_batches_wait_for_each_other_and_a_client_that_has_gone_leaves_nothing(
    recompressor: Recompressor,
) -> None:
    first, *others = [asyncio.ensure_future(recompressor.run(wanted(each))) for each in (500, 1, 2, 3)]
    await asyncio.sleep(0)
    first.cancel()
    assert [parse_header(each).count for each in await asyncio.gather(*others)] == [1, 2, 3]


async def test_a_process_that_was_killed_is_replaced(recompressor: Recompressor) -> None:
    await recompressor.run(wanted())
    before = pid(recompressor)
    os.kill(before, 9)
    assert parse_header(await recompressor.run(wanted())).compression == 3  # by a thread
    await recompressor.run(wanted())
    assert pid(recompressor) != before


async def test_it_ends_when_there_is_nothing_to_do(recompressor: Recompressor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompression, "IDLE_S", 0.0)
    await recompressor.run(wanted())
    process = pid(recompressor)
    await until(lambda: has_ended(process))
    await recompressor.run(wanted())


async def test_what_waits_when_the_broker_stops_gets_an_error() -> None:
    closed = Recompressor(Doors())
    await closed.run(wanted())
    process = pid(closed)
    waiting = [asyncio.ensure_future(closed.run(wanted(3000))) for _ in range(2)]
    await asyncio.sleep(0)
    await closed.close()
    assert has_ended(process)
    for each in waiting:
        with pytest.raises(KafkaError):
            await each


async def test_a_broker_without_processes_uses_a_thread() -> None:
    alone = Recompressor(Doors(processes=None))
    assert parse_header(await alone.run(wanted())).compression == 3
    with pytest.raises(KafkaError):
        await alone.run(wanted(config=LogConfig(compression_type="lz4", max_message_bytes=100)))
    await alone.close()
