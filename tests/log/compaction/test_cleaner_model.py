"""After any sequence of writes, transactions, rolls, cleanings, days and restarts, a log holds what a model holds."""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from harness.simulation.disk import Disk
from harness.simulation.trace import Trace
from kwire.codec.records import Record, build_batch, iter_records
from kwire.codec.records.control import ABORT, COMMIT
from kwire.log.compaction.cleaner import CleanerSettings
from kwire.log.compaction.offset_map import ENTRY_BYTES
from kwire.log.partition.partition_log import PartitionLog
from tests.log.compaction.cleaner_tools import COMPACTED, Kept, Workshop, final_values, names_in, read_batches
from tests.log.log_tools import NOW_MS, ManualClock

CONFIG = dataclasses.replace(COMPACTED, internal_segment_bytes=1500)
KEYS = [b"", b"a", b"bb", b"c" * 32, b"d" * 33, b"d" * 32 + b"e", b"f" * 70]
VALUES = st.one_of(st.none(), st.binary(max_size=40))
HEADERS = st.sampled_from([[], [("h", b"1"), ("h", None)], [("", b"x" * 70)]])
RECORD = st.tuples(st.sampled_from(KEYS), VALUES, st.integers(-200, 200), HEADERS)

ACTIONS = st.one_of(
    st.tuples(
        st.just("produce"),
        st.lists(RECORD, min_size=1, max_size=6),
        st.sampled_from([0, 0, 1, 2, 3, 4]),
        st.sampled_from([-1, -1, 3, 4]),
    ),
    st.tuples(st.just("transaction"), st.lists(RECORD, min_size=1, max_size=3), st.sampled_from([COMMIT, ABORT])),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean")),
    st.tuples(st.just("day")),
    st.tuples(st.just("restart"), st.booleans()),
)


class History:
    """A log, and the model of what it must hold."""

    def __init__(self, map_keys: int) -> None:
        self.disk = Disk(Trace(lambda: 0.0), "disk", lambda: NOW_MS)
        self.clock = ManualClock()
        self.settings = CleanerSettings(dedupe_buffer_size=map_keys * ENTRY_BYTES, io_buffer_load_factor=1.0)
        self.shop = self.opened(clean=True)
        self.written: dict[int, Kept] = {}
        self.values: dict[bytes | None, bytes | None] = {}
        self.sequences: dict[int, int] = {3: 0, 4: 0, 5: 0}

    def opened(self, *, clean: bool) -> Workshop:
        return Workshop("/data", CONFIG, clock=self.clock, settings=self.settings, clean=clean, files=self.disk)

    async def run(self, action: tuple[Any, ...]) -> None:
        await getattr(self, action[0])(*action[1:])

    async def produce(self, records: list[Any], compression: int, producer: int) -> None:
        self._append(records, producer, commit=True, compression=compression)

    async def transaction(self, records: list[Any], ending: int) -> None:
        self._append(records, 5, commit=ending == COMMIT, is_transactional=True)
        self.shop.end_transaction(ending, 5)

    def _append(self, records: list[Any], producer: int, *, commit: bool, **how: Any) -> None:
        now = self.clock.now_ms
        made = [Record(timestamp=now + shift, key=k, value=v, headers=headers) for k, v, shift, headers in records]
        if producer >= 0:
            how |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequences[producer]}
            self.sequences[producer] += len(made)
        first = self.shop.append(build_batch(made, **how))
        for i, record in enumerate(made):
            self.written[first + i] = Kept(first + i, record.timestamp, record.key, record.value, tuple(record.headers))
            if commit:
                self.values[record.key] = record.value

    async def roll(self) -> None:
        self.shop.log.roll()

    async def clean(self) -> None:
        await self.shop.settle()

    async def day(self) -> None:
        self.clock.now_ms += 86_400_001

    async def restart(self, clean: bool) -> None:
        """A clean shutdown; or a kill, after which producers are read back from the batches."""
        before = self.shop
        expected = producers(before.log)
        if clean:
            before.log.close()
        else:
            for name in names_in(before.log, ".snapshot"):
                before.log.files.unlink(f"{before.log.directory}/{name}")
            before.log.release()
        await before.cleaner.checkpoints.settled()
        self.shop = self.opened(clean=clean)
        assert producers(self.shop.log) == expected
        assert self.shop.log.log_end_offset == before.log.log_end_offset
        self.shop.log.advance_high_watermark(self.shop.log.log_end_offset)

    def check(self) -> None:
        kept = self.shop.kept()
        offsets = [each.offset for each in kept]
        assert offsets == sorted(set(offsets))
        assert all(each == self.written[each.offset] for each in kept)
        alive = {key: value for key, value in self.values.items() if value is not None}
        assert final_values(committed(self.shop.log)) == alive
        for segment in self.shop.log.segments:
            segment.index.check(max(segment.size, 1))
            segment.time_index.check()


def producers(log: PartitionLog) -> dict[int, tuple[int, int, int]]:
    found = log.producer_state.producers
    return {pid: (entry.epoch, entry.last_sequence, entry.last_offset) for pid, entry in found.items()}


def committed(log: PartitionLog) -> list[Kept]:
    """What a read_committed consumer sees."""
    aborted = log.aborted_transactions(0, log.log_end_offset)
    found = []
    for header, data in read_batches(log):
        ranges = [each for each in aborted if each.producer_id == header.producer_id and header.is_transactional]
        if header.is_control or any(each.first_offset <= header.base_offset <= each.last_offset for each in ranges):
            continue
        for each in iter_records(data, max_bytes=1 << 20):
            found.append(Kept(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)))
    return found


@settings(max_examples=100, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(actions=st.lists(ACTIONS, min_size=5, max_size=40), map_keys=st.sampled_from([1, 3, 1000]))
async def test_content_per_key_offsets_order_and_producers_survive(
    actions: list[tuple[Any, ...]], map_keys: int
) -> None:
    history = History(map_keys)
    for action in actions:
        await history.run(action)
    await history.run(("roll",))
    await history.run(("clean",))
    history.check()
    await history.run(("restart", True))
    history.check()
    history.shop.log.close()
