"""A source of topics in memory, for tests: records as tuples, read as `kwire.arrow` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from kwire.arrow.reading import Reading
from kwire.sql.session import Limits, Session
from kwire.sql.topics.columns import schema
from kwire.sql.topics.forms import Forms
from kwire.sql.topics.predicate import Predicate
from kwire.sql.topics.source import Counts, Part, bounds_in_order
from kwire.sql.topics.spans import Span, Spans

_BATCH = 100


class Record(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    time_ms: int = 1_763_000_000_000
    headers: Sequence[tuple[str, bytes]] = ()


class MemoryTopics:
    """Records by topic and partition; their offsets are their indexes. ``reads`` counts the batches that were made."""

    where = "memory"

    def __init__(self, topics: Mapping[str, Mapping[int, Sequence[Record]]], failure: Exception | None = None) -> None:
        self._topics = topics
        self._failure = failure
        self.reads = 0

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def spans(self, topic: str) -> Spans:
        return {number: Span(0, len(records)) for number, records in self._topics[topic].items()}

    def parts(self, topic: str, spans: Spans, predicate: Predicate, counts: Counts) -> list[Part]:
        wanted = bounds_in_order(predicate, spans)
        counts.offsets_there = sum(each.size for each in spans.values())
        counts.offsets = sum(span.size for _, span in wanted)
        return [Part(number, span, partial(self._read, topic, number, span)) for number, span in wanted]

    def _read(self, topic: str, number: int, span: Span, how: Reading) -> Iterator[pa.RecordBatch]:
        for start in range(span.start, span.end, _BATCH):
            if self._failure is not None and start >= _BATCH:
                raise self._failure
            self.reads += 1
            offsets = range(start, min(start + _BATCH, span.end))
            yield _batch(number, offsets, [self._topics[topic][number][each] for each in offsets], how)


def _batch(number: int, offsets: range, records: Sequence[Record], how: Reading) -> pa.RecordBatch:
    plain = schema("blob", "blob", marked=False)
    columns = {
        "key": [each.key if how.keys else None for each in records],
        "value": [each.value if how.values else None for each in records],
        "partition": [number] * len(records),
        "offset": list(offsets),
        "timestamp": [each.time_ms * 1000 for each in records],
        "headers": [[{"key": k, "value": v} for k, v in each.headers] or None for each in records],
    }
    fields = [plain.field(name) for name in columns]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns.values(), fields, strict=True)],
        schema=pa.schema(fields),
    )


def session(source: Any, folder: Path, **options: Any) -> Session:
    """A session with small limits."""
    forms = options.pop("forms", Forms({}, {}))
    return Session(source, Limits("200MB", str(folder), options.pop("files", False), 1), forms, **options)
