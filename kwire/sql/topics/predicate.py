"""`Predicate`: which offsets a filter can want.

DuckDB gives a scan the part of a WHERE clause that is about single columns, as an Arrow expression, wherever in the
query it stands. Arrow simplifies an expression by what is known of a fragment (its partition expression) and leaves out
fragments that cannot have a row. So a question to a filter is a fragment without rows: "can a record of partition 3
before offset 500 match?" The answer no is proven; all else is yes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kwire.arrow.reading import ENDLESS_US
from kwire.sql.topics.spans import Span

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

_PIECES_MAX: Final = 256
_PIECE_MIN: Final = 1024
"""A span is looked at in pieces of so many offsets at least, and so many pieces at most."""
_TIMES_MS: Final = (-(2**53), 2**53)
"""Timestamps that a column of microseconds can hold lie between these."""
_MICROSECONDS: Final = 1000


class Predicate:
    """A filter on ``partition``, ``offset`` and ``timestamp``, and on other columns of which nothing is known.
    ``columns``: those of the topic; without it, with bytes as key and value."""

    def __init__(self, expression: pc.Expression | None, columns: pa.Schema | None = None) -> None:
        self._expression = expression
        self._columns = columns

    def may_match(self, partition: int, span: Span, latest_ms: int | None = None) -> bool:
        """Whether a record of these offsets may match, of which none is later than ``latest_ms``."""
        if self._expression is None:
            return span.size > 0
        known = _offsets(partition, span)
        if latest_ms is not None:
            known = known & (_field("timestamp") <= _instant(latest_ms))
        return span.size > 0 and self._can_be(known)

    def earliest_ms(self, partition: int, span: Span) -> int | None:
        """A time before which no record of these offsets matches; None if there is none."""
        if self._expression is None:
            return None
        low, high = _TIMES_MS
        known = _offsets(partition, span)
        if self._can_be(known & (_field("timestamp") < _instant(low + 1))):
            return None
        while high - low > 1:  # nothing matches before low
            middle = (low + high) // 2
            if self._can_be(known & (_field("timestamp") < _instant(middle))):
                high = middle
            else:
                low = middle
        return low

    def latest_ms(self, partition: int, span: Span) -> int | None:
        """A time after which no record of these offsets matches; None if there is none."""
        if self._expression is None:
            return None
        low, high = _TIMES_MS
        known = _offsets(partition, span)
        if self._can_be(known & (_field("timestamp") > _instant(high - 1))):
            return None
        while high - low > 1:  # nothing matches after high
            middle = (low + high) // 2
            if self._can_be(known & (_field("timestamp") > _instant(middle))):
                low = middle
            else:
                high = middle
        return high

    def spans(self, partition: int, span: Span) -> list[Span]:
        """The parts of a span that may have matching records, in order."""
        if self._expression is None:
            return [span] if span.size else []
        piece = max(_PIECE_MIN, span.size // _PIECES_MAX)
        found: list[Span] = []
        for each in self._pieces(partition, span, piece):
            if found and found[-1].end == each.start:
                found[-1] = Span(found[-1].start, each.end)
            else:
                found.append(each)
        return [self._trimmed(partition, each) for each in found]

    def _pieces(self, partition: int, span: Span, piece: int) -> list[Span]:
        if not self.may_match(partition, span):
            return []
        if span.size <= piece:
            return [span]
        middle = (span.start + span.end) // 2
        return [
            *self._pieces(partition, Span(span.start, middle), piece),
            *self._pieces(partition, Span(middle, span.end), piece),
        ]

    def _trimmed(self, partition: int, span: Span) -> Span:
        """Without offsets at its ends that cannot match."""
        start, past = span.start, span.end  # nothing matches before start
        while past - start > 1:
            middle = (start + past) // 2
            if self.may_match(partition, Span(span.start, middle)):
                past = middle
            else:
                start = middle
        end, before = span.end, start  # nothing matches from end on
        while end - before > 1:
            middle = (end + before) // 2
            if self.may_match(partition, Span(middle, span.end)):
                before = middle
            else:
                end = middle
        return Span(start, end)

    def _can_be(self, known: Any) -> bool:
        """Whether a row of which ``known`` holds may match."""
        import pyarrow.dataset as ds

        form, files, plain = _nowhere()
        columns = plain if self._columns is None else self._columns
        fragment = form.make_fragment("none", files, partition_expression=known)
        found = ds.FileSystemDataset([fragment], columns, form, files).get_fragments(filter=self._expression)
        return next(found, None) is not None


@cache
def _nowhere() -> tuple[Any, Any, Any]:
    """What a fragment needs beside its expression; no file is opened."""
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    from kwire.sql.topics.columns import schema

    return ds.IpcFileFormat(), LocalFileSystem(), schema("blob", "blob", marked=False)


def _offsets(partition: int, span: Span) -> Any:
    offset = _field("offset")
    return (_field("partition") == partition) & (offset >= span.start) & (offset < span.end)


def _field(name: str) -> Any:
    import pyarrow.compute as pc

    return pc.field(name)


def _instant(milliseconds: int) -> Any:
    import pyarrow as pa

    return pa.scalar(min(milliseconds * _MICROSECONDS, ENDLESS_US), pa.timestamp("us", tz="UTC"))
