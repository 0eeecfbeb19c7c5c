"""A log behaves like a list of batches, whatever is appended, truncated, deleted and reopened in whichever order."""

from __future__ import annotations

import tempfile
from itertools import accumulate
from random import Random

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

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


def test_index_lookup_equals_a_linear_search() -> None:
    from hypothesis import given

    from kwire.base.doors import Files

    anywhere = st.lists(st.integers(1, 2**31 - 1), unique=True, max_size=40).map(sorted)
    in_runs = st.lists(st.tuples(st.integers(1, 150), st.integers(1, 5000)), max_size=5).map(
        lambda runs: list(accumulate(step for count, step in runs for _ in range(count)))
    )  # batches of one size, then of another: places are guessed right, or wrong by a few or by many

    @settings(max_examples=300, deadline=None)
    @given(st.one_of(anywhere, in_runs), st.integers(-2, 2**31 - 1), st.sampled_from([None, -1, 0, 1]), st.randoms())
    def check(offsets: list[int], wanted: int, beside: int | None, random: Random) -> None:
        index = OffsetIndex(Files(), "/nowhere", new=True)
        for i, offset in enumerate(offsets):
            index.append(offset, i * 100)
        if offsets and beside is not None:
            wanted = random.choice(offsets) + beside
        below = [i * 100 for i, offset in enumerate(offsets) if offset <= wanted]
        assert index.lookup(wanted) == (below[-1] if below else 0)

    check()
