"""A log behaves like a list of batches, whatever is appended, truncated, deleted and reopened in whichever order."""

from __future__ import annotations

import tempfile
from itertools import accumulate

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kwire.base.doors import Files
from kwire.log.common.log_config import LogConfig
from kwire.log.segment.indexes import OffsetIndex
from tests.log.log_tools import NOW_MS, ManualClock, append, headers, open_log

CONFIG = LogConfig(internal_segment_bytes=700, index_interval_bytes=150, message_timestamp_after_max_ms=10**12)


class LogMachine(RuleBasedStateMachine):
    """The model: (first offset, last offset, highest timestamp) of every batch, and the bounds of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.log = open_log(self.folder.name, CONFIG, clock=self.clock)
        self.batches: list[tuple[int, int, int]] = []
        self.start, self.end, self.epoch = 0, 0, 0

    @rule(count=st.integers(1, 5), size=st.integers(0, 100), shift=st.integers(-500, 500), bump=st.booleans())
    def append(self, count: int, size: int, shift: int, bump: bool) -> None:
        self.epoch += bump
        assert append(self.log, count, size=size, timestamp=NOW_MS + shift, epoch=self.epoch) == self.end
        self.batches.append((self.end, self.end + count - 1, NOW_MS + shift + count - 1))
        self.end += count

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        if not self.batches:
            return
        offset = data.draw(st.sampled_from([first for first, _, _ in self.batches]))
        self.log.truncate_to(offset)
        self.batches = [each for each in self.batches if each[0] < offset]
        self.end = offset
        self.start = min(self.start, offset)
        if offset < self.log.segments[0].base_offset or not self.batches:
            self.batches = [each for each in self.batches if each[0] >= self.log.segments[0].base_offset]

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        assert self.log.delete_records_before(offset) == offset
        self.start = offset
        base = self.log.segments[0].base_offset
        self.batches = [each for each in self.batches if each[0] >= base]

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        recovery_point = self.log.recovery_point
        if clean:
            self.log.close()
            recovery_point = self.end
        else:
            self.log.release()  # as it was when the process was killed
        self.log = open_log(
            self.folder.name,
            CONFIG,
            clock=self.clock,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=self.start,
            high_watermark=self.end,
        )

    @invariant()
    def bounds_are_the_models(self) -> None:
        log = self.log
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (self.start, self.end, self.end)
        assert log.segments[0].base_offset <= self.start

    @invariant()
    def every_offset_is_found_in_its_batch(self) -> None:
        for first, last, _ in self.batches:
            for offset in {max(first, self.start), last}:
                if not self.start <= offset <= last:
                    continue
                header = headers(self.log.read(offset, 1, upto=self.end))[0]
                assert (header.base_offset, header.last_offset) == (first, last)

    @invariant()
    def indexes_agree_with_a_walk_through_the_segments(self) -> None:
        for segment in self.log.segments:
            end = segment.size
            for relative_offset, position in segment.index.entries():
                found = segment.find(segment.base_offset + relative_offset)
                assert found is not None
                assert found.last_offset == segment.base_offset + relative_offset
                assert found.position == position < end

    @invariant()
    def epochs_rise_with_offsets_and_lie_in_the_log(self) -> None:
        entries = self.log.epochs.entries
        assert list(entries) == sorted(entries)
        assert all(entry.start_offset <= self.end for entry in entries)

    def teardown(self) -> None:
        self.log.release()
        self.folder.cleanup()


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def index_of(offsets: list[int]) -> OffsetIndex:
    """An index with these relative offsets, at positions 0, 100, 200 ..."""
    index = OffsetIndex(Files(), "/nowhere", new=True)
    for number, offset in enumerate(offsets):
        index.append(offset, number * 100)
    return index


def position_in(offsets: list[int], wanted: int) -> int:
    """What a linear search finds."""
    below = [number * 100 for number, offset in enumerate(offsets) if offset <= wanted]
    return below[-1] if below else 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 2**31 - 1), unique=True, max_size=40).map(sorted), st.integers(-2, 2**31 - 1))
def test_index_lookup_equals_a_linear_search(offsets: list[int], wanted: int) -> None:
    assert index_of(offsets).lookup(wanted) == position_in(offsets, wanted)


@pytest.mark.parametrize("steps", [[1], [7], [1, 40], [40, 1], [3, 90, 2], [1, 2, 3, 1000]])
def test_index_lookup_finds_every_entry_whether_its_place_is_guessed_or_not(steps: list[int]) -> None:
    offsets = list(accumulate(step for step in steps for _ in range(120)))  # batches of one size, then of another
    index = index_of(offsets)
    for entry in (0, *offsets):
        for wanted in (entry - 1, entry, entry + 1):
            assert index.lookup(wanted) == position_in(offsets, wanted), wanted
