"""Many partitions after a crash: logs recovered by helper processes equal those recovered by the broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kwire.base.doors import Doors
from kwire.log.common.log_config import LogConfig
from kwire.log.manager import log_manager
from kwire.log.manager.log_manager import LogManager
from kwire.log.manager.settings import ManagerSettings
from kwire.log.partition.partition_log import PartitionLog
from kwire.log.recovery import helpers as recovery_helpers
from tests.log.log_tools import append, batch

CONFIG = LogConfig(internal_segment_bytes=2000, index_interval_bytes=100, file_delete_delay_ms=0)
TOPIC_ID = b"recovered-by-few"


def manager(path: Path, *, helpers: bool) -> LogManager:
    doors = Doors() if helpers else Doors(processes=None)
    return LogManager(doors, [str(path)], lambda topic: CONFIG, ManagerSettings())


async def killed(path: Path, partitions: int, now_ms: int) -> None:
    """Logs as a killed process leaves them; one with a torn end, one damaged below its recovery point."""
    logs = manager(path, helpers=False)
    logs.lock("a cluster", 1)
    await logs.load_all()
    for number in range(partitions):
        log = logs.create("t", number, TOPIC_ID)
        for i in range(40):
            log.append_as_leader(
                bytearray(batch(1, size=60, timestamp=now_ms, producer_id=7, producer_epoch=0, base_sequence=i)),
                leader_epoch=i // 10,
            )
        log.advance_high_watermark(30)
    damaged = logs.get("t", 2)
    assert damaged is not None
    damaged.flusher.flush_blocking()
    for directory in logs.directories:
        logs.write_checkpoints(directory)
    logs.env.cache.close_all()
    logs.unlock()
    torn = sorted((path / "t-1").glob("*.log"))[-1]
    torn.write_bytes(torn.read_bytes() + b"torn" * 10)
    last = sorted((path / "t-2").glob("*.log"))[-1]
    content = bytearray(last.read_bytes())
    content[100] ^= 1
    last.write_bytes(content)


def facts(log: PartitionLog) -> dict[str, Any]:
    return {
        "offsets": (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point),
        "segments": [(each.base_offset, each.size, each.unverified, each.bad) for each in log.segments],
        "indexes": [(list(each.index.entries()), list(each.time_index.entries())) for each in log.segments],
        "epochs": log.epochs.entries,
        "producers": {
            pid: (entry.epoch, entry.last_sequence, entry.last_offset)
            for pid, entry in log.producer_state.producers.items()
        },
    }


@pytest.mark.parametrize("dies", [False, True], ids=["helpers", "helpers that die"])
async def test_helpers_recover_the_same_logs_as_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    monkeypatch.setattr(recovery_helpers, "WORTHWHILE_BYTES", 1)
    monkeypatch.setattr(log_manager, "PARTITION_BYTES_MIN", 1)
    monkeypatch.setattr(recovery_helpers, "PARCEL_PARTITIONS", 2)
    if dies:
        monkeypatch.setattr(recovery_helpers, "MODULE", "kwire.no_such_module")  # Python reports that on standard error
    found = []
    now_ms = Doors().clock.time_ms()
    for helpers in (True, False):
        path = tmp_path / str(helpers)
        await killed(path, 5, now_ms)
        logs = manager(path, helpers=helpers)
        steps: list[tuple[int, int, int]] = []
        await logs.load_all(lambda *step, steps=steps: steps.append(step))
        assert [done for done, _, _ in steps] == [1, 2, 3, 4, 5]
        assert steps[-1][2] > 0
        found.append({log.partition: facts(log) for log in logs})
        for log in logs:
            append(log)
        await logs.close()
    for number in range(5):
        for segments in (found[0][number]["segments"], found[1][number]["segments"]):
            assert segments
        assert {**found[0][number], "segments": strip(found[0][number])} == {
            **found[1][number],
            "segments": strip(found[1][number]),
        }


def strip(of: dict[str, Any]) -> list[Any]:
    """The segments without the texts about damage, whose paths differ."""
    return [(base, size, todo, [(each.position, each.end) for each in bad]) for base, size, todo, bad in of["segments"]]
