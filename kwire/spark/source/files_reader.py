"""`FilesReader`: what ``format("kwire")`` with the option ``path`` is to PySpark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kwire.arrow.files.directory import DataDirectory, Visible
from kwire.arrow.files.segments import FileRange
from kwire.arrow.ranges import Partition, Range
from kwire.spark.source.errors import DataLossError, SourceError
from kwire.spark.source.options import EARLIEST, LATEST, Limit, SourceOptions
from kwire.spark.source.reading import as_source_errors, read_files

if TYPE_CHECKING:
    import pyarrow as pa

_TOPICS = ("subscribe", "subscribepattern", "assign")
_INTERNAL = "__"


class FileRangePartition(InputPartition):
    """What a task reads."""

    def __init__(self, planned: FileRange) -> None:
        super().__init__(planned)
        self.planned = planned


class FilesReader(DataSourceReader):
    """Reads a data directory. Without an option for topics: all but the internal ones. ``columns``: by default all."""

    def __init__(self, given: Mapping[str, str], columns: tuple[str, ...] = ()) -> None:
        options = {name.lower(): value for name, value in given.items()}
        self._path = options.pop("path").removeprefix("file:")
        if not any(name in options for name in _TOPICS):
            options["subscribepattern"] = f"(?!{_INTERNAL}).*"
        self._options = SourceOptions.parse(options, streaming=False, files=True)._replace(columns=columns)
        for limit in (self._options.starting, self._options.ending):
            if limit.timestamp is not None or limit.timestamps is not None:
                raise SourceError("timestamps mean nothing with path: filter by the column timestamp")

    def partitions(self) -> Sequence[InputPartition]:
        """A range for each segment. `SourceError`."""
        with as_source_errors():
            return self._planned()

    def _planned(self) -> list[InputPartition]:
        directory = DataDirectory(self._path)
        found: list[InputPartition] = []
        for partition in self._wanted(directory.partitions()):
            visible = directory.visible(partition, committed=self._options.committed)
            start, end = self._between(partition, visible)
            bases = directory.segments(partition)
            bounds = [start, *(base for base in bases if start < base < end), end]
            identity = directory.identity(partition, end)
            found += [
                FileRangePartition(FileRange(Range(*partition, low, high), end, identity))
                for low, high in pairwise(bounds)
                if low < high
            ]
        return found

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The records of a range. `SourceError`."""
        if not isinstance(partition, FileRangePartition):  # there is nothing, and PySpark makes one of its own
            return iter(())
        return read_files(self._path, self._options, partition.planned)

    def _wanted(self, there: list[Partition]) -> list[Partition]:
        """The partitions that the options name. `SourceError` for one that is not there."""
        options = self._options
        if options.pattern is not None:
            return [each for each in there if re.fullmatch(options.pattern, each[0])]
        if options.partitions is not None:
            named = [(topic, number) for topic, numbers in options.partitions.items() for number in numbers]
            missing = [f"{topic}-{number}" for topic, number in named if (topic, number) not in there]
        else:
            named = [each for each in there if each[0] in options.topics]
            missing = sorted({*options.topics} - {topic for topic, _ in there})
        if missing:
            raise SourceError(f"option path={self._path}: {', '.join(missing)} is not in this directory")
        return sorted(named)

    def _between(self, partition: Partition, visible: Visible) -> tuple[int, int]:
        """The offsets that the options ask for, of those that may be read."""
        start = self._offset(partition, visible, self._options.starting)
        end = self._offset(partition, visible, self._options.ending)
        if start < visible.start:
            if self._options.fails_on_loss:
                name = f"{partition[0]}-{partition[1]}"
                raise DataLossError(f"{name} begins at offset {visible.start}, and {start} was to be read")
            start = visible.start
        return start, min(end, visible.end)

    def _offset(self, partition: Partition, visible: Visible, limit: Limit) -> int:
        offset = limit.offset_of(*partition)
        if offset is None:
            raise SourceError(f"option for offsets does not name {partition[0]}-{partition[1]}")
        return {EARLIEST: visible.start, LATEST: visible.end}.get(offset, offset)
