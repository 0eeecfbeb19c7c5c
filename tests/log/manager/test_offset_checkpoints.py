"""The offset checkpoints of very many logs: collected, made and written in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kwire.base.doors import Doors, Files
from kwire.base.topic_partition import TopicPartition
from kwire.log.common import checkpoints
from kwire.log.common.checkpoints import HIGH_WATERMARK_FILE, RECOVERY_POINT_FILE, read_offsets
from kwire.log.common.log_config import LogConfig
from kwire.log.common.log_dirs import LogDirectory
from kwire.log.manager import log_manager, offset_checkpoints
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.offset_checkpoints import OffsetCheckpoints
from kwire.log.manager.settings import ManagerSettings
from tests.log.log_tools import TOPIC_ID, append

CONFIG = LogConfig(internal_segment_bytes=1000, file_delete_delay_ms=0, retention_ms=-1)


async def started(path: Path) -> LogManager:
    logs = LogManager(Doors(), [str(path)], lambda _topic: CONFIG, ManagerSettings())
    logs.lock("cluster", 1)
    await logs.load_all()
    logs.start()
    return logs


def noting_collections(logs: LogManager) -> list[int]:
    """How many logs the offsets are collected of at a time, from now on."""
    collected: list[int] = []
    collect = logs._checkpoints._collect

    def noted(directory: LogDirectory, file: str, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        collected.append(len(keys))
        return collect(directory, file, keys)

    logs._checkpoints._collect = noted
    return collected


async def test_checkpoints_of_very_many_logs_are_updated_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_checkpoints, "SLICE_LINES", 2)
    logs = await started(tmp_path)
    for partition in range(5):
        append(logs.create("t", partition, TOPIC_ID), partition + 1)
    collected = noting_collections(logs)
    for written in (True, False):  # the second time, nothing has changed
        collected.clear()
        logs._checkpoints.update(logs.directories[0], HIGH_WATERMARK_FILE)
        assert collected == []
        turns = 0
        while logs._checkpoints._texts:
            await asyncio.sleep(0)
            turns += 1
        assert collected == [2, 2, 1]
        assert turns >= (6 if written else 3)
        assert bool(logs._checkpoints._jobs) is written
        await logs._checkpoints.settled()
    expected = {("t", partition): partition + 1 for partition in range(5)}
    assert read_offsets(Files(), str(tmp_path / HIGH_WATERMARK_FILE)) == expected
    await logs.close()


async def test_a_recovery_point_is_on_disk_even_if_a_text_with_it_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_checkpoints, "SLICE_LINES", 2)
    logs = await started(tmp_path)
    log, *_ = [logs.create("t", partition, TOPIC_ID) for partition in range(5)]
    directory, making = logs.directories[0], logs._checkpoints
    making.update(directory, RECOVERY_POINT_FILE)
    await making.settled()
    append(log, 4)
    flushed = log.flush()
    assert flushed is not None
    await flushed
    collected = noting_collections(logs)
    making.update(directory, RECOVERY_POINT_FILE)
    for _ in range(4):  # three slices of offsets; then the text is being made
        await asyncio.sleep(0)
    assert collected == [2, 2, 1]
    assert making._texts and not making._jobs
    log.flusher.checkpointed_point = 0
    await making.write_recovery_point(directory, log, 4)
    assert read_offsets(Files(), str(tmp_path / RECOVERY_POINT_FILE))["t", 0] == 4
    await logs.close()


async def test_deletions_among_very_many_logs_are_collected_before_each_rewriting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "WRITTEN_AT_ONCE", 1)
    monkeypatch.setattr(log_manager, "REWRITE_DELAY_S", 60)
    steps: list[str] = []
    sleep, write = asyncio.sleep, OffsetCheckpoints.write_all_in_slices

    async def noted_sleep(delay: float) -> None:
        if delay == log_manager.REWRITE_DELAY_S:
            steps.append("delay")
            delay = 0
        await sleep(delay)

    async def noted_write(making: OffsetCheckpoints, directory: LogDirectory) -> None:
        steps.append("write")
        await write(making, directory)

    logs = await started(tmp_path)
    for partition in range(6):
        logs.create("t", partition, TOPIC_ID)
    monkeypatch.setattr(asyncio, "sleep", noted_sleep)
    monkeypatch.setattr(OffsetCheckpoints, "write_all_in_slices", noted_write)
    await logs.delete("t", 0)
    while "write" not in steps:
        await sleep(0)
    await logs.delete("t", 1)
    await logs.delete("t", 2)
    while logs._rewriting is not None:
        await sleep(0)
    assert steps == ["delay", "write", "delay", "write"]
    await logs.close()


async def test_checkpoints_of_very_many_logs_lose_deleted_ones_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "WRITTEN_AT_ONCE", 4)
    monkeypatch.setattr(log_manager, "REWRITE_DELAY_S", 0)
    monkeypatch.setattr(offset_checkpoints, "SLICE_LINES", 2)
    lines: list[int] = []
    make = checkpoints._offset_lines

    def counted(offsets: Any) -> list[str]:
        made = make(offsets)
        lines.append(len(made))
        return made

    logs = await started(tmp_path)
    for partition in range(7):
        logs.create("t", partition, TOPIC_ID)
    monkeypatch.setattr(checkpoints, "_offset_lines", counted)
    collected = noting_collections(logs)
    await logs.delete("t", 3)
    turns = 0
    while logs._stale or logs._rewriting is not None:
        await asyncio.sleep(0)
        turns += 1
    assert turns > 12 and lines == [2, 2, 2, 0, 0, 0, 2, 2, 2]  # no log has a start offset of its own
    assert collected == [2, 2, 2] * 3
    left = {("t", partition): 0 for partition in range(7) if partition != 3}
    assert read_offsets(Files(), str(tmp_path / "recovery-point-offset-checkpoint")) == left
    assert read_offsets(Files(), str(tmp_path / "replication-offset-checkpoint")) == left
    await logs.close()


async def test_a_checkpoint_made_in_slices_does_not_replace_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "WRITTEN_AT_ONCE", 1)
    monkeypatch.setattr(log_manager, "REWRITE_DELAY_S", 0)
    logs = await started(tmp_path)
    for partition in range(3):
        logs.create("t", partition, TOPIC_ID)
    await logs.delete("t", 0)
    for _ in range(3):
        await asyncio.sleep(0)  # the offsets are known, and not written yet
    log = logs.get("t", 1)
    assert log is not None and logs._rewriting is not None
    append(log, 4)
    log.advance_high_watermark(4)
    logs.write_checkpoints(logs.directories[0], sync=True)
    await asyncio.wait([logs._rewriting])
    expected = {("t", 1): 4, ("t", 2): 0}
    assert read_offsets(Files(), str(tmp_path / "replication-offset-checkpoint")) == expected
    await logs.close()


async def test_a_stop_does_not_wait_for_checkpoints_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_manager, "WRITTEN_AT_ONCE", 1)
    monkeypatch.setattr(log_manager, "REWRITE_DELAY_S", 0)
    logs = await started(tmp_path)
    for partition in range(3):
        logs.create("t", partition, TOPIC_ID)
    await logs.delete("t", 0)
    await asyncio.sleep(0)
    await logs.close()
    left = {("t", partition): 0 for partition in (1, 2)}
    assert read_offsets(Files(), str(tmp_path / "recovery-point-offset-checkpoint")) == left
