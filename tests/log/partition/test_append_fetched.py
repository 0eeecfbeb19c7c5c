"""What a follower has fetched is written with one call, and the log is as if its batches had come one by one."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from kwire.base.doors import Doors
from kwire.codec.records import ABORT, COMMIT, build_control_batch, iter_headers
from kwire.log.common.append_info import Origin
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import LogConfig
from kwire.log.partition.partition_log import PartitionLog
from tests.log.log_tools import NOW_MS, Writes, append, batch, content, fails, open_log


def sent_by(leader: PartitionLog) -> bytes:
    return content(leader.read(0, 1 << 20, upto=leader.log_end_offset))


def one_by_one(log: PartitionLog, sent: bytes) -> None:
    for position, header in iter_headers(sent):
        log.append_as_follower(sent[position : position + header.size])


def state(log: PartitionLog) -> dict[str, Any]:
    """All that an append changes."""
    log.advance_high_watermark(log.log_end_offset)
    return {
        "segments": [(each.base_offset, each.size) for each in log.segments],
        "indexes": [(bytes(each.index.data), bytes(each.time_index.data)) for each in log.segments],
        "timestamps": [(each.first_timestamp, each.max_timestamp) for each in log.segments],
        "content": [path.read_bytes() for path in sorted(Path(log.directory).glob("*.log"))],
        "end": (log.log_end_offset, log.producer_state.map_end_offset, log.last_stable_offset),
        "epochs": log.epochs.entries,
        "aborted": log.aborted_transactions(0, log.log_end_offset),
    }


def test_batches_of_one_epoch_are_one_write(tmp_path: Path) -> None:
    leader, files = open_log(tmp_path / "a"), Writes()
    follower = open_log(tmp_path / "b", env=LogEnvironment.create(Doors(files=files)))
    for count in (1, 3, 2):
        append(leader, count, epoch=4, size=5000)
    first, *rest = (header.size for _, header in iter_headers(sent_by(leader)))
    follower.append_as_follower(sent_by(leader)[:first])
    files.sizes.clear()
    info = follower.append_as_follower(sent_by(leader)[first:] + sent_by(leader)[:50])  # with a cut batch at the end
    assert files.sizes == [sum(rest)]
    assert (info.first_offset, info.last_offset, info.leader_epoch, info.size) == (1, 5, 4, sum(rest))
    assert state(follower) == state(leader)


def test_an_epoch_is_noted_before_its_first_batch_is_written(tmp_path: Path) -> None:
    leader, files = open_log(tmp_path / "a"), Writes()
    follower = open_log(tmp_path / "b", env=LogEnvironment.create(Doors(files=files)))
    for epoch in (1, 1, 3, 3):
        append(leader, 2, epoch=epoch)
    follower.append_as_follower(sent_by(leader)[: leader.size // 2])
    files.failing = frozenset([len(files.sizes) + 1])  # the first batch of epoch 3, after the file of epochs
    assert fails(lambda: follower.append_as_follower(sent_by(leader)[leader.size // 2 :])) == "KAFKA_STORAGE_ERROR"
    assert follower.log_end_offset == 4
    assert follower.epochs.entries == leader.epochs.entries


def test_of_a_write_that_fails_nothing_is_there(tmp_path: Path) -> None:
    leader, files = open_log(tmp_path / "a"), Writes()
    follower = open_log(tmp_path / "b", env=LogEnvironment.create(Doors(files=files)))
    append(leader, 2)
    one_by_one(follower, sent_by(leader))
    before = state(follower)
    for _ in range(3):
        append(leader, 2)
    fetched = sent_by(leader)[follower.size :]
    files.failing = frozenset([len(files.sizes)])
    assert fails(lambda: follower.append_as_follower(fetched)) == "KAFKA_STORAGE_ERROR"
    assert state(follower) == before
    follower.append_as_follower(fetched)
    assert state(follower) == state(leader)


@pytest.mark.parametrize("index_bytes", [LogConfig().segment_index_bytes, 24, 96])
@pytest.mark.parametrize("seed", range(8))
def test_the_log_is_as_if_batches_had_come_one_by_one(tmp_path: Path, seed: int, index_bytes: int) -> None:
    random = Random(seed)
    config = LogConfig(segment_bytes=random.choice([30_000, 300_000]), segment_index_bytes=index_bytes)
    leader = open_log(tmp_path / "leader")
    grouped, single = (open_log(tmp_path / name, config) for name in ("grouped", "single"))
    epoch, sequences = 0, {7: 0, 8: 0}
    for _ in range(20):
        start = leader.log_end_offset
        for _ in range(random.randint(1, 6)):
            epoch += random.random() < 0.1
            producer, count = random.choice([7, 8, -1, -1]), random.randint(1, 3)
            how: dict[str, Any] = {}
            if producer >= 0:
                how = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences[producer]}
                how["is_transactional"] = producer == 8
                sequences[producer] += count
            size, timestamp = random.choice([10, 9000]), NOW_MS + random.randint(-5, 5)
            append(leader, count, epoch=epoch, size=size, timestamp=timestamp, **how)
            if producer == 8 and random.random() < 0.5:
                end = random.choice([COMMIT, ABORT])
                marker = build_control_batch(
                    end, producer_id=8, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
                )
                leader.append_as_leader(bytearray(marker), leader_epoch=epoch, origin=Origin.COORDINATOR)
                leader.advance_high_watermark(leader.log_end_offset)
        fetched = content(leader.read(start, 1 << 20, upto=leader.log_end_offset))
        grouped.append_as_follower(fetched)
        one_by_one(single, fetched)
        assert state(grouped) == state(single)
    assert len(grouped.segments) > 1
    assert grouped.epochs.entries == leader.epochs.entries
    assert len(grouped.aborted_transactions(0, grouped.log_end_offset)) > 0


def test_a_segment_ends_before_a_batch_that_is_too_far_from_its_base(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log)
    near, far = (bytearray(batch(1, base_offset=offset, partition_leader_epoch=0)) for offset in (1, 2**31))
    log.append_as_follower(near + far)
    assert [each.base_offset for each in log.segments] == [0, 2]


def test_batches_that_overlap_are_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first, second = (bytearray(batch(3, base_offset=offset, partition_leader_epoch=0)) for offset in (0, 2))
    assert fails(lambda: log.append_as_follower(first + second)) == "OFFSET_OUT_OF_RANGE"
    assert log.log_end_offset == 0


def test_a_segment_that_is_too_old_for_a_batch_ends_before_it(tmp_path: Path) -> None:
    leader = open_log(tmp_path / "a")
    for later_ms in (0, 1, 2000, 2001):
        append(leader, timestamp=NOW_MS + later_ms)
    follower = open_log(tmp_path / "b", LogConfig(segment_ms=1000))
    sizes = [header.size for _, header in iter_headers(sent_by(leader))]
    follower.append_as_follower(sent_by(leader)[: sizes[0]])
    follower.append_as_follower(sent_by(leader)[sizes[0] :])
    assert [each.base_offset for each in follower.segments] == [0, 2]
