"""Which types the keys and values of a topic have, by samples of both ends of its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

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


def sampled_kinds(source: Source, topic: str, spans: Spans) -> tuple[Kind, Kind]:
    """The types of keys and values. `ReadError`, `CommandError`."""
    batches = list(_samples(source, topic, spans))
    check = JsonCheck()
    return kind_of((each.column("key") for each in batches), check), kind_of(
        (each.column("value") for each in batches), check
    )


def _samples(source: Source, topic: str, spans: Spans) -> Iterator[pa.RecordBatch]:
    largest = sorted(spans.items(), key=lambda each: -each[1].size)[:PARTITIONS]
    for number, span in largest:
        for end in _ends(span):
            for part in source.parts(topic, {number: end}, Predicate(None), Counts()):
                yield from islice(part.read(Reading(committed=True)), 1)


def _ends(span: Span) -> list[Span]:
    if span.size <= 2 * OFFSETS:
        return [span] if span.size else []
    return [Span(span.start, span.start + OFFSETS), Span(span.end - OFFSETS, span.end)]
