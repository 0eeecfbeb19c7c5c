"""Batches that come at once are written together, with the outcomes that each would have by itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kwire.base.doors import Doors
from kwire.base.errors import KafkaError
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.partition.partition_log import PartitionLog
from kwire.log.segment.segment import JOINED_BYTES
from tests.log.log_tools import Writes, append, batch, open_log, read_all

MAX_SEQUENCE = 2**31 - 1


Logs = Callable[..., PartitionLog]


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """Opens logs, each in a directory of its own."""
    numbers = itertools.count()

    def make(config: LogConfig | None = None, **how: Any) -> PartitionLog:
        return open_log(tmp_path / str(next(numbers)), config, **how)

    return make


def log_on(logs: Logs, files: Writes, config: LogConfig | None = None) -> PartitionLog:
    """A log with one record, whose later writes are noted."""
    log = logs(config, env=LogEnvironment.create(Doors(files=files)))
    append(log, size=9000)
    files.sizes.clear()
    return log


def of_producer(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, size: int = 5000) -> bytearray:
    return batch(count, size=size, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def outcome(info: Any) -> Any:
    if isinstance(info, KafkaError):
        return info.code.name
    return "duplicate" if info.duplicate else (info.first_offset, info.last_offset)


def together(log: PartitionLog, *batches: bytearray) -> list[Any]:
    return [outcome(info) for info in log.append_together([memoryview(each) for each in batches], leader_epoch=0)]


def one_by_one(log: PartitionLog, *batches: bytearray) -> list[Any]:
    found = []
    for each in batches:
        try:
            found.append(outcome(log.append_as_leader(memoryview(each), leader_epoch=0)))
        except KafkaError as error:
            found.append(error.code.name)
    return found


def test_batches_of_one_producer_are_one_write(logs: Logs) -> None:
    files = Writes()
    log = log_on(logs, files)
    batches = [of_producer(0, 3), of_producer(3), of_producer(4, 2)]
    assert together(log, *batches) == [(1, 3), (4, 4), (5, 6)]
    assert files.sizes == [sum(map(len, batches))] and files.sizes[0] > JOINED_BYTES
    assert together(log, of_producer(6), of_producer(7)) == [(7, 7), (8, 8)]
    log.advance_high_watermark(log.log_end_offset)
    assert [base for base, _ in read_all(log)] == [0, 1, 4, 5, 7, 8]


def test_sequences_of_one_producer_wrap_within_a_write(logs: Logs) -> None:
    files = Writes()
    log = log_on(logs, files)
    assert together(log, of_producer(MAX_SEQUENCE - 1, 2), of_producer(0)) == [(1, 2), (3, 3)]
    assert len(files.sizes) == 1


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        pytest.param(
            lambda: [of_producer(0), of_producer(0), of_producer(1)], [(0, 0), "duplicate", (1, 1)], id="duplicate"
        ),
        pytest.param(lambda: [of_producer(0), of_producer(2)], [(0, 0), "OUT_OF_ORDER_SEQUENCE_NUMBER"], id="gap"),
        pytest.param(
            lambda: [of_producer(0), spoilt(of_producer(1)), of_producer(2)],
            [(0, 0), "CORRUPT_MESSAGE", "OUT_OF_ORDER_SEQUENCE_NUMBER"],
            id="the one between is refused",
        ),
        pytest.param(
            lambda: [of_producer(0, epoch=1), of_producer(1, epoch=0)], [(0, 0), "INVALID_PRODUCER_EPOCH"], id="epochs"
        ),
        pytest.param(
            lambda: [of_producer(0), of_producer(1, epoch=1)],
            [(0, 0), "OUT_OF_ORDER_SEQUENCE_NUMBER"],
            id="a new epoch begins with 0",
        ),
    ],
)
def test_batches_that_do_not_follow_each_other_are_checked(
    logs: Logs, batches: Callable[[], list[bytearray]], expected: list[Any]
) -> None:
    assert together(logs(), *batches()) == expected
    assert one_by_one(logs(), *batches()) == expected


def spoilt(data: bytearray) -> bytearray:
    data[-1] ^= 1
    return data


@pytest.mark.parametrize("index_bytes", [LogConfig().segment_index_bytes, 24])
@pytest.mark.parametrize("seed", range(30))
def test_outcomes_are_those_of_one_append_after_the_other(logs: Logs, seed: int, index_bytes: int) -> None:
    random = Random(seed)
    config = LogConfig(segment_bytes=100_000, segment_index_bytes=index_bytes)
    grouped, single = logs(config), logs(config)
    following = {7: 0, 8: MAX_SEQUENCE - 5, -1: -1}
    for _ in range(20):
        batches = []
        for _ in range(random.randint(1, 6)):
            producer, count = random.choice([7, 7, 7, 8, -1]), random.randint(1, 3)
            sequence = following[producer]
            if producer >= 0:
                slip = random.choice([0] * 8 + [1, -count])
                sequence = (sequence + slip) & MAX_SEQUENCE
                if not slip:
                    following[producer] = (sequence + count) & MAX_SEQUENCE
            epoch, size = min(producer, 0), random.choice([10, 9000])
            batches.append(of_producer(sequence, count, producer=producer, epoch=epoch, size=size))
        if random.random() < 0.2:
            spoilt(random.choice(batches))
        assert together(grouped, *map(bytearray, batches)) == one_by_one(single, *batches)
        assert grouped.producer_state.map_end_offset == single.producer_state.map_end_offset == single.log_end_offset
    for log in (grouped, single):
        log.advance_high_watermark(log.log_end_offset)
    assert read_all(grouped) == read_all(single)
    assert len(grouped.segments) == len(single.segments) > 1
    for first, second in zip(grouped.segments, single.segments, strict=True):
        assert first.size == second.size and first.index.data == second.index.data


def test_nothing_follows_a_batch_that_failed_when_the_log_rolled(logs: Logs) -> None:
    files = Writes()
    log = log_on(logs, files, LogConfig(segment_bytes=20_000))
    files.failing = frozenset([1])
    assert together(log, *(of_producer(each, size=9000) for each in range(3))) == [
        (1, 1),
        "KAFKA_STORAGE_ERROR",
        "KAFKA_STORAGE_ERROR",
    ]
    assert log.log_end_offset == 2


def test_a_short_write_is_completed(logs: Logs) -> None:
    for short in (1, 6000, 12_000):
        files = Writes()
        log = log_on(logs, files)
        files.short = short
        assert together(log, of_producer(0), of_producer(1), of_producer(2)) == [(1, 1), (2, 2), (3, 3)]
        assert len(files.sizes) == 2
        assert one_by_one(log, of_producer(2), of_producer(3)) == ["duplicate", (4, 4)]
        log.advance_high_watermark(log.log_end_offset)
        assert [base for base, _ in read_all(log)] == [0, 1, 2, 3, 4]
