"""Proof of delivery: the sequence numbers of producers, straight from a log.

A producer with idempotence numbers its records in each partition from 0, anew in each epoch. So a log shows whether
all of them are there, once: a number that is left out is a gap, one that comes again is repeated. Numbers before the
first that is there may have been deleted by retention, which is no fault. Compaction leaves gaps behind; a compacted
topic proves nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kwire.arrow.errors import ReadError
from kwire.arrow.files.directory import DataDirectory
from kwire.arrow.ranges import Range
from kwire.audit.ends import DirectoryEnd, TopicEnd
from kwire.audit.planning import Plan
from kwire.audit.rows import ProducerRow
from kwire.cli.connection.cluster import Cluster
from kwire.cli.records.columns import Columns
from kwire.cli.records.reading import Reader
from kwire.codec.errors import CodecError
from kwire.codec.records import BatchHeader, Buffer
from kwire.log.common import names
from kwire.log.segment.batch_scan import CorruptLog, scan
from kwire.log.segment.indexes import TransactionIndex

_SEQUENCES: Final = 1 << 31
"""After the last sequence number comes 0 again."""
NO_ID: Final = -1


class Sequences:
    """The batches of one producer, in one epoch, in one partition, in the order of the log."""

    def __init__(self) -> None:
        self.batches = self.records = self.aborted = self.missing = self.repeated = 0
        self.first = self._next = -1

    def add(self, header: BatchHeader) -> None:
        """Count a batch."""
        self.batches += 1
        self.records += header.count
        if header.producer_id == NO_ID:
            return
        if self.first < 0:
            self.first = header.base_sequence
        else:
            step = (header.base_sequence - self._next) % _SEQUENCES
            if step >= _SEQUENCES // 2:  # before what has been there already
                self.repeated += min(_SEQUENCES - step, header.last_offset_delta + 1)
                return
            self.missing += step
        self._next = (header.base_sequence + header.last_offset_delta + 1) % _SEQUENCES

    @property
    def last(self) -> int:
        """The last sequence number; -1 if there is none."""
        return (self._next - 1) % _SEQUENCES if self.first >= 0 else -1


class _Ledger:
    """The sequences of all producers of a topic."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._found: dict[tuple[int, int, int], Sequences] = {}

    def of(self, partition: int, header: BatchHeader) -> Sequences:
        epoch = header.producer_epoch if header.producer_id != NO_ID else NO_ID
        return self._found.setdefault((partition, header.producer_id, epoch), Sequences())

    def rows(self) -> list[ProducerRow]:
        return [
            ProducerRow(
                topic=self._topic,
                partition=partition,
                producer_id=producer,
                epoch=epoch,
                batches=each.batches,
                records=each.records,
                aborted=each.aborted,
                first_sequence=each.first,
                last_sequence=each.last,
                from_start=each.first == 0,
                missing=each.missing,
                repeated=each.repeated,
            )
            for (partition, producer, epoch), each in sorted(self._found.items())
        ]


def producers(plan: Plan, say: Callable[[int], None]) -> list[ProducerRow]:
    """What each producer has written to the topic of a plan, which was made with ``committed=False``. `ReadError`,
    `CommandError`."""
    if isinstance(plan.end, DirectoryEnd):
        return _of_directory(plan, plan.end, say)
    assert isinstance(plan.end, TopicEnd)
    return asyncio.run(_of_topic(plan, plan.end, say))


async def _of_topic(plan: Plan, end: TopicEnd, say: Callable[[int], None]) -> list[ProducerRow]:
    ledger = _Ledger(end.topic)
    is_transactional = False

    def note(topic: str, partition: int, batch: Buffer, header: BatchHeader) -> Columns:
        nonlocal is_transactional
        ledger.of(partition, header).add(header)
        is_transactional = is_transactional or header.is_transactional
        return _nothing(topic, partition, header)

    await _read(plan, end, note, say, committed=False)
    if is_transactional:  # what is committed, to tell the rest
        stands: dict[tuple[int, int, int], int] = {}

        def count(topic: str, partition: int, batch: Buffer, header: BatchHeader) -> Columns:
            place = (partition, header.producer_id, header.producer_epoch)
            stands[place] = stands.get(place, 0) + header.count
            return _nothing(topic, partition, header)

        await _read(plan, end, count, say, committed=True)
        return [_with_aborted(row, stands) for row in ledger.rows()]
    return ledger.rows()


