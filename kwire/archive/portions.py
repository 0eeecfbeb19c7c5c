"""What goes into a table with one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa


class Portion(NamedTuple):
    """All records of a partition from offset ``start`` to before ``end``, in order; there may be none."""

    partition: int
    start: int
    end: int
    rows: Sequence[pa.RecordBatch]

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(each.num_rows for each in self.rows)


class StagedFile(NamedTuple):
    """A Parquet file beside a table that is not in it yet: ``rows`` of a partition's offsets from ``start`` to before
    ``end``. Without rows there is no file."""

    partition: int
    start: int
    end: int
    path: str
    rows: int
    size: int
