"""Offsets by time, leader epochs, retention, DeleteRecords and truncation."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.base.doors import Files
from kwire.codec.records import Record, build_batch
from kwire.log.common.append_info import TimestampAndOffset
from kwire.log.common.checkpoints import CorruptCheckpoint
from kwire.log.common.log_config import LogConfig
from kwire.log.state.leader_epoch_cache import LeaderEpochCache
from tests.log.log_tools import NOW_MS, ManualClock, append, batch, fails, open_log, read_all

SMALL = LogConfig(internal_segment_bytes=500, index_interval_bytes=100)
KEEP = LogConfig(internal_segment_bytes=500, index_interval_bytes=100, retention_ms=-1)


def test_offsets_by_time_equal_a_search_through_all_records(tmp_path: Path) -> None:
    times = [NOW_MS + (i * 37) % 101 - i % 7 * 20 for i in range(60)]
    log = open_log(tmp_path, SMALL)
    for i in range(0, 60, 3):
        records = [Record(timestamp=t, key=b"k", value=b"v" * 10) for t in times[i : i + 3]]
        log.append_as_leader(bytearray(build_batch(records, compression=i % 5)), leader_epoch=i // 20)
    assert len(log.segments) > 3
    for wanted in range(min(times) - 1, max(times) + 2):
        expected = next((i for i, t in enumerate(times) if t >= wanted), None)
        found = log.offset_for_timestamp(wanted, upto=60)
        if expected is None:
            assert found is None
        else:
            assert found == TimestampAndOffset(times[expected], expected, expected // 3 * 3 // 20)
            assert log.offset_for_timestamp(wanted, upto=expected) is None
    newest = max(times)
    found = log.max_timestamp()
    assert found is not None
    assert (found.timestamp, times[found.offset]) == (newest, newest)


def test_offsets_by_time_ignore_deleted_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 5, timestamp=NOW_MS)
    log.delete_records_before(3)
    assert log.offset_for_timestamp(NOW_MS, upto=5) == TimestampAndOffset(NOW_MS + 3, 3, 0)
    assert log.offset_for_timestamp(0, upto=5) == TimestampAndOffset(NOW_MS + 3, 3, 0)


def test_special_offsets_carry_their_leader_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert (log.earliest(), log.latest(0), log.max_timestamp()) == ((-1, 0, -1), (-1, 0, -1), None)
    append(log, 5, epoch=2)
    append(log, 5, epoch=4)
    log.delete_records_before(3)
    assert log.earliest() == log.earliest_local() == (-1, 3, 2)
    assert log.latest(8) == (-1, 8, 4)
    assert log.latest_tiered() == (-1, -1, -1)
    assert log.max_timestamp() == (NOW_MS + 4, 4, 2)


def test_a_log_without_timestamps_has_no_maximum(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 3, timestamp=-1)
    assert log.max_timestamp() is None


def test_epochs_end_where_the_next_one_begins(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for epoch, count in ((1, 5), (1, 5), (3, 2), (6, 4)):
        append(log, count, epoch=epoch)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(-1, 8)] == [
        (-1, -1), (0, 0), (1, 10), (1, 10), (3, 12), (3, 12), (3, 12), (6, 16), (-1, -1),
    ]  # fmt: skip
    text = (tmp_path / "t-0/leader-epoch-checkpoint").read_text()
    assert text == "0\n3\n1 0\n3 10\n6 12\n"
    log.truncate_to(10)
    assert log.end_offset_for_epoch(1) == (1, 10)
    assert log.epochs.latest_epoch == 1
    append(log, 1, epoch=7)
    assert (tmp_path / "t-0/leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n7 10\n"


def test_epoch_files_that_are_not_ascending_are_corrupt(tmp_path: Path) -> None:
    for text in ("0\n2\n1 5\n1 6\n", "0\n2\n1 5\n2 4\n", "1\n0\n", "0\n1\n", "0\n1\nx y\n"):
        (tmp_path / "leader-epoch-checkpoint").write_text(text)
        with pytest.raises(CorruptCheckpoint):
            LeaderEpochCache.load(Files(), str(tmp_path))


def test_old_segments_are_deleted_by_the_records_time(tmp_path: Path) -> None:
    clock = ManualClock()
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=500, retention_ms=1000), clock=clock)
    for i in range(20):
        append(log, 1, size=50, timestamp=NOW_MS + i * 100)
    clock.now_ms = NOW_MS + 1950
    bases = [segment.base_offset for segment in log.segments]
    log.delete_old_segments()
    assert log.segments[0].base_offset == log.log_start_offset == max(base for base in bases if base <= 9)
    clock.now_ms = NOW_MS + 1_000_000
    log.delete_old_segments()
    assert (log.log_start_offset, log.log_end_offset, log.size) == (20, 20, 0)
    assert not list(tmp_path.glob("t-0/*.deleted"))
    assert append(log, timestamp=clock.now_ms) == 20


def test_old_segments_are_deleted_by_size(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=500, retention_ms=-1, retention_bytes=1500))
    for _ in range(40):
        append(log, 1, size=50)
    log.delete_old_segments()
    assert 1500 <= log.size < 1500 + 500
    assert log.log_start_offset == log.segments[0].base_offset > 0


def test_nothing_beyond_the_high_watermark_is_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(internal_segment_bytes=500, retention_ms=-1, retention_bytes=0))
    for _ in range(20):
        log.append_as_leader(batch(1, size=50), leader_epoch=0)
    log.advance_high_watermark(8)
    log.delete_old_segments()
    assert 0 < log.log_start_offset <= 8


def test_a_compacted_topic_keeps_old_segments(tmp_path: Path) -> None:
    clock = ManualClock()
    log = open_log(
        tmp_path, LogConfig(internal_segment_bytes=500, retention_ms=1, cleanup_policy=("compact",)), clock=clock
    )
    for _ in range(20):
        append(log, 1, size=50)
    clock.now_ms += 10**6
    assert log.delete_old_segments() == 0


def test_deleted_records_stay_deleted_and_their_segments_are_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path, KEEP)
    for _ in range(20):
        append(log, 2, size=50)
    middle = log.segments[2].base_offset
    assert log.delete_records_before(middle + 1) == middle + 1
    assert log.segments[0].base_offset == 0  # the next retention pass takes the files, as in Kafka
    assert log.delete_old_segments() == 2
    assert log.segments[0].base_offset == middle
    assert fails(lambda: log.read(middle, 100, upto=40)) == "OFFSET_OUT_OF_RANGE"
    assert fails(lambda: log.delete_records_before(41)) == "OFFSET_OUT_OF_RANGE"
    assert log.delete_records_before(3) == middle + 1
    log.close()
    again = open_log(tmp_path, KEEP, log_start_offset=middle + 1, high_watermark=40)
    assert again.log_start_offset == middle + 1
    assert again.delete_records_before(-1) == 40


def test_truncation_in_the_middle_of_a_segment_keeps_what_lies_before(tmp_path: Path) -> None:
    log = open_log(tmp_path, KEEP)
    for i in range(20):
        append(log, 2, size=50, timestamp=NOW_MS + i * 10)
    log.truncate_to(13)  # inside the batch 12..13
    assert log.log_end_offset == 13
    assert read_all(log)[-1] == (10, 11)
    assert log.max_timestamp() == (NOW_MS + 51, 11, 0)
    assert append(log, 1) == 13


def test_truncation_below_the_log_start_empties_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, KEEP)
    for _ in range(20):
        append(log, 2, size=50)
    log.delete_records_before(30)
    log.delete_old_segments()
    log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (5, 5, 0)
    assert append(log, 1) == 5
