"""The share coordinator on a log: what is pruned, and when."""

from __future__ import annotations

import pytest

from kwire.base.doors import Doors
from kwire.coordinator.runtime.runtime import Phase
from kwire.coordinator.share.coordinator import ShareCoordinator
from tests.coordinator.share.test_share_shard import Settings


class Log:
    """Notes what is deleted."""

    def __init__(self) -> None:
        self.log_start_offset = self.log_end_offset = self.high_watermark = 0
        self.deleted: list[int] = []

    def delete_records_before(self, offset: int) -> int:
        assert offset <= self.high_watermark
        self.deleted.append(offset)
        self.log_start_offset = offset
        return offset


class Shard:
    """In the place of a shard: an offset that may be deleted."""

    offset: int | None = None

    def redundant_offset(self) -> int | None:
        return self.offset


class Runtime:
    def __init__(self, phase: Phase) -> None:
        self.phase = phase
        self.partition = self
        self.log = Log()
        self.shard = Shard()


@pytest.fixture
def runtime() -> Runtime:
    return Runtime(Phase.ACTIVE)


def coordinator(runtime: Runtime) -> ShareCoordinator:
    made = ShareCoordinator(Doors(), Settings(), None, None)  # type: ignore[arg-type]
    made._runtimes[0] = runtime  # type: ignore[assignment]
    return made


def test_committed_records_are_deleted_at_once(runtime: Runtime) -> None:
    shares, log = coordinator(runtime), runtime.log
    log.log_end_offset = log.high_watermark = 9
    shares.prune()
    runtime.shard.offset = 7
    shares.prune()
    shares.prune()
    assert log.deleted == [7]
    assert shares.measured.pruned == {0: 7}


def test_nothing_is_deleted_for_a_snapshot_that_may_be_lost(runtime: Runtime) -> None:
    """Offset 5 is superfluous because of the snapshot at 9, which no follower has yet: if this leader fails, the next
    one needs the record at 4."""
    shares, log = coordinator(runtime), runtime.log
    runtime.shard.offset, log.log_end_offset, log.high_watermark = 5, 10, 8
    shares.prune()
    assert log.deleted == []
    runtime.shard.offset, log.log_end_offset, log.high_watermark = 9, 20, 9
    shares.prune()
    assert log.deleted == []
    log.high_watermark = 10
    shares.prune()
    assert log.deleted == [5]  # what was noted first; 9 is noted with the next call
    shares.prune()
    assert log.deleted == [5]
    log.high_watermark = 20
    shares.prune()
    assert log.deleted == [5, 9]
