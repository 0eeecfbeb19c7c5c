"""`Gathering`: records wait in columns for each partition, until there are enough for a batch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from kwire.cli.records.writing.encoding import RECORDS_MAX, Rows
from kwire.cli.records.writing.parsing import Batch
from kwire.cli.records.writing.partitioner import Partitioner

BATCH_BYTES_MAX: Final = 900_000
"""Bytes of values and keys in a batch: with what stands between them, less than Kafka's max.message.bytes."""
_OVERHEAD_BYTES: Final = 10
WAITING_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes that wait in all partitions; then all of them are sent."""


class _Waiting:
    """The records that wait for one partition; a column is empty while no record has such a field."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[Rows] = []
        self.count = 0

    def add(self, rows: Rows, size: int) -> None:
        self._parts.append(rows)
        self.count += len(rows.values)
        self.size += size

    def rows(self) -> Rows:
        """All of them."""
        return self._parts[0] if len(self._parts) == 1 else _concatenated(self._parts)


class Gathering:
    """Records of one topic. ``only``: the partition for all of them. `full` has the batches that are ready, by
    partition; the caller takes them out."""

    def __init__(self, partitioner: Partitioner, only: int | None) -> None:
        self.full: list[tuple[int, Rows]] = []
        self._partitioner = partitioner
        self._only = only
        self._waiting: dict[int, _Waiting] = {}

    def add(self, batch: Batch) -> None:
        """Take records; some partitions' batches may become full."""
        rows = batch.rows
        if self._only is not None:
            self._add_all(self._only, rows)
        elif batch.partitions is None and (rows.keys is None or rows.keys.count(None) == len(rows.keys)):
            self._add_sticky(rows)
        else:
            self._add_each(rows, self._chosen(batch))
        if sum(each.size for each in self._waiting.values()) > WAITING_BYTES_MAX:
            self.end()

    def end(self) -> None:
        """Make batches of all that waits."""
        self.full += [(partition, waiting.rows()) for partition, waiting in self._waiting.items()]
        self._waiting.clear()

    def _chosen(self, batch: Batch) -> list[int]:
        keys = batch.rows.keys or [None] * len(batch.rows.values)
        hashed = self._partitioner.partitions(keys)
        if batch.partitions is None:
            return hashed
        return [own if given is None else given for given, own in zip(batch.partitions, hashed, strict=True)]

    def _add_sticky(self, rows: Rows) -> None:
        """Records without keys: all to one partition until its batch is full, then to another."""
        rest: Rows | None = rows
        while rest is not None:
            partition = self._partitioner.sticky
            rest = self._add_some(partition, rest)
            if partition not in self._waiting:
                self._partitioner.turn()

    def _add_all(self, partition: int, rows: Rows) -> None:
        rest: Rows | None = rows
        while rest is not None:
            rest = self._add_some(partition, rest)

    def _add_each(self, rows: Rows, partitions: list[int]) -> None:
        indexes: dict[int, list[int]] = {}
        for index, partition in enumerate(partitions):
            indexes.setdefault(partition, []).append(index)
        for partition, chosen in indexes.items():
            self._add_all(partition, rows.take(chosen))

    def _add_some(self, partition: int, rows: Rows) -> Rows | None:
        """Take what fits into the partition's batch; the rest, if there is any."""
        if not rows.values:
            return None
        waiting = self._waiting.get(partition)
        if waiting is None:
            waiting = self._waiting[partition] = _Waiting()
        sizes = list(accumulate(_sizes(rows)))
        fitting = min(bisect_right(sizes, BATCH_BYTES_MAX - waiting.size), RECORDS_MAX - waiting.count)
        if fitting == 0 and waiting.count == 0:
            fitting = 1  # larger than a batch should be, but a batch of its own
        if fitting == len(sizes):
            waiting.add(rows, sizes[-1])
            return None
        if fitting:
            waiting.add(rows.between(0, fitting), sizes[fitting - 1])
        self.full.append((partition, waiting.rows()))
        del self._waiting[partition]
        return rows.between(fitting, None)


def _sizes(rows: Rows) -> Sequence[int]:
    """About how many bytes each record takes in a batch."""
    try:
        values = map(len, rows.values)  # type: ignore[arg-type]
        if rows.keys is None and not rows.headers:
            return [size + _OVERHEAD_BYTES for size in values]
    except TypeError:  # null values
        pass
    return [_size(rows, index) for index in range(len(rows.values))]


def _size(rows: Rows, index: int) -> int:
    size = _OVERHEAD_BYTES + len(rows.values[index] or b"")
    if rows.keys:
        size += len(rows.keys[index] or b"")
    if rows.headers:
        size += sum(len(name) + len(value or b"") + _OVERHEAD_BYTES for name, value in rows.headers[index])
    return size


def _concatenated(parts: Sequence[Rows]) -> Rows:
    """The columns after each other. All parts have the same ones: they come from one parser."""
    return Rows(
        [each for part in parts for each in part.values],
        [each for part in parts for each in part.keys or ()] or None,
        [each for part in parts for each in part.headers or ()] or None,
        [each for part in parts for each in part.timestamps or ()] or None,
    )
