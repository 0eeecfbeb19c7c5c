"""Reading in a task: the rows of a range, and Spark's words for what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kwire.arrow import brokers
from kwire.arrow.errors import ReadError, RecordsGone
from kwire.arrow.files import segments
from kwire.arrow.files.segments import FileRange
from kwire.arrow.ranges import Range
from kwire.spark.source.columns import only
from kwire.spark.source.errors import DataLossError, SourceError
from kwire.spark.source.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def as_source_errors() -> Iterator[None]:
    """`SourceError` and `DataLossError` for what cannot be read."""
    try:
        yield
    except RecordsGone as error:
        raise DataLossError(str(error)) from None
    except ReadError as error:
        raise SourceError(str(error)) from None


def read(options: SourceOptions, wanted: Range) -> Iterator[pa.RecordBatch]:
    """The records of a range, from brokers. `SourceError`."""
    with as_source_errors():
        for batch in brokers.read(options.brokers, options.reading, wanted):
            yield only(batch, options.columns)


def read_files(path: str, options: SourceOptions, planned: FileRange) -> Iterator[pa.RecordBatch]:
    """The records of a range, from segment files. `SourceError`."""
    with as_source_errors():
        for batch in segments.read(path, options.reading, planned):
            yield only(batch, options.columns)