def _with_aborted(row: ProducerRow, stands: dict[tuple[int, int, int], int]) -> ProducerRow:
    if row.producer_id == NO_ID:
        return row
    return row._replace(aborted=row.records - stands.get((row.partition, row.producer_id, row.epoch), 0))


def _nothing(topic: str, partition: int, header: BatchHeader) -> Columns:
    return Columns(topic, partition, (), (), (), (), {}, header.next_offset)


async def _read(
    plan: Plan,
    end: TopicEnd,
    decode: Callable[[str, int, Buffer, BatchHeader], Columns],
    say: Callable[[int], None],
    *,
    committed: bool,
) -> None:
    starts: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    for each in plan.ranges:
        starts.setdefault((each.topic, each.partition), each.start)
        ends[each.topic, each.partition] = each.end
    if not starts:
        return
    cluster = Cluster.of(end.bootstrap, end.properties, end.timeout_s)
    try:
        reader = Reader(cluster, starts, ends, committed=committed, timeout_s=end.timeout_s, decode=decode)
        async for columns in reader.batches():
            say(columns.next_offset)
    finally:
        cluster.close()


def _of_directory(plan: Plan, end: DirectoryEnd, say: Callable[[int], None]) -> list[ProducerRow]:
    ledger = _Ledger(end.topic)
    directory = DataDirectory(end.path)
    wanted: dict[int, Range] = {}
    for each in plan.files:
        whole = wanted.get(each.wanted.partition, each.wanted)
        wanted[each.wanted.partition] = whole._replace(end=each.wanted.end)
    for partition, whole in wanted.items():
        try:
            aborted = _aborted(directory, whole)
            for header in _headers(directory, whole):
                sequences = ledger.of(partition, header)
                sequences.add(header)
                spans = aborted.get(header.producer_id, ())
                if header.is_transactional and any(first <= header.base_offset <= last for first, last in spans):
                    sequences.aborted += header.count
                say(header.next_offset)
        except (CorruptLog, CodecError) as error:
            raise ReadError(f"{end.topic}-{partition}: {error}") from None
        except OSError as error:
            raise ReadError(f"{error.filename}: {error.strerror}: it was deleted meanwhile; read again") from None
    return ledger.rows()


def _headers(directory: DataDirectory, whole: Range) -> Iterator[BatchHeader]:
    """The headers of data batches, whose checksums are right."""
    place = (whole.topic, whole.partition)
    for base in directory.segments(place):
        path = f"{directory.folder(place)}/{names.file_name(base, names.LOG_SUFFIX)}"
        fd = directory.files.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for batch in scan(directory.files, fd, path, 0, directory.files.size(fd), check_crc=True):
                if batch.header.base_offset >= whole.end:
                    return
                if batch.header.base_offset >= whole.start and not batch.header.is_control:
                    yield batch.header
        finally:
            directory.files.close(fd)


def _aborted(directory: DataDirectory, whole: Range) -> dict[int, list[tuple[int, int]]]:
    """Offsets of aborted transactions, by their producers' ids."""
    place, found = (whole.topic, whole.partition), dict[int, list[tuple[int, int]]]()
    for base in directory.segments(place):
        path = f"{directory.folder(place)}/{names.file_name(base, names.TXN_INDEX_SUFFIX)}"
        for each in TransactionIndex(directory.files, path, new=False).entries():
            found.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
    return found


class Proof(NamedTuple):
    """What the sequences say. ``faults``: by kind."""

    rows: list[ProducerRow]
    records: int
    faults: dict[str, int]


def proof(rows: list[ProducerRow], expected: int | None) -> Proof:
    """Sum up; ``expected`` is the number of records that stand, if that is known."""
    records = sum(each.records - each.aborted for each in rows)
    faults = {
        "gap": sum(each.missing for each in rows),
        "repeated": sum(each.repeated for each in rows),
        "count": abs(records - expected) if expected is not None else 0,
    }
    return Proof(rows, records, {kind: count for kind, count in faults.items() if count})
