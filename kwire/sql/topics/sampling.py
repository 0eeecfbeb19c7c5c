"""Samples of both ends of a topic's partitions, and the plain types that its keys and values have by them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.arrow.reading import Reading
from kwire.sql.topics.columns import Kind
from kwire.sql.topics.contents import JsonCheck, kind_of
from kwire.sql.topics.predicate import Predicate
from kwire.sql.topics.source import Counts, Source
from kwire.sql.topics.spans import Span, Spans

if TYPE_CHECKING:
    import pyarrow as pa

OFFSETS: Final = 500
"""Offsets looked at, at the beginning and at the end of a partition."""
PARTITIONS: Final = 8
"""Partitions looked at: those with the most offsets."""


class Samples(NamedTuple):
    """Keys and values, as binary arrays."""

    keys: list[pa.Array]
    values: list[pa.Array]


def sampled(source: Source, topic: str, spans: Spans) -> Samples:
    """Samples of a topic. `ReadError`, `CommandError`."""
    batches = list(_samples(source, topic, spans))
    return Samples([each.column("key") for each in batches], [each.column("value") for each in batches])


def sampled_kinds(source: Source, topic: str, spans: Spans) -> tuple[Kind, Kind]:
    """The plain types of keys and values. `ReadError`, `CommandError`."""
    samples, check = sampled(source, topic, spans), JsonCheck()
    return kind_of(samples.keys, check), kind_of(samples.values, check)


def _samples(source: Source, topic: str, spans: Spans) -> Iterator[pa.RecordBatch]:
    largest = sorted(spans.items(), key=lambda each: -each[1].size)[:PARTITIONS]
    for number, span in largest:
        for end in _ends(span):
            for part in source.parts(topic, {number: end}, Predicate(None), Counts()):
                yield from islice(part.read(Reading(committed=True, endless=True)), 1)


def _ends(span: Span) -> list[Span]:
    if span.size <= 2 * OFFSETS:
        return [span] if span.size else []
    return [Span(span.start, span.start + OFFSETS), Span(span.end - OFFSETS, span.end)]
