"""The readers of streams that PySpark calls: partitions and offsets at the driver, `read` in a task.

Offsets of a stream are as in Spark's own Kafka source, ``{"orders": {"0": 23, "1": 42}}``, so that its checkpoints can
be taken over; under ``"id"`` a topic has its topic id besides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kwire.arrow.ranges import Partition, Positions, Range
from kwire.cli.connection.cluster import Cluster
from kwire.spark.source.batch_reader import RangePartition, parts_of
from kwire.spark.source.errors import DataLossError
from kwire.spark.source.options import EARLIEST, LATEST, SourceOptions
from kwire.spark.source.planning import limited, ranges, total
from kwire.spark.source.positions import Topics, ask_cluster, ends_of, find_topics, resolve, steadily

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = dict[str, dict[str, Any]]
ID: Final = "id"


class StreamCore:
    """Positions of a stream at the driver, where it lives as long as the query runs."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.position: Offsets | None = None
        """Where the next batch begins, as far as Spark has told."""
        self.newest: Offsets | None = None
        """The latest offsets that there were, whatever the limits."""
        self._planned_s: float | None = None
        """When the last batch was planned."""

    def initial(self) -> Offsets:
        """Where the query begins, the first time."""

        async def ask(cluster: Cluster) -> Offsets:
            topics = await find_topics(cluster, self.options)
            starts = await resolve(cluster, self.options, topics.partitions, self.options.starting, "starting")
            return to_offsets(starts, topics)

        self.position = ask_cluster(self.options, ask)
        return self.position

    def latest(self, start: Offsets | None, at_most: int, at_least: int) -> Offsets:
        """Where the next batch ends; ``start`` None for the end of what there is."""

        async def ask(cluster: Cluster) -> Offsets:
            topics = await find_topics(cluster, self.options, must_exist=False)
            ends = await ends_of(cluster, self.options, topics.partitions, LATEST)
            if start is None:
                self._planned_s = time.monotonic()
                self.newest = to_offsets(ends, topics)
                return self.newest
            if not ends and not self.options.fails_on_loss:
                return start  # offsets of nothing would have no past: what is made again would be new
            starts = await self._starts(cluster, start, topics)
            ends = {each: max(offset, starts.get(each, 0)) for each, offset in ends.items()}
            self.newest = to_offsets(ends, topics)
            if at_least and self._puts_off(total(starts, ends) < at_least):
                return start
            if at_most:
                ends = limited(starts, ends, at_most)
            return kept(start, to_offsets(ends, topics))

        return ask_cluster(self.options, lambda cluster: steadily(cluster, ask))

    def between(self, start: Offsets, end: Offsets) -> list[Range]:
        """What lies between two offsets."""
        self.position = end

        async def ask(cluster: Cluster) -> list[Range]:
            topics = await find_topics(cluster, self.options, must_exist=False)
            ids = {name: each[ID] for name, each in end.items() if ID in each}  # Spark's own source writes none
            self._check(start, end, topics)
            ends = {each: at for each, at in positions(end).items() if each in topics.partitions}
            return ranges(await self._starts(cluster, start, Topics(tuple(ends), ids)), ends)

        return [] if start == end else ask_cluster(self.options, lambda cluster: steadily(cluster, ask))

    async def _starts(self, cluster: Cluster, start: Offsets, topics: Topics) -> Positions:
        """The start of each partition; one that the start does not have is new, and so is a topic with another id: they
        begin at their earliest offsets. `DataLossError` if that is an error."""
        starts = positions(start)
        again = [name for name, own in topics.ids.items() if start.get(name, {}).get(ID, own) != own]
        if again and self.options.fails_on_loss:
            raise DataLossError(f"topic {again[0]} was deleted and made again")
        new = [each for each in topics.partitions if each not in starts or each[0] in again]
        earliest = await ends_of(cluster, self.options, new, EARLIEST)
        if self.options.fails_on_loss:
            for (topic, number), offset in earliest.items():
                if offset > 0 and topic in start:
                    raise DataLossError(f"{topic}-{number} is new and begins at offset {offset}")
        return starts | earliest

    def _check(self, start: Offsets, end: Offsets, topics: Topics) -> None:
        """`DataLossError` for what is not there any more, if that is an error."""
        if not self.options.fails_on_loss:
            return
        for topic, number in positions(end):
            if (topic, number) not in topics.partitions:
                raise DataLossError(f"{topic}-{number} does not exist any more")
            if topics.ids.get(topic, "") != end[topic].get(ID, topics.ids.get(topic, "")):
                raise DataLossError(f"topic {topic} was deleted and made again")
        for topic, number in positions(start):
            if topic not in end or str(number) not in end[topic]:
                raise DataLossError(f"{topic}-{number} does not exist any more")

    def _puts_off(self, too_few: bool) -> bool:
        """Whether a batch of too few records is put off: never the first one of a run, as in Spark's source."""
        now_s = time.monotonic()
        is_time = self._planned_s is None or now_s - self._planned_s >= self.options.delay_s
        if too_few and not is_time:
            return True
        self._planned_s = now_s
        return False


class StreamReader(DataSourceStreamReader):
    """What all versions of PySpark have."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.core = StreamCore(options)

    def initialOffset(self) -> dict[str, Any]:
        """Where the query begins, the first time."""
        return self.core.initial()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A range for each partition that has records, or more."""
        return [RangePartition(each) for each in parts_of(self.core.between(start, end), self.options)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The records of a range."""
        return partition.rows(self.options) if isinstance(partition, RangePartition) else iter(())

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the checkpoint has the offsets."""

    def stop(self) -> None:
        """Nothing: connections are closed after each call."""


class OldStreamReader(StreamReader):
    """For PySpark before 4.2, which says neither where a batch begins nor that all is to be read. The batch begins
    where the last one ended; after a restart Spark asks first for what lies between its last offset and itself.

    Before it has said where anything begins, no limit is kept: with Trigger.AvailableNow Spark asks once, before all
    else, and what lies behind that answer would not be read."""

    def latestOffset(self) -> dict[str, Any]:
        """Where the next batch ends."""
        options = self.options
        return self.core.latest(self.core.position, options.at_most, options.at_least)


def to_offsets(found: Mapping[Partition, int], topics: Topics) -> Offsets:
    """Positions as Spark keeps them."""
    offsets: Offsets = {}
    for (topic, number), offset in sorted(found.items()):
        offsets.setdefault(topic, {ID: topics.ids[topic]} if topics.ids.get(topic) else {})[str(number)] = offset
    return offsets


def positions(offsets: Offsets) -> Positions:
    """What Spark keeps, as positions."""
    return {
        (topic, int(number)): offset
        for topic, numbers in offsets.items()
        for number, offset in numbers.items()
        if number != ID
    }


def kept(start: Offsets, end: Offsets) -> Offsets:
    """The start itself if nothing has come: Spark compares offsets as they are."""
    same = all(start.get(topic, {}).get(ID, own[ID]) == own[ID] for topic, own in end.items() if ID in own)
    return start if same and positions(start) == positions(end) else end
