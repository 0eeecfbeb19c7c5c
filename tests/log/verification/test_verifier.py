"""Data found on disk at start is verified when it is first read, while the log takes appends."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.codec.records import ABORT, build_control_batch
from kwire.log.common.append_info import Origin
from kwire.log.common.log_config import LogConfig
from kwire.log.partition.partition_log import PartitionLog
from tests.log.log_tools import NOW_MS, append, open_log, read_all


def aborted(log: PartitionLog, producer_id: int) -> int:
    """Append a transaction and its abort; its first offset."""
    first = append(log, 2, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = build_control_batch(
        ABORT, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
    )
    log.append_as_leader(memoryview(bytearray(marker)), leader_epoch=0, origin=Origin.COORDINATOR)
    log.advance_high_watermark(log.log_end_offset)
    return first


def test_aborts_between_a_start_and_a_roll_are_known_after_the_first_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = open_log(tmp_path, LogConfig())
    found = [aborted(log, 1)]
    append(log)
    end = log.log_end_offset
    log.close()
    log = open_log(tmp_path, LogConfig(), clean=True, recovery_point=end)
    found.append(aborted(log, 2))
    log.roll()
    found.append(aborted(log, 3))
    assert len(read_all(log)) == 7
    assert [each.first_offset for each in log.aborted_transactions(0, log.log_end_offset)] == found
    assert "rebuilt" not in capfd.readouterr().err
    log.close()
    log = open_log(tmp_path, LogConfig(), clean=True, recovery_point=log.log_end_offset)
    assert len(read_all(log)) == 7
    assert [each.first_offset for each in log.aborted_transactions(0, log.log_end_offset)] == found
