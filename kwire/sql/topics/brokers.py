"""`BrokerTopics`: topics of a cluster, read from the leaders of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kwire.arrow import brokers
from kwire.arrow.ranges import Range
from kwire.arrow.reading import Brokers, Reading
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import check
from kwire.cli.connection.offsets import EARLIEST, LATEST, NO_OFFSET, list_offsets
from kwire.sql.topics.predicate import Predicate
from kwire.sql.topics.source import Counts, Part, bounds_in_order
from kwire.sql.topics.spans import Span, Spans

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class BrokerTopics:
    """Topics of a cluster. Filters by time become offsets by ListOffsets, which asks the broker's time index.

    ``in_time_order``: in each partition timestamps do not fall, so that a filter's latest time ends it as well."""

    def __init__(self, cluster: Brokers, *, in_time_order: bool = False) -> None:
        self._brokers = cluster
        self._in_time_order = in_time_order

    @property
    def where(self) -> str:
        """The addresses."""
        return self._brokers.bootstrap

    def topics(self) -> list[str]:
        """The names of all topics that this login may see, sorted. `CommandError`."""

        async def ask(cluster: Cluster) -> list[str]:
            return sorted(each.name for each in (await cluster.metadata()).topics if not each.error_code)

        return self._asked(ask)

    def spans(self, topic: str) -> Spans:
        """From the first offset of each partition to the last stable one. `CommandError`."""

        async def ask(cluster: Cluster) -> Spans:
            (described,) = (await cluster.metadata([topic])).topics
            check(described.error_code, f"topic {topic}")
            places = [(topic, each.partition_index) for each in described.partitions]
            first = await list_offsets(cluster, dict.fromkeys(places, EARLIEST))
            last = await list_offsets(cluster, dict.fromkeys(places, LATEST), committed=True)
            return {
                place[1]: Span(first[place].offset, max(first[place].offset, last[place].offset)) for place in places
            }

        return self._asked(ask)

    def parts(self, topic: str, spans: Spans, predicate: Predicate, counts: Counts) -> list[Part]:
        """The parts of these spans that may have matching records. `CommandError`."""
        counts.offsets_there = sum(each.size for each in spans.values())
        wanted = self._in_time(topic, bounds_in_order(predicate, spans), predicate)
        counts.offsets = sum(span.size for _, span in wanted)
        return [Part(number, span, partial(self._read, Range(topic, number, *span))) for number, span in wanted]

    def _read(self, wanted: Range, how: Reading) -> Iterator[pa.RecordBatch]:
        return brokers.read(self._brokers, how, wanted)

    def _in_time(self, topic: str, found: list[tuple[int, Span]], predicate: Predicate) -> list[tuple[int, Span]]:
        """Spans without what is too early, and too late if timestamps do not fall."""
        starts = self._offsets_at(topic, _times(found, predicate.earliest_ms))
        ends: Mapping[int, int] = {}
        if self._in_time_order:
            latest = {number: at + 1 for number, at in _times(found, predicate.latest_ms).items()}
            ends = self._offsets_at(topic, latest)
        cut = [
            (number, Span(max(span.start, starts.get(number, 0)), min(span.end, ends.get(number, span.end))))
            for number, span in found
        ]
        return [(number, span) for number, span in cut if span.size]

    def _offsets_at(self, topic: str, times: Mapping[int, int]) -> dict[int, int]:
        """The first offset of each partition whose record is at a time in milliseconds or later; beyond all offsets
        if there is none. No offset for times that ListOffsets cannot have, at which records without a time are."""
        times = {number: at for number, at in times.items() if at > 0}
        if not times:
            return {}

        async def ask(cluster: Cluster) -> dict[int, int]:
            found = await list_offsets(cluster, {(topic, number): at for number, at in times.items()})
            return {place[1]: 2**63 - 1 if each.offset == NO_OFFSET else each.offset for place, each in found.items()}

        return self._asked(ask)

    def _asked(self, question: Callable[[Cluster], Coroutine[Any, Any, T]]) -> T:
        async def ask() -> T:
            cluster = Cluster.of(self._brokers.bootstrap, self._brokers.properties, self._brokers.timeout_s)
            try:
                await cluster.connect()
                return await question(cluster)
            finally:
                cluster.close()

        return asyncio.run(ask())


def _times(found: list[tuple[int, Span]], bound: Callable[[int, Span], int | None]) -> dict[int, int]:
    """A bound in time for each partition that has one for all its spans."""
    hulls: dict[int, Span] = {}
    for number, span in found:
        hulls[number] = Span(min(span.start, hulls.get(number, span).start), span.end)
    return {number: at for number, hull in hulls.items() if (at := bound(number, hull)) is not None}
