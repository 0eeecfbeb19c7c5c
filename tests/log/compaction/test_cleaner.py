"""Compaction: what is removed, what stays, and when."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.base.doors import Files
from kwire.codec.records import iter_records
from kwire.codec.records.control import ABORT, COMMIT
from kwire.log.common.log_config import LogConfig
from kwire.log.compaction.cleaner import CleanerSettings, Cleaning, LogCleaner, key_of
from kwire.log.compaction.offset_map import ENTRY_BYTES
from kwire.log.compaction.selection import group_segments
from tests.log.compaction.cleaner_tools import COMPACTED, Workshop, final_values, names_in, read_batches
from tests.log.log_tools import NOW_MS, ManualClock, content

DAY_MS = 86_400_000


def config(**changes: Any) -> LogConfig:
    return dataclasses.replace(COMPACTED, **changes)


async def test_only_the_last_record_of_a_key_stays_and_keeps_its_offset(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), roll=True)
    shop.produce((b"b", b"2"), (b"c", b"1"), roll=True)
    assert await shop.clean()
    assert [(each.offset, each.key, each.value) for each in shop.kept()] == [
        (2, b"a", b"2"),
        (3, b"b", b"2"),
        (4, b"c", b"1"),
    ]
    assert not await shop.clean()


async def test_very_many_logs_are_examined_in_several_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.log.compaction.cleaner.LOGS_PER_STEP", 2)
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), (b"a", b"2"), roll=True)
    examined: list[int] = [0]
    between: list[int] = []

    class Counted:
        """Stands for the log, and counts how often it is looked at."""

        def __getattr__(self, name: str) -> Any:
            examined[0] += name == "topic"
            return getattr(shop.log, name)

    async def noted(delay: float) -> None:
        between.append(examined[0])

    cleaner = LogCleaner(shop.env, lambda: [(Counted(), shop.directory)] * 5, CleanerSettings())  # type: ignore[list-item]
    cleaner.checkpoints.load([shop.directory])
    monkeypatch.setattr(asyncio, "sleep", noted)
    chosen = await cleaner.choose()
    assert chosen is not None and chosen[0].log.name == shop.log.name
    assert len(between) == 2 and between[0] < between[1] < examined[0]


def close(shop: Workshop) -> None:
    shop.log.close()


def take(shop: Workshop) -> None:
    shop.cleaner._under_way[key_of(shop.log)] = cast(Cleaning, None)


def give_up(shop: Workshop) -> None:
    shop.cleaner.give_up(shop.log, "another thread has failed")


def stop_compacting(shop: Workshop) -> None:
    shop.log.config = dataclasses.replace(shop.log.config, cleanup_policy=("delete",))


def finish(shop: Workshop) -> None:
    """Another thread has cleaned the log."""
    shop.cleaner.checkpoints.set(shop.directory, key_of(shop.log), shop.log.log_end_offset)


@pytest.mark.parametrize("change", [close, take, give_up, stop_compacting, finish])
async def test_a_log_that_changes_before_the_choice_is_not_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Workshop], None]
) -> None:
    monkeypatch.setattr("kwire.log.compaction.cleaner.LOGS_PER_STEP", 2)
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), (b"a", b"2"), roll=True)
    shop.cleaner._logs = lambda: [(shop.log, shop.directory)] * 2  # after the second one there is a turn
    choice = asyncio.ensure_future(shop.cleaner.choose())
    await asyncio.sleep(0)
    assert not choice.done()
    change(shop)
    assert await choice is None


async def test_the_active_segment_is_never_cleaned(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), (b"a", b"2"), roll=True)
    shop.produce((b"a", b"3"), (b"a", b"4"))
    await shop.settle()
    assert shop.offsets() == [1, 2, 3]


async def test_nothing_beyond_the_last_stable_offset_is_cleaned(tmp_path: Path) -> None:
    """Catches the mutant that cleans beyond it: a record of the open transaction would supersede a, then abort."""
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"old"), roll=True)
    shop.produce((b"a", b"never"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True, roll=True)
    shop.produce((b"b", b"1"), roll=True)
    await shop.settle()
    assert shop.offsets() == [0, 1, 2]
    shop.end_transaction(ABORT, roll=True)
    await shop.settle()
    assert final_values(shop.kept()) == {b"a": b"old", b"b": b"1"}


async def test_nothing_beyond_the_high_watermark_is_cleaned(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), (b"a", b"2"), roll=True)
    from kwire.codec.records import Record, build_batch

    shop.append(build_batch([Record(timestamp=NOW_MS, key=b"a", value=b"3")]), commit=False, roll=True)
    shop.append(build_batch([Record(timestamp=NOW_MS, key=b"a", value=b"4")]), commit=False, roll=True)
    await shop.settle()
    assert shop.offsets() == [1, 2, 3]


async def test_a_tombstone_stays_for_delete_retention_ms_after_its_first_cleaning(tmp_path: Path) -> None:
    clock = ManualClock()
    shop = Workshop(tmp_path, clock=clock)
    shop.produce((b"a", b"1"), (b"b", b"1"), roll=True)
    shop.produce((b"a", None), roll=True)
    await shop.settle()
    assert [(each.offset, each.value) for each in shop.kept()] == [(1, b"1"), (2, None)]
    horizons = [header.delete_horizon_ms for header, _ in read_batches(shop.log)]
    assert horizons == [None, NOW_MS + DAY_MS]
    assert shop.kept()[1].timestamp == NOW_MS  # though the header's base timestamp has changed
    clock.now_ms += DAY_MS - 1
    shop.produce((b"c", b"1"), roll=True)
    await shop.settle()
    assert shop.offsets() == [1, 2, 3]
    clock.now_ms += 1
    shop.produce((b"d", b"1"), roll=True)
    await shop.settle()
    assert shop.offsets() == [1, 3, 4]


async def test_a_transaction_is_removed_first_then_its_marker_after_the_delete_horizon(tmp_path: Path) -> None:
    clock = ManualClock()
    shop = Workshop(tmp_path, clock=clock)
    how: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    shop.produce((b"a", b"1"), base_sequence=0, **how)
    shop.end_transaction(COMMIT, roll=True)  # 1
    shop.produce((b"a", b"2"), base_sequence=1, **how)
    shop.end_transaction(ABORT, roll=True)  # 3
    shop.produce((b"a", b"3"), (b"x", b"1"), roll=True)
    shop.log.producer_state.producers.clear()  # expired: nothing is kept for the producer's sake

    def controls() -> list[tuple[int, int | None]]:
        return [(h.base_offset, h.delete_horizon_ms) for h, _ in read_batches(shop.log) if h.is_control]

    await shop.settle()
    assert shop.offsets() == [4, 5]
    assert controls() == [(1, None), (3, None)]
    assert [each.first_offset for each in shop.log.aborted_transactions(0, 6)] == [2]
    shop.produce((b"y", b"1"), roll=True)
    await shop.settle()
    assert controls() == [(1, NOW_MS + DAY_MS), (3, NOW_MS + DAY_MS)]
    assert shop.log.aborted_transactions(0, 6) == []
    clock.now_ms += DAY_MS
    shop.produce((b"z", b"1"), roll=True)
    await shop.settle()
    assert controls() == []


async def test_aborted_data_supersedes_nothing_and_is_removed(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"good"), roll=True)
    shop.produce((b"a", b"bad"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    shop.end_transaction(ABORT, roll=True)
    await shop.settle()
    assert [(each.offset, each.value) for each in shop.kept()] == [(0, b"good")]


async def test_the_last_batch_of_a_producer_stays_as_a_header_with_its_sequence(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    how: dict[str, Any] = {"producer_id": 9, "producer_epoch": 3}
    shop.produce((b"a", b"1"), (b"b", b"1"), base_sequence=0, **how)
    shop.produce((b"a", b"2"), (b"b", b"2"), base_sequence=2, **how, roll=True)
    shop.produce((b"a", b"3"), (b"b", b"3"), roll=True)
    await shop.settle()
    first = read_batches(shop.log)[0][0]
    assert (first.base_offset, first.last_offset, first.count) == (2, 3, 0)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (9, 3, 2, 3)
    for snapshot in names_in(shop.log, ".snapshot"):
        shop.log.files.unlink(f"{shop.log.directory}/{snapshot}")
    shop.log.release()
    again = Workshop(tmp_path, clean=False)
    entry = again.log.producer_state.producers[9]
    assert (entry.epoch, entry.last_sequence, entry.last_offset) == (3, 3, 3)


async def test_the_last_batch_of_the_cleaned_range_stays_as_a_header(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), roll=True)
    shop.produce((b"a", b"bad"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    shop.end_transaction(ABORT)
    shop.produce((b"b", b"bad"), producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True, roll=True)
    shop.end_transaction(ABORT, 8)
    shop.log.producer_state.producers.clear()
    await shop.settle()
    batches = [(header.base_offset, header.count) for header, _ in read_batches(shop.log)]
    assert batches == [
        (0, 1),
        (2, 1),
        (3, 0),
        (4, 1),
    ]


async def test_a_cleaned_log_can_be_read_across_its_gaps_from_every_offset(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    for i in range(60):
        shop.produce((b"%d" % (i % 4), bytes(30)))
    shop.log.roll()
    await shop.settle()
    left = shop.offsets()
    assert left == [56, 57, 58, 59]
    for offset in range(60):
        data = content(shop.log.read(offset, 100, upto=60))
        assert next(iter(iter_records(data, max_bytes=1000))).offset == next(each for each in left if each >= offset)


@pytest.mark.parametrize("compression", range(5))
async def test_compressed_batches_are_rebuilt_with_their_compression(tmp_path: Path, compression: int) -> None:
    shop = Workshop(tmp_path)
    headers = [("h", b"1"), ("none", None)]
    shop.produce((b"a", b"1" * 50), (b"b", b"2" * 50), (b"c", b"3" * 50), compression=compression, headers=headers)
    shop.produce((b"d", b"4" * 50), (b"e", b"5" * 50), compression=compression, roll=True)
    untouched = read_batches(shop.log)[1][1]
    shop.produce((b"b", b"new"), roll=True)
    before = shop.kept()
    await shop.settle()
    assert shop.kept() == [each for each in before if each.offset != 1]
    batches = read_batches(shop.log)
    assert batches[0][0].compression == compression
    assert (batches[0][0].last_offset_delta, batches[0][0].count) == (2, 2)
    assert batches[1][1] == untouched


async def test_log_append_time_stays(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, config(message_timestamp_type="LogAppendTime"))
    shop.produce((b"a", b"1"), (b"b", b"1"), timestamp=5)
    shop.produce((b"a", None), timestamp=6, roll=True)
    await shop.settle()
    assert [(each.offset, each.timestamp) for each in shop.kept()] == [(1, NOW_MS), (2, NOW_MS)]


async def test_a_segment_younger_than_min_compaction_lag_is_not_cleaned(tmp_path: Path) -> None:
    clock = ManualClock()
    shop = Workshop(tmp_path, config(min_compaction_lag_ms=1000), clock=clock)
    shop.produce((b"a", b"1"), (b"a", b"2"), timestamp=NOW_MS - 500, roll=True)  # the younger at - 499
    shop.produce((b"a", b"3"), timestamp=NOW_MS, roll=True)
    assert not await shop.clean()
    clock.now_ms += 501
    assert await shop.clean()
    assert shop.offsets() == [1, 2]
    clock.now_ms += 499
    await shop.settle()
    assert shop.offsets() == [2]


async def test_max_compaction_lag_overrules_the_dirty_ratio(tmp_path: Path) -> None:
    clock = ManualClock()
    shop = Workshop(tmp_path, config(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000), clock=clock)
    shop.produce((b"a", b"1"), (b"a", b"2"), roll=True)
    clock.now_ms += 1001  # the first batch's highest timestamp counts
    assert not await shop.clean()
    clock.now_ms += 1
    assert await shop.clean()
    assert shop.offsets() == [1]


async def test_a_log_is_due_when_its_dirty_share_exceeds_the_ratio(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, config(min_cleanable_dirty_ratio=0.5))
    shop.produce((b"a", b"1"), roll=True)
    assert await shop.clean()
    shop.produce((b"b", b"1"), roll=True)
    assert not await shop.clean()  # exactly half
    shop.produce((b"b", b"2"), roll=True)
    assert await shop.clean()
    assert shop.offsets() == [0, 2]


async def test_a_full_map_ends_the_cleaning_and_the_next_one_continues_there(tmp_path: Path) -> None:
    small = CleanerSettings(dedupe_buffer_size=3 * ENTRY_BYTES, io_buffer_load_factor=1.0)
    shop = Workshop(tmp_path, settings=small)
    for i in range(10):
        shop.produce((b"%d" % i, b"1"), (b"%d" % (i + 1), b"1"), roll=True)
    assert await shop.clean()
    assert shop.cleaner.checkpoints.get(shop.directory, ("t", 0)) == 5  # 0, 1, 1, 2, 2
    await shop.settle()
    assert shop.offsets() == [0, *range(2, 20, 2), 19]


async def test_groups_join_small_segments_up_to_the_segment_size(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, config(internal_segment_bytes=1000))
    for i in range(40):
        shop.produce((b"%d" % i, bytes(80)), roll=i % 2 == 1)
    await shop.settle()
    shop.produce((b"x", b"1"), roll=True)
    await shop.settle()
    sizes = [segment.size for segment in shop.log.segments]
    assert max(sizes) <= 1000 and len(sizes) == 8
    assert len(shop.offsets()) == 41


async def test_segments_that_compaction_emptied_are_joined_by_the_next_cleaning(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, config(internal_segment_bytes=1000))
    for round_number in range(3):
        for _ in range(20):
            shop.produce((b"k", bytes(800)), roll=True)
        await shop.settle()
        before = [each.base_offset for each in shop.log.segments if each.base_offset < 20 * round_number]
        assert len(before) <= 1  # what the rounds before left is one segment
    assert shop.offsets() == [59]


class Reads(Files):
    """Files that record the largest read."""

    def __init__(self) -> None:
        self.most = 0

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        self.most = max(self.most, size)
        return os.pread(fd, size, offset)


async def test_the_io_buffer_limits_the_size_of_a_read(tmp_path: Path) -> None:
    files = Reads()
    shop = Workshop(
        tmp_path,
        config(internal_segment_bytes=100_000),
        files=files,
        settings=CleanerSettings(threads=2, io_buffer_size=40_000),
    )
    for i in range(100):
        shop.produce((b"%d" % (i % 60), bytes(900)), roll=i == 98)
    assert await shop.clean()
    assert files.most == 10_000  # of each thread's half, one half for reading
    assert len(shop.offsets()) == 61


async def test_old_files_are_removed_after_the_delay_and_reads_under_way_complete(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, config(file_delete_delay_ms=60_000, internal_segment_bytes=100_000))
    for _ in range(2):
        shop.produce((b"a", bytes(20_000)), (b"b", bytes(20_000)))
    shop.log.roll()
    reading = shop.log.read(0, 100_000, upto=4)
    old = shop.log.segments[0].file
    await shop.settle()
    assert names_in(shop.log, ".deleted") == [f"{0:020d}.{name}.deleted" for name in ("index", "log", "timeindex")]
    assert old.fd >= 0
    assert len(list(iter_records(content(reading), max_bytes=100_000))) == 2
    assert old.fd < 0
    shop.env.remover.close()


async def test_config_that_no_longer_compacts_aborts_before_the_swap(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), (b"a", b"2"), roll=True)
    cleaning = asyncio.ensure_future(shop.clean())
    await asyncio.sleep(0)
    shop.log.update_config(config(cleanup_policy=("delete",)))
    assert not await cleaning
    assert shop.offsets() == [0, 1]
    assert names_in(shop.log, ".cleaned", ".swap") == []
    assert shop.cleaner.uncleanable == {}


async def test_truncation_aborts_a_cleaning_and_moves_the_checkpoint_back(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    for value in b"12345":
        shop.produce((b"a", bytes([value])), roll=True)
    await shop.settle()
    assert shop.cleaner.checkpoints.get(shop.directory, ("t", 0)) == 5
    shop.produce((b"a", b"6"), (b"a", b"7"), roll=True)
    cleaning = asyncio.ensure_future(shop.clean())
    await asyncio.sleep(0)
    shop.log.truncate_to(5)
    assert not await cleaning
    assert shop.offsets() == [4]
    shop.log.truncate_to(4)
    shop.produce((b"b", b"1"), (b"b", b"2"), roll=True)
    await shop.settle()
    assert shop.offsets() == [5]


async def test_a_deleted_log_is_not_cleaned_and_loses_its_checkpoint(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), (b"a", b"2"), roll=True)
    cleaning = asyncio.ensure_future(shop.clean())
    await asyncio.sleep(0)
    shop.log.release()
    shop.cleaner.forget(shop.log, shop.directory)
    assert not await cleaning
    assert shop.cleaner.figures.aborted == 1 and shop.cleaner.uncleanable == {}


async def test_damage_marks_the_log_and_is_reported_once(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), (b"a", b"2"), roll=True)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert not await shop.clean()
    assert "checksum" in shop.cleaner.uncleanable["t", 0]
    assert shop.cleaner.uncleanable_count(str(tmp_path)) == 1
    assert shop.cleaner.uncleanable_bytes(str(tmp_path)) == len(data)
    assert path.read_bytes() == data
    assert not await shop.clean()


class FullDisk(Files):
    """A disk without space for `.cleaned` files while ``full``."""

    def __init__(self) -> None:
        self.full = True

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        import os

        if self.full and os.readlink(f"/proc/self/fd/{fd}").endswith(".cleaned"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return Files.pwrite(fd, data, offset)


async def test_a_full_disk_delays_cleaning_and_nothing_else(tmp_path: Path) -> None:
    files = FullDisk()
    shop = Workshop(tmp_path, files=files)
    failures: list[str] = []
    shop.env.on_failure = lambda directory, error: failures.append(directory)
    shop.produce((b"a", b"1"), (b"a", b"2"), roll=True)
    assert not await shop.clean()
    assert failures == [] and shop.cleaner.uncleanable == {}
    assert names_in(shop.log, ".cleaned") == []
    files.full = False
    assert await shop.clean()
    assert shop.offsets() == [1]


async def test_compact_and_delete_removes_old_segments_of_a_cleaned_log(tmp_path: Path) -> None:
    clock = ManualClock()
    shop = Workshop(tmp_path, config(cleanup_policy=("compact", "delete"), retention_ms=1000), clock=clock)
    shop.produce((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), roll=True)
    await shop.settle()
    assert shop.offsets() == [1, 2]
    clock.now_ms += 2000
    shop.produce((b"c", b"1"), roll=True)
    shop.log.delete_old_segments()
    assert shop.offsets() == [3]
    assert shop.log.log_start_offset == 3
    await shop.settle()
    assert shop.offsets() == [3]


async def test_records_without_a_key_are_dropped_and_counted(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, config(cleanup_policy=("delete",)))
    shop.produce((None, b"1"), (b"a", b"1"), roll=True)
    shop.log.update_config(COMPACTED)
    await shop.settle()
    assert shop.offsets() == [1]
    assert shop.cleaner.figures.last[0].keyless == 1


async def test_the_checkpoint_file_has_kafkas_format(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), (b"a", b"2"), roll=True)
    await shop.settle()
    await shop.cleaner.checkpoints.settled()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    again = Workshop(tmp_path)
    assert again.cleaner.checkpoints.get(again.directory, ("t", 0)) == 2
    assert not await again.clean()


async def test_the_throttle_slows_the_work_down(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, settings=CleanerSettings(io_max_bytes_per_second=20_000.0))
    shop.produce((b"a", bytes(500)), roll=True)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    assert await shop.clean()
    assert loop.time() - begin >= 2 * 500 / 20_000


def test_max_compaction_lag_limits_the_age_of_a_segment() -> None:
    assert config(segment_ms=5000, max_compaction_lag_ms=1000).roll_ms == 1000
    assert config(segment_ms=5000, max_compaction_lag_ms=9000).roll_ms == 5000
    assert config(segment_ms=5000, max_compaction_lag_ms=1000, cleanup_policy=("delete",)).roll_ms == 5000


async def test_a_rebuilt_batch_has_the_highest_time_of_what_is_left_in_it(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.produce((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), timestamp=NOW_MS, roll=True)
    shop.produce((b"a", b"2"), (b"c", b"2"), roll=True)
    await shop.settle()
    first = read_batches(shop.log)[0][0]
    assert (first.count, first.base_timestamp, first.max_timestamp) == (1, NOW_MS + 1, NOW_MS + 1)


async def test_a_record_whose_successor_was_truncated_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Workshop(tmp_path)
    for value in (b"1", b"2", b"3"):
        shop.produce((b"a", value * 700), roll=True)  # each a group of its own
    clean_group = Cleaning._clean_group

    async def truncated_before(cleaning: Cleaning, group: list[Any]) -> None:
        shop.log.truncate_to(1)
        await clean_group(cleaning, group)

    with monkeypatch.context() as patch:
        patch.setattr(Cleaning, "_clean_group", truncated_before)
        assert not await shop.clean()
    assert [each.value for each in shop.kept()] == [b"1" * 700]


async def test_records_after_a_truncation_are_dirty_even_if_the_log_has_grown_again(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    for i in range(6):
        shop.produce((b"%d" % i, b"1"), roll=True)
    await shop.settle()
    shop.log.truncate_to(2)
    shop.produce((b"b", b"1"), (b"b", b"2"), roll=True)
    for i in range(4):
        shop.produce((b"c%d" % i, b"1"), roll=True)
    await shop.settle()
    assert shop.offsets() == [0, 1, 3, 4, 5, 6, 7]


async def test_snapshots_of_joined_segments_are_removed_and_file_times_stay(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    for i in range(6):
        shop.produce((b"a", b"%d" % i), producer_id=1, producer_epoch=0, base_sequence=i, roll=True)
    newest = shop.log.segments[-2].file.path
    shop.log.files.utime(newest, ns=(1_000_000_000, 1_000_000_000))
    await shop.settle()
    assert [segment.base_offset for segment in shop.log.segments] == [0, 6]
    assert names_in(shop.log, ".snapshot") == [f"{6:020d}.snapshot"]
    assert shop.log.files.stat(shop.log.segments[0].file.path).st_mtime_ns == 1_000_000_000


def groups(segments: list[tuple[int, int, int]], end: int) -> list[list[int]]:
    """Groups by base offset of segments (base offset, size, index size), up to 1000 bytes and 100 of indexes."""
    made: list[Any] = [SimpleNamespace(base_offset=base, size=size) for base, size, _ in segments]
    index_sizes = {base: index for base, _, index in segments}
    found = group_segments(made, end, 1000, 100, lambda segment: index_sizes[segment.base_offset])
    return [[segment.base_offset for segment in group] for group in found]


def test_groups_fit_one_segment_by_bytes_index_and_offsets() -> None:
    assert groups([(0, 500, 0), (1, 500, 0), (2, 1, 0)], 3) == [[0, 1], [2]]
    assert groups([(0, 1, 50), (1, 1, 50), (2, 1, 1)], 3) == [[0, 1], [2]]
    far = 1 << 31
    assert groups([(0, 1, 0), (9, 1, 0)], far) == [[0, 9]]
    assert groups([(0, 1, 0), (9, 1, 0)], far + 1) == [[0], [9]]
    assert groups([(0, 1, 0), (9, 0, 0), (far, 1, 0)], far + 5) == [[0, 9], [far]]
    assert groups([], 5) == []
