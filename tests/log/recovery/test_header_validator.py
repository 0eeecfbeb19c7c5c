"""Base offset and leader epoch, which the checksum does not cover: how recovery corrects them after a kill."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.log.common.log_config import LogConfig
from kwire.log.partition.partition_log import PartitionLog
from tests.log.log_tools import append, open_log, read_all

CONFIG = LogConfig(index_interval_bytes=100, retention_ms=-1)


def killed(folder: Path) -> tuple[Path, list[int]]:
    """Ten batches of two records, epochs 3 (five batches) and 5 (five): the file, and where each batch begins."""
    log = open_log(folder, CONFIG)
    positions = []
    for i in range(10):
        positions.append(log.active.size)
        append(log, 2, size=20, epoch=3 if i < 5 else 5)
    log.release()
    return Path(log.active.file.path), positions


def again(folder: Path) -> PartitionLog:
    return open_log(folder, CONFIG, clean=False, recovery_point=0)


def change(path: Path, at: int, size: int, of: Callable[[int], int]) -> bytes:
    """Write another number into the file; the bytes that were there."""
    before = path.read_bytes()
    content = bytearray(before)
    content[at : at + size] = of(int.from_bytes(content[at : at + size], "big")).to_bytes(size, "big")
    path.write_bytes(content)
    return before


WHOLE = [(2 * i, 2 * i + 1) for i in range(10)]


@pytest.mark.parametrize("batch", [0, 2, 4, 5, 7])
@pytest.mark.parametrize("bit", [0, 10, 20, 40, 62])
def test_a_flipped_base_offset_is_corrected(tmp_path: Path, batch: int, bit: int) -> None:
    path, positions = killed(tmp_path)
    before = change(path, positions[batch], 8, lambda offset: offset ^ 1 << bit)
    assert read_all(again(tmp_path)) == WHOLE
    assert path.read_bytes() == before


def test_a_flipped_base_offset_at_the_very_end_ends_the_log(tmp_path: Path) -> None:
    path, positions = killed(tmp_path)
    change(path, positions[9], 8, lambda offset: offset ^ 1 << 20)
    assert read_all(again(tmp_path)) == WHOLE[:9]


@pytest.mark.parametrize("batch", [0, 2, 4, 5, 7])
@pytest.mark.parametrize("bit", [3, 4, 20, 30])
def test_a_flipped_leader_epoch_is_corrected(tmp_path: Path, batch: int, bit: int) -> None:
    path, positions = killed(tmp_path)
    before = change(path, positions[batch] + 12, 4, lambda epoch: epoch ^ 1 << bit)
    log = again(tmp_path)
    assert read_all(log) == WHOLE
    assert path.read_bytes() == before
    assert [tuple(entry) for entry in log.epochs.entries] == [(3, 0), (5, 10)]


def test_a_leader_epoch_that_nothing_confirms_ends_the_log(tmp_path: Path) -> None:
    path, positions = killed(tmp_path)
    change(path, positions[4] + 12, 4, lambda _epoch: 5)  # as the next batch: nobody can tell
    assert read_all(again(tmp_path)) == WHOLE[:4]


def test_an_epoch_file_that_batches_contradict_is_corrected(tmp_path: Path) -> None:
    path, _ = killed(tmp_path)
    before = path.read_bytes()
    (path.parent / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n5 16\n")
    log = again(tmp_path)
    assert read_all(log) == WHOLE and path.read_bytes() == before
    assert [tuple(entry) for entry in log.epochs.entries] == [(3, 0), (5, 10)]


def test_epochs_missing_in_an_old_epoch_file_are_taken_from_the_batches(tmp_path: Path) -> None:
    path, _ = killed(tmp_path)
    (path.parent / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
    log = again(tmp_path)
    assert read_all(log) == WHOLE
    assert [tuple(entry) for entry in log.epochs.entries] == [(3, 0), (5, 10)]
