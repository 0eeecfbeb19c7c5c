"""The rows of a table in the order of the topic, with little memory.

The files may be in any order and may have been written anew (compaction of the table). Of each row group the index
knows which offsets of which partitions it has; row groups that overlap are sorted together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kwire.archive.errors import ArchiveError
from kwire.archive.rows import table_schema
from kwire.archive.targets.target import check_columns


class Piece(NamedTuple):
    """The rows of a partition in a row group: their first and last offset, and how many there are."""

    first: int
    last: int
    records: int
    path: str
    group: int


def index(files: Sequence[str]) -> dict[int, list[Piece]]:
    """What the files have of each partition, by offset. `ArchiveError`."""
    found: dict[int, list[Piece]] = {}
    for path in files:
        with _opened(path) as file:
            for group in range(file.metadata.num_row_groups):
                for partition, piece in _pieces(file, path, group):
                    found.setdefault(partition, []).append(piece)
    return {partition: sorted(pieces) for partition, pieces in sorted(found.items())}


def rows(partition: int, pieces: Sequence[Piece], start: int) -> Iterator[pa.Table]:
    """The rows of a partition from an offset on, in order. `ArchiveError` if an offset is there twice."""
    for together in _overlapping([each for each in pieces if each.last >= start]):
        parts = [_read(each, partition) for each in together]
        table = pa.concat_tables(parts) if len(parts) > 1 else parts[0]
        offsets = table.column("offset")
        if not _ascending(offsets):
            table = table.sort_by("offset")
            offsets = table.column("offset")
            if not _ascending(offsets):
                raise ArchiveError(f"{together[0].path}: an offset of partition {partition} is there twice")
        yield table.filter(pc.greater_equal(offsets, start)) if together[0].first < start else table


def _pieces(file: pq.ParquetFile, path: str, group: int) -> Iterator[tuple[int, Piece]]:
    metadata = file.metadata.row_group(group)
    statistics = {
        column.path_in_schema: column.statistics
        for column in (metadata.column(number) for number in range(metadata.num_columns))
        if column.path_in_schema in ("partition", "offset")
    }
    partitions: Any = statistics.get("partition")
    offsets: Any = statistics.get("offset")
    has_limits = all(each is not None and each.has_min_max for each in (partitions, offsets))
    if has_limits and partitions.min == partitions.max:
        yield partitions.min, Piece(offsets.min, offsets.max, metadata.num_rows, path, group)
        return
    table = file.read_row_group(group, ["partition", "offset"])
    grouped = table.group_by("partition").aggregate([("offset", "min"), ("offset", "max"), ("offset", "count")])
    for row in grouped.to_pylist():
        yield row["partition"], Piece(row["offset_min"], row["offset_max"], row["offset_count"], path, group)


def _overlapping(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Pieces that follow each other, those that overlap together."""
    together: list[Piece] = []
    last = -1
    for piece in pieces:
        if together and piece.first > last:
            yield together
            together = []
        together.append(piece)
        last = max(last, piece.last)
    if together:
        yield together


def _read(piece: Piece, partition: int) -> pa.Table:
    names = table_schema().names
    with _opened(piece.path) as file:
        table = file.read_row_group(piece.group, names)
    if piece.records == table.num_rows:
        return table
    return table.filter(pc.equal(table.column("partition"), partition))


def _ascending(offsets: pa.ChunkedArray) -> bool:
    return len(offsets) < 2 or bool(pc.all(pc.less(offsets[:-1], offsets[1:])).as_py())


def _opened(path: str) -> Any:
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise ArchiveError(f"{path}: {error}") from None
    check_columns(file.schema_arrow, path)
    return file
