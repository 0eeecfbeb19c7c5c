"""`DirectoryTopics`: topics of data directories, read without a broker. A filter by time skips segments, and the
beginning of the first one that is read, by their time indexes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kwire.arrow.errors import ReadError
from kwire.arrow.files import segments as files
from kwire.arrow.files.directory import DataDirectory
from kwire.arrow.files.segments import FileRange
from kwire.arrow.ranges import Range
from kwire.arrow.reading import Reading
from kwire.log.common import names
from kwire.log.segment.indexes import TimeIndex
from kwire.sql.topics.predicate import Predicate
from kwire.sql.topics.source import Counts, Part
from kwire.sql.topics.spans import Span, Spans

if TYPE_CHECKING:
    import pyarrow as pa


class _Segment(NamedTuple):
    """Offsets of a query that lie in one segment, and its time index if the segment is closed and has one."""

    base: int
    span: Span
    times: TimeIndex | None

    @property
    def latest_ms(self) -> int | None:
        """No record of the segment is later; None if that is not known."""
        last = self.times.last() if self.times is not None else None
        return None if last is None else last[0]


class DirectoryTopics:
    """Topics of one or more data directories of a broker (its ``log.dirs``), or of copies of them. Of two copies of
    a partition the one that has more is read.

    ``in_time_order``: in each partition timestamps do not fall, so that a filter's latest time ends it as well."""

    def __init__(self, paths: Sequence[str], *, in_time_order: bool = False) -> None:
        self._directories = [DataDirectory(path) for path in paths]
        self._in_time_order = in_time_order

    @property
    def where(self) -> str:
        """The paths."""
        return ", ".join(each.path for each in self._directories)

    def topics(self) -> list[str]:
        """The names of all topics, sorted. `ReadError`."""
        return sorted({topic for each in self._directories for topic, _ in each.partitions()})

    def spans(self, topic: str) -> Spans:
        """What may be read of each partition. `ReadError`."""
        found: Spans = {}
        for directory in self._directories:
            for name, number in directory.partitions():
                if name == topic:
                    visible = directory.visible((name, number), committed=True)
                    if number not in found or visible.end > found[number].end:
                        found[number] = Span(visible.start, visible.end)
        return found

    def parts(self, topic: str, spans: Spans, predicate: Predicate, counts: Counts) -> list[Part]:
        """The parts of these spans that may have matching records. `ReadError`."""
        found: list[Part] = []
        counts.offsets_there = sum(each.size for each in spans.values())
        for number, span in sorted(spans.items()):
            directory = self._holder(topic, number, span.end)
            there = _segments(directory, topic, number, span)
            counts.segments_there += len(there)
            if not predicate.may_match(number, span):
                continue
            wanted = self._wanted(there, number, predicate)
            counts.segments += len({base for base, _ in wanted})
            identity = directory.identity((topic, number), span.end)
            for each in _merged([part for _, part in wanted]):
                counts.offsets += each.size
                planned = FileRange(Range(topic, number, *each), span.end, identity)
                found.append(Part(number, each, partial(self._read, directory.path, planned)))
        return found

    def _read(self, path: str, planned: FileRange, how: Reading) -> Iterator[pa.RecordBatch]:
        return files.read(path, how, planned)

    def _holder(self, topic: str, number: int, end: int) -> DataDirectory:
        """The directory with these offsets. `ReadError`."""
        for directory in self._directories:
            if (topic, number) in directory.partitions() and directory.high_watermark((topic, number)) >= end:
                return directory
        raise ReadError(f"{topic}-{number}: no directory has offsets up to {end} any more; read again")

    def _wanted(self, there: list[_Segment], number: int, predicate: Predicate) -> list[tuple[int, Span]]:
        """The base offsets of the segments that may have matching records, and which of their offsets."""
        found: list[tuple[int, Span]] = []
        for segment in there:
            if not predicate.may_match(number, segment.span, segment.latest_ms):
                continue
            span = _after(segment, predicate.earliest_ms(number, segment.span))
            found += [(segment.base, each) for each in predicate.spans(number, span)]
        if self._in_time_order and found and there:
            return self._before_latest(there, number, predicate, found)
        return found

    def _before_latest(
        self, there: list[_Segment], number: int, predicate: Predicate, found: list[tuple[int, Span]]
    ) -> list[tuple[int, Span]]:
        """Without the segments behind the first one whose last record is later than all that is wanted."""
        hull = Span(found[0][1].start, found[-1][1].end)
        latest = predicate.latest_ms(number, hull)
        if latest is None:
            return found
        past = next((s.span.end for s in there if s.latest_ms is not None and s.latest_ms > latest), hull.end)
        return [(base, span) for base, span in found if span.start < past]


def _segments(directory: DataDirectory, topic: str, number: int, span: Span) -> list[_Segment]:
    """The segments with offsets of a span. The last one of the partition has no time index: it may lag behind."""
    folder = directory.folder((topic, number))
    bases = directory.segments((topic, number))
    found = []
    for base, following in pairwise([*bases, None]):
        assert base is not None
        part = Span(max(base, span.start), span.end if following is None else min(following, span.end))
        if part.size:
            found.append(_Segment(base, part, None if following is None else _times(directory, folder, base)))
    return found


def _times(directory: DataDirectory, folder: str, base: int) -> TimeIndex | None:
    """The time index of a closed segment; None if it says nothing: a copy without it, or zeros after a crash."""
    path = os.path.join(folder, names.file_name(base, names.TIME_INDEX_SUFFIX))
    index = TimeIndex(directory.files, path, new=False)
    try:
        entries = list(index.entries())
    except OSError:
        return None
    rises = all(before[0] < after[0] and before[1] <= after[1] for before, after in pairwise(entries))
    return index if rises and entries and entries[-1] != (0, 0) else None


def _after(segment: _Segment, earliest_ms: int | None) -> Span:
    """The offsets behind those of which the time index says that they are too early."""
    span = segment.span
    if earliest_ms is None or segment.times is None:
        return span
    entry = segment.times.lookup(earliest_ms - 1)
    return Span(min(max(span.start, segment.base + entry), span.end), span.end)


def _merged(spans: list[Span]) -> list[Span]:
    """Neighbours as one."""
    found: list[Span] = []
    for each in spans:
        if found and found[-1].end == each.start:
            found[-1] = Span(found[-1].start, each.end)
        else:
            found.append(each)
    return found
