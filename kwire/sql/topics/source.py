"""What brokers and data directories have in common: `Source`, and the parts of a topic that a scan reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kwire.arrow.reading import Reading
from kwire.sql.topics.predicate import Predicate
from kwire.sql.topics.spans import Span, Spans

if TYPE_CHECKING:
    import pyarrow as pa


class Part(NamedTuple):
    """Offsets of one partition, and how they are read: `read` gives Arrow batches with the columns of `kwire.arrow`."""

    partition: int
    span: Span
    read: Callable[[Reading], Iterator[pa.RecordBatch]]


@dataclass
class Counts:
    """What a scan of a topic has read of what there is. ``segments`` are 0 when brokers read them."""

    offsets: int = 0
    offsets_there: int = 0
    segments: int = 0
    segments_there: int = 0
    records: int = 0


class Source(Protocol):
    """Where topics are. All methods raise `ReadError` or `CommandError`."""

    @property
    def where(self) -> str:
        """Addresses or a path, for messages."""

    def topics(self) -> list[str]:
        """The names of all topics, sorted."""

    def spans(self, topic: str) -> Spans:
        """What may be read now: from the first offset there is to the last stable one."""

    def parts(self, topic: str, spans: Spans, predicate: Predicate, counts: Counts) -> list[Part]:
        """The parts of these spans that may have matching records; ``counts`` gets what they are of how much."""


def bounds_in_order(predicate: Predicate, spans: Spans) -> list[tuple[int, Span]]:
    """The spans that a predicate wants of each partition, by offsets and partitions alone."""
    return [(number, each) for number, span in sorted(spans.items()) for each in predicate.spans(number, span)]
