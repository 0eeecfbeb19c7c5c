"""The reader of batch queries that PySpark calls, and what a task reads.

As in Spark's source, "earliest" and "latest" mean the ends of a partition when a task reads it: a frame that is used
twice shows what has come meanwhile, although Spark plans it once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kwire.arrow.ranges import Partition, Positions, Range
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.spark.source.errors import DataLossError, SourceError
from kwire.spark.source.options import EARLIEST, LATEST, Limit, SourceOptions
from kwire.spark.source.planning import divided, ranges
from kwire.spark.source.positions import ask_cluster, ends_of, find_topics, is_gone, resolve
from kwire.spark.source.reading import read

if TYPE_CHECKING:
    import pyarrow as pa


class RangePartition(InputPartition):
    """What a task reads. A range that starts at `EARLIEST`, or ends at `LATEST`, is resolved there. Where there is
    nothing PySpark passes None or, from 4.1 on, an empty partition of its own."""

    def __init__(self, *wanted: Range) -> None:
        super().__init__(wanted)
        self.wanted = wanted

    def rows(self, options: SourceOptions) -> Iterator[pa.RecordBatch]:
        """The records of the ranges. `SourceError`."""
        for each in resolved(options, self.wanted):
            yield from read(options, each)


class BatchReader(DataSourceReader):
    """Reads what lies between two positions."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """A range for each partition that has records, or more, and one task for all partitions that are empty but may
        get records until it runs. `SourceError`."""
        options = self._options
        starts, ends = ask_cluster(options, self._positions)
        whole = ranges(starts, ends)
        parts = parts_of(whole, options)
        firsts, lasts = {each[:3] for each in whole}, {(each.topic, each.partition, each.end) for each in whole}
        found = [
            RangePartition(
                _open(each, options, start=each[:3] in firsts, end=(each.topic, each.partition, each.end) in lasts)
            )
            for each in parts
        ]
        if options.min_partitions or options.max_records:
            return found
        empty = [Range(*each, at, at) for each, at in starts.items() if at == ends[each]]
        late = [_open(each, options, start=True, end=True) for each in empty if _is_open(options.ending, each, LATEST)]
        return [*found, RangePartition(*late)] if late else found

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The records of a range. `SourceError`."""
        return partition.rows(self._options) if isinstance(partition, RangePartition) else iter(())

    async def _positions(self, cluster: Cluster) -> tuple[Positions, Positions]:
        options = self._options
        topics = await find_topics(cluster, options)
        starts = await resolve(cluster, options, topics.partitions, options.starting, "starting")
        ends = await resolve(cluster, options, topics.partitions, options.ending, "ending")
        if not options.fails_on_loss:
            earliest = await ends_of(cluster, options, topics.partitions, EARLIEST)
            starts = {each: max(offset, earliest[each]) for each, offset in starts.items()}
        elif beyond := [each for each in starts if starts[each] > ends[each]]:
            topic, number = beyond[0]
            where = f"begins at {starts[beyond[0]]}, after its end at {ends[beyond[0]]}"
            raise SourceError(f"{topic}-{number} {where}: correct the options for offsets")
        return starts, ends


def parts_of(found: list[Range], options: SourceOptions) -> list[Range]:
    """Ranges as the options divide them among tasks."""
    return divided(found, options.min_partitions, options.max_records)


def _is_open(limit: Limit, each: Range, which: int) -> bool:
    return limit.offset_of(each.topic, each.partition) == which


def _open(each: Range, options: SourceOptions, *, start: bool, end: bool) -> Range:
    """A range whose ends, if they are those of its partition, are what the options say: `EARLIEST`, `LATEST`."""
    if start and _is_open(options.starting, each, EARLIEST):
        each = each._replace(start=EARLIEST)
    return each._replace(end=LATEST) if end and _is_open(options.ending, each, LATEST) else each


def resolved(options: SourceOptions, wanted: Sequence[Range]) -> list[Range]:
    """Ranges with the offsets that `EARLIEST` and `LATEST` are now; only those that have any. `SourceError`."""
    first = {each[:2]: EARLIEST for each in wanted if each.start == EARLIEST}
    last = {each[:2]: LATEST for each in wanted if each.end == LATEST}
    if not first and not last:
        return list(wanted)

    async def ask(cluster: Cluster) -> list[Range]:
        starts = await _ends(cluster, options, first, EARLIEST)
        ends = await _ends(cluster, options, last, LATEST)
        found = [
            each._replace(
                start=starts.get(each[:2], 0) if each.start == EARLIEST else each.start,
                end=ends.get(each[:2], 0) if each.end == LATEST else each.end,
            )
            for each in wanted
        ]
        return [each for each in found if each.size > 0]

    return ask_cluster(options, ask)


async def _ends(cluster: Cluster, options: SourceOptions, partitions: dict[Partition, int], which: int) -> Positions:
    """The ends of partitions; of those that exist, if the loss of others is no error. `DataLossError`."""
    try:
        return await ends_of(cluster, options, partitions, which)
    except CommandError as error:
        if not is_gone(error):
            raise
        if options.fails_on_loss:
            raise DataLossError(str(error)) from None
    there = {*(await find_topics(cluster, options, must_exist=False)).partitions}
    return await ends_of(cluster, options, [each for each in partitions if each in there], which)
