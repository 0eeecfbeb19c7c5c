"""A crash at every single step of a cleaning, by kill and by power loss, and in the recovery after it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from harness.simulation.disk import Disk, Inode
from harness.simulation.trace import Trace
from kwire.codec.records.control import ABORT, COMMIT
from kwire.log.compaction.segment_swap import CleaningAborted, SegmentSwap
from tests.log.compaction.cleaner_tools import COMPACTED, Kept, Workshop, final_values, names_in, read_batches
from tests.log.log_tools import NOW_MS, ManualClock

DAY_MS = 86_400_000
CONFIG = dataclasses.replace(COMPACTED, internal_segment_bytes=1500)
CHANGING = ("pwrite", "fsync", "ftruncate", "replace", "unlink", "utime", "sync_dir")


class Crash(BaseException):
    """The process dies here."""


@pytest.fixture(autouse=True)
async def nobody_asks_for_tasks_of_the_dead() -> None:
    """Keep their tracebacks from being printed whenever garbage is collected."""

    def tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), Crash):
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(tell)


class MortalDisk(Disk):
    """A disk on which the process dies before the n-th change."""

    def __init__(self) -> None:
        super().__init__(Trace(lambda: 0.0), "disk", lambda: NOW_MS)
        self.steps_left = -1  # -1: immortal
        self.dead = False
        for name in CHANGING:
            setattr(self, name, self._mortal(getattr(self, name)))

    def _mortal(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.dead or self.steps_left == 0:
                self.dead = True
                raise Crash
            self.steps_left -= self.steps_left > 0
            return function(*args, **kwargs)

        return call

    def reborn(self, *, power_loss: bool) -> None:
        """Restart the machine."""
        if power_loss:
            self.lose_unsynced()
        else:
            self._open.clear()
        self.dead, self.steps_left = False, -1

    def settle(self) -> None:
        """Put everything written so far on stable storage."""
        for inode in self._files.values():
            inode.undo.clear()
        self._undo_names.clear()


def fill(shop: Workshop) -> None:
    """Several groups of several segments: values, tombstones, compressed batches, transactions, producers."""
    for i in range(18):
        key = b"key-%d" % (i % 5)
        shop.produce((key, b"%d" % i * 12), (b"once-%d" % i, b"%d" % i * 8), compression=(0, 3)[i % 3 == 0])
        if i % 4 == 3:
            shop.produce((b"once-%d" % (i - 2), None), producer_id=50 + i, producer_epoch=1, base_sequence=0)
        if i % 6 == 5:
            how: dict[str, Any] = {"producer_id": i, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
            shop.produce((b"key-1", b"of transaction %d" % i), **how)
            shop.end_transaction((COMMIT, ABORT)[i % 12 == 5], i)
        if i % 2:
            shop.log.roll()


async def prepared() -> MortalDisk:
    """A log that was cleaned once and has been written to since; closed."""
    disk = MortalDisk()
    shop = Workshop("/data", CONFIG, files=disk)
    fill(shop)
    await shop.settle()
    fill(shop)
    await shop.cleaner.checkpoints.settled()
    shop.log.close()
    disk.settle()
    return disk


def opened(disk: MortalDisk) -> tuple[MortalDisk, Workshop]:
    """A copy of a prepared disk, and the log on it a day later, when its tombstones can be removed."""
    copy = MortalDisk()
    copy.makedirs("/data/t-0")
    for number, (path, inode) in enumerate(disk._files.items()):
        copy._files[path] = Inode(number, NOW_MS)
        copy._files[path].data += inode.data
    shop = Workshop("/data", CONFIG, files=copy, clock=ManualClock(NOW_MS + DAY_MS))
    shop.log.advance_high_watermark(shop.log.log_end_offset)
    return copy, shop


def reopened(disk: MortalDisk, before: Workshop) -> Workshop:
    return Workshop("/data", CONFIG, files=disk, clean=False, recovery_point=before.log.recovery_point)


def check(shop: Workshop, before: list[Kept], cleaned: list[Kept], end_offset: int) -> None:
    after = shop.kept()
    assert shop.log.log_end_offset == end_offset
    assert final_values(after) == final_values(before)
    offsets = [each.offset for each in after]
    assert offsets == sorted(set(offsets))
    assert set(cleaned) <= set(after) <= set(before)
    assert names_in(shop.log, ".cleaned", ".swap", ".deleted") == []
    bounds = [(header.base_offset, header.last_offset) for header, _ in read_batches(shop.log)]
    assert all(last < base for (_, last), (base, _) in pairwise(bounds))


@pytest.mark.parametrize("power_loss", [False, True], ids=["killed", "power loss"])
async def test_a_crash_at_any_step_of_a_cleaning_loses_nothing(power_loss: bool) -> None:
    """Catches the mutant that swaps before the sync: a power loss takes the new segment."""
    source = await prepared()
    disk, shop = opened(source)
    assert len(shop.log.segments) > 10
    before, end_offset = shop.kept(), shop.log.log_end_offset
    aborted = shop.log.aborted_transactions(0, end_offset)
    assert await shop.clean()
    cleaned = shop.kept()
    assert len(cleaned) < len(before) and len(aborted) > 1
    step, finished = 0, False
    while not finished:
        disk, shop = opened(source)
        disk.steps_left = step
        try:
            finished = await shop.clean()
            await shop.cleaner.checkpoints.settled()
        except Crash:
            pass
        disk.reborn(power_loss=power_loss)
        again = reopened(disk, shop)
        check(again, before, cleaned, end_offset)
        assert {each.first_offset for each in again.log.aborted_transactions(0, end_offset)} <= {
            each.first_offset for each in aborted
        }
        step += 1
    assert step > 60


async def test_a_crash_at_any_step_of_the_recovery_after_it_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(self: SegmentSwap, size: int) -> None:
        raise Crash

    source = await prepared()
    before = opened(source)[1].kept()

    async def swap_under_way() -> tuple[MortalDisk, Workshop]:
        disk, shop = opened(source)
        with monkeypatch.context() as patch:
            patch.setattr(SegmentSwap, "_swap", dies)
            with pytest.raises(Crash):
                await shop.clean()
        disk.reborn(power_loss=False)
        return disk, shop

    disk, shop = await swap_under_way()
    assert len(names_in(shop.log, ".swap")) >= 3
    cleaned = reopened(disk, shop).kept()
    step, finished = 0, False
    while not finished:
        disk, shop = await swap_under_way()
        disk.steps_left = step
        try:
            reopened(disk, shop)
            finished = True
        except Crash:
            pass
        disk.reborn(power_loss=False)
        check(reopened(disk, shop), before, cleaned, shop.log.log_end_offset)
        step += 1
    assert step > 5


async def test_a_crash_at_any_step_of_an_undo_loses_nothing() -> None:
    """The log is no longer compacted when the `.swap` files exist already."""
    source = await prepared()
    before = opened(source)[1].kept()

    async def aborted(steps: int) -> tuple[MortalDisk, Workshop, bool]:
        disk, shop = opened(source)
        checks = 0

        def fail_late(swap: SegmentSwap) -> None:
            nonlocal checks
            checks += 1
            if checks == 4:  # before the work, before and after the first sync, before the swap
                assert names_in(shop.log, ".log.swap")
                disk.steps_left = steps
                raise CleaningAborted("a test")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SegmentSwap, "check", fail_late)
            try:
                await shop.clean()
            except Crash:
                return disk, shop, False
        return disk, shop, True

    step, finished = 0, False
    while not finished:
        disk, shop, finished = await aborted(step)
        if finished:
            assert names_in(shop.log, ".cleaned", ".swap") == []
        disk.reborn(power_loss=False)
        again = reopened(disk, shop)
        check(again, before, [], shop.log.log_end_offset)
        step += 1
    assert step > 3 and again.kept() == before
