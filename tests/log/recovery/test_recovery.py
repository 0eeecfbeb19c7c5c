"""Recovery makes a consistent log of what a stop leaves: torn tails, lost files, incomplete swaps."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from kwire.base.doors import Doors, Files
from kwire.log.common.log_config import LogConfig
from kwire.log.partition.partition_log import PartitionLog
from tests.log.log_tools import NOW_MS, append, batch, content, fails, headers, open_log, read_all

SMALL = LogConfig(internal_segment_bytes=1000, index_interval_bytes=200)


def killed(log: PartitionLog) -> None:
    """Drop a log without closing it, as kill -9 does: written bytes stay, memory does not."""
    log.release()


def written(path: Path, batches: int = 20, config: LogConfig = SMALL, **how: int) -> PartitionLog:
    log = open_log(path, config)
    for i in range(batches):
        append(log, 2, size=30, timestamp=NOW_MS + i, epoch=i // 8, **how)
    return log


def test_every_torn_tail_of_the_last_batch_ends_the_log_before_it(tmp_path: Path) -> None:
    log = written(tmp_path / "whole", 6, LogConfig())
    size, end = log.size, log.log_end_offset
    killed(log)
    last = len(batch(2, size=30))
    for lost in range(1, last + 1):
        copy = tmp_path / f"torn-{lost}"
        shutil.copytree(tmp_path / "whole", copy)
        with open(copy / "t-0/00000000000000000000.log", "r+b") as file:
            file.truncate(size - lost)
        again = open_log(copy, LogConfig(), clean=False)
        assert (again.log_end_offset, again.size) == (end - 2, size - last)
        assert append(again, 1) == end - 2
        again.release()
        shutil.rmtree(copy)


def test_every_flipped_byte_of_the_last_batch_is_found_by_its_checksum(tmp_path: Path) -> None:
    log = written(tmp_path / "whole", 4, LogConfig())
    size = log.size
    last = len(batch(2, size=30))
    killed(log)
    for at in range(last):
        if 0 <= at < 8 or 12 <= at < 16:
            continue  # base offset and leader epoch lie outside the checksum, as in Kafka
        copy = tmp_path / f"flip-{at}"
        shutil.copytree(tmp_path / "whole", copy)
        path = copy / "t-0/00000000000000000000.log"
        data = bytearray(path.read_bytes())
        data[size - last + at] ^= 0x10
        path.write_bytes(data)
        again = open_log(copy, LogConfig(), clean=False)
        assert again.log_end_offset == 6, at
        again.release()
        shutil.rmtree(copy)


def test_repeated_offsets_end_the_log(tmp_path: Path) -> None:
    log = written(tmp_path, 3, LogConfig())
    killed(log)
    path = tmp_path / "t-0/00000000000000000000.log"
    path.write_bytes(path.read_bytes() + bytes(batch(2)))  # base offset 0 again, checksum right
    assert open_log(tmp_path, LogConfig(), clean=False).log_end_offset == 6


def test_segments_after_the_first_damaged_batch_are_removed(tmp_path: Path) -> None:
    log = written(tmp_path)
    segments = [segment.base_offset for segment in log.segments]
    assert len(segments) == 3
    killed(log)
    path = tmp_path / "t-0" / f"{segments[1]:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    again = open_log(tmp_path, SMALL, clean=False)
    assert [segment.base_offset for segment in again.segments] == segments[:2]
    assert segments[1] < again.log_end_offset < segments[2]
    assert all(entry.start_offset < again.log_end_offset for entry in again.epochs.entries)
    assert read_all(again)[-1][1] == again.log_end_offset - 1
    assert not list(tmp_path.glob("t-0/*.deleted"))


def test_only_batches_beyond_the_recovery_point_are_scanned(tmp_path: Path) -> None:
    log = written(tmp_path)
    bases = [segment.base_offset for segment in log.segments]
    tail = sum(segment.size for segment in log.segments[-2:])
    killed(log)
    scanned: list[int] = []
    open_log(tmp_path, SMALL, clean=False, recovery_point=bases[-2], progress=scanned.append)
    assert sum(scanned) == tail


def test_after_a_clean_stop_no_batch_is_read(tmp_path: Path) -> None:
    log = written(tmp_path)
    end = log.log_end_offset
    log.close()
    scanned: list[int] = []
    again = open_log(tmp_path, SMALL, clean=True, progress=scanned.append)
    assert again.log_end_offset == end == again.recovery_point
    assert scanned == []
    assert read_all(again) == [(2 * i, 2 * i + 1) for i in range(20)]


def test_leftovers_of_an_interrupted_process_are_removed(tmp_path: Path) -> None:
    log = written(tmp_path)
    log.close()
    folder = tmp_path / "t-0"
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000900.log.cleaned",
        "00000000000000000900.index.cleaned",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000777.index",
    ):
        (folder / name).write_bytes(b"x")
    open_log(tmp_path, SMALL)
    names = {path.name for path in folder.iterdir()}
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".tmp")) or "777" in name]


def test_a_swap_under_way_is_completed(tmp_path: Path) -> None:
    log = written(tmp_path)
    bases = [segment.base_offset for segment in log.segments]
    end = log.log_end_offset
    log.close()
    folder = tmp_path / "t-0"
    merged = b"".join((folder / f"{base:020d}.log").read_bytes() for base in bases[:2])
    (folder / f"{bases[0]:020d}.log.swap").write_bytes(merged)
    (folder / f"{bases[0]:020d}.log").unlink()  # one of the replaced segments is gone already
    again = open_log(tmp_path, SMALL)
    assert [segment.base_offset for segment in again.segments] == [bases[0], *bases[2:]]
    assert read_all(again) == [(2 * i, 2 * i + 1) for i in range(end // 2)]


def test_a_swap_that_had_not_begun_is_undone(tmp_path: Path) -> None:
    log = written(tmp_path)
    bases = [segment.base_offset for segment in log.segments]
    log.close()
    folder = tmp_path / "t-0"
    (folder / f"{bases[0]:020d}.log.swap").write_bytes(b"half")
    (folder / f"{bases[0]:020d}.log.cleaned").write_bytes(b"half")
    again = open_log(tmp_path, SMALL)
    assert [segment.base_offset for segment in again.segments] == bases
    assert not list(folder.glob("*.swap"))


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "garbage"])
def test_a_lost_or_damaged_index_of_the_last_segment_is_rebuilt(tmp_path: Path, suffix: str, damage: str) -> None:
    log = written(tmp_path, 10, LogConfig(index_interval_bytes=200))
    log.close()
    path = tmp_path / f"t-0/00000000000000000000.{suffix}"
    good = path.read_bytes()
    assert len(good) > 30
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(good[:-12] + b"\xff" * 12 + b"x")
    again = open_log(tmp_path, LogConfig(index_interval_bytes=200))
    assert again.log_end_offset == 20
    assert read_all(again) == [(2 * i, 2 * i + 1) for i in range(10)]
    again.close()
    assert path.read_bytes() == good


def test_missing_indexes_of_all_segments_are_rebuilt(tmp_path: Path) -> None:
    log = written(tmp_path)
    log.close()
    kept = {path.name: path.read_bytes() for path in tmp_path.glob("t-0/*index")}
    for path in tmp_path.glob("t-0/*index"):
        path.unlink()
    open_log(tmp_path, SMALL).close()
    assert {path.name: path.read_bytes() for path in tmp_path.glob("t-0/*index")} == kept


def test_a_damaged_epoch_file_is_read_back_from_the_batches(tmp_path: Path) -> None:
    log = written(tmp_path)
    entries = log.epochs.entries
    log.close()
    assert len(entries) == 3
    for damage in ("nonsense", "0\n5\n1 1\n", ""):
        (tmp_path / "t-0/leader-epoch-checkpoint").write_text(damage)
        again = open_log(tmp_path, SMALL)
        assert again.epochs.entries == entries
        again.close()


@pytest.mark.parametrize(
    "changed", ["0 0\n1 19\n2 32", "0 0\n1 16\n2 37", "0 0\n1 16\n2 99", "0 0\n1 16\n3 32", "0 0\n1 11\n2 32"]
)
def test_a_changed_digit_in_the_epoch_file_is_noticed_after_a_kill(tmp_path: Path, changed: str) -> None:
    log = written(tmp_path)
    entries, end = log.epochs.entries, log.log_end_offset
    assert entries == ((0, 0), (1, 16), (2, 32))
    killed(log)
    (tmp_path / "t-0/leader-epoch-checkpoint").write_text(f"0\n3\n{changed}\n")
    again = open_log(tmp_path, SMALL, clean=False, recovery_point=end)
    assert again.epochs.entries == entries
    again.close()
    assert open_log(tmp_path, SMALL).epochs.entries == entries  # and written


def test_the_epoch_file_is_kept_if_one_batch_of_many_differs(tmp_path: Path) -> None:
    log = written(tmp_path)
    entries, end = log.epochs.entries, log.log_end_offset
    position = log.segments[0].find(0).size  # type: ignore[union-attr]
    killed(log)
    path = tmp_path / "t-0/00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[position + 15] ^= 4  # the leader epoch of the second batch, which lies outside its checksum
    path.write_bytes(data)
    again = open_log(tmp_path, SMALL, clean=False, recovery_point=end)
    assert again.epochs.entries == entries


def test_a_log_that_ends_before_its_start_offset_is_empty_and_starts_there(tmp_path: Path) -> None:
    written(tmp_path).close()
    again = open_log(tmp_path, SMALL, log_start_offset=1000)
    assert (again.log_start_offset, again.log_end_offset) == (1000, 1000)
    assert append(again) == 1000


class FailingFiles(Files):
    """Writes fail or are short when the disk takes only ``left`` more bytes; None is no limit."""

    def __init__(self) -> None:
        self.left: int | None = None

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if self.left is not None:
            if self.left <= 0:
                raise OSError(28, "No space left on device")
            data = bytes(data[: self.left])
            self.left -= len(data)
        return Files.pwrite(fd, data, offset)


def test_a_full_disk_fails_the_append_and_leaves_the_log_usable(tmp_path: Path) -> None:
    files = FailingFiles()
    log = open_log(tmp_path, LogConfig(), doors=Doors(files=files))
    append(log, 2)
    size = (tmp_path / "t-0/00000000000000000000.log").stat().st_size
    for left in range(0, len(batch(2)), 7):
        files.left = left
        assert fails(lambda: append(log, 2)) == "KAFKA_STORAGE_ERROR"
        assert (tmp_path / "t-0/00000000000000000000.log").stat().st_size == size
        assert read_all(log) == [(0, 1)]
    files.left = None
    assert append(log, 1) == 2
    killed(log)
    assert open_log(tmp_path, LogConfig(), clean=False).log_end_offset == 3


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    class Halving(Files):
        def pwrite(self, fd: int, data: bytes, offset: int) -> int:
            return Files.pwrite(fd, bytes(data[: max(len(data) // 2, 1)]), offset)

    log = open_log(tmp_path, LogConfig(), doors=Doors(files=Halving()))
    data = batch(5)
    log.append_as_leader(memoryview(data), leader_epoch=0)
    assert content(log.read(0, 1000, upto=5)) == bytes(data)


def test_a_damaged_batch_on_the_way_of_a_look_up_fails_that_read_only(tmp_path: Path) -> None:
    log = written(tmp_path, 20, LogConfig())
    log.close()
    path = tmp_path / "t-0/00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[len(batch(2, size=30)) + 16] = 9  # magic of the second batch
    path.write_bytes(data)
    again = open_log(tmp_path, LogConfig(), recovery_point=40)
    assert again.log_end_offset == 40
    for offset in (2, 3):
        assert fails(partial(again.read, offset, 100, upto=again.log_end_offset)) == "CORRUPT_MESSAGE"
    assert headers(again.read(5, 100, upto=again.log_end_offset))[0].base_offset == 4
    assert [header.base_offset for header in headers(again.read(0, 1 << 20, upto=1 << 30))] == [0]


def test_a_log_truncated_after_a_clean_shutdown_never_gives_its_offsets_to_other_records(tmp_path: Path) -> None:
    log = written(tmp_path, 6, LogConfig())
    end, size = log.log_end_offset, log.size
    log.close()
    path = tmp_path / "t-0/00000000000000000000.log"
    with open(path, "r+b") as file:
        file.truncate(size - 10)
    for expected in range(end, end + 3):  # each start finds what the one before wrote behind the damage
        log = open_log(tmp_path, LogConfig(), clean=True, recovery_point=expected)
        assert log.log_end_offset == expected
        assert append(log, 1) == expected
        stored = headers(log.read(expected, 1000, upto=expected + 1))
        assert [header.base_offset for header in stored] == [expected]
        log.close()
