"""Reading both ends into digests: a process for each piece, Parquet files by bucket."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kwire.arrow import brokers
from kwire.arrow.errors import RecordsGone
from kwire.arrow.files import segments
from kwire.arrow.files.segments import FileRange
from kwire.arrow.ranges import Range
from kwire.arrow.reading import Brokers, Reading
from kwire.audit.ends import DirectoryEnd, End, TopicEnd
from kwire.audit.errors import AuditError
from kwire.audit.fields import BUCKET_SHIFT, SAMPLE_OF, Comparison, Side, digest_query
from kwire.audit.planning import Plan
from kwire.audit.work import Progress, Work, database

if TYPE_CHECKING:
    import pyarrow as pa

_MEMORY_MB: Final = 192
"""DuckDB's memory in a process that reads."""
_FLUSH_ROWS: Final = 16_384
_INLINE_ROWS: Final = 200_000
"""So few records are read without other processes."""
_POLL_S: Final = 0.5


class Spec(NamedTuple):
    """What all pieces have in common. ``sample``: of `SAMPLE_OF`; ``between_ms``: only records of these times."""

    comparison: Comparison
    salt: bytes
    folder: str
    buckets: int
    sample: int = SAMPLE_OF
    between_ms: tuple[int | None, int | None] = (None, None)
    committed: bool = True


class Piece(NamedTuple):
    """What one task reads. ``number``: among all; for a file of a table the part of its rows is its place among the
    table's files, ``file``."""

    side: int
    number: int
    end: End
    wanted: Range | FileRange | str
    columns: dict[str, str] | None
    file: int = 0


def spill(plans: Sequence[Plan], columns: Sequence[dict[str, str] | None], spec: Spec, work: Work) -> None:
    """Read all. `ReadError`, `AuditError`."""
    pieces = [
        Piece(side, number, plan.end, wanted, columns[side], number)
        for side, plan in enumerate(plans)
        for number, wanted in enumerate(plan.pieces)
    ]
    total = sum(plan.rows for plan in plans)
    progress = Progress(quiet=work.quiet)
    try:
        if work.jobs == 1 or total <= _INLINE_ROWS or len(pieces) < 2:
            done = 0

            def say(count: int) -> None:
                progress("read", done + count, total)

            for each in pieces:
                done += spill_piece(each, spec, say)
        else:
            _in_processes(pieces, spec, work.jobs, lambda count: progress("read", count, total))
    finally:
        progress.close()


def _in_processes(pieces: Sequence[Piece], spec: Spec, jobs: int, say: Callable[[int], None]) -> None:
    import multiprocessing
    from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait

    context = multiprocessing.get_context("spawn")  # a fork would have DuckDB's and Arrow's threads half
    read = context.Value("q", 0)
    pool = ProcessPoolExecutor(min(jobs, len(pieces)), context, initializer=_begin, initargs=(read,))
    try:
        waiting = {pool.submit(_in_process, each, spec) for each in pieces}
        while waiting:
            done, waiting = wait(waiting, _POLL_S, FIRST_EXCEPTION)
            for each in done:
                each.result()
            say(read.value)
    finally:
        pool.shutdown(cancel_futures=True)


_read: Any = None
"""In a process that reads: the number of records that all have read."""


def _begin(read: Any) -> None:
    global _read  # noqa: PLW0603 (how an executor gives shared memory to its processes)
    _read = read


def _in_process(piece: Piece, spec: Spec) -> None:
    before = 0

    def add(count: int) -> None:
        nonlocal before
        with _read.get_lock():
            _read.value += count - before
        before = count

    spill_piece(piece, spec, add)


def spill_piece(piece: Piece, spec: Spec, say: Callable[[int], None]) -> int:
    """Write the digests of a piece; how many records it had. `ReadError`, `AuditError`."""
    import duckdb

    target = f"{spec.folder}/{piece.side}/{piece.number}"
    os.makedirs(target)
    con = database(
        ":memory:",
        target,
        _MEMORY_MB,
        1,
        partitioned_write_flush_threshold=_FLUSH_ROWS,
        partitioned_write_max_open_files=spec.buckets + 1,
    )
    counted = _Counted(piece, spec, say)
    try:
        side = Side(piece.side, piece.columns)
        if isinstance(piece.wanted, str):
            rows, place = table_rows(con, piece.wanted), (f"{piece.file}::INTEGER", "file_row_number")
        else:
            con.register("records", counted.reader())
            rows, place = "records", ('"partition"', '"offset"')
        query = digest_query(side, spec.comparison, spec.salt, rows, place)
        con.execute(
            f"COPY (SELECT *, ((hash(scope) >> {BUCKET_SHIFT}) & {spec.buckets - 1})::INTEGER AS bucket FROM ({query})"
            f" WHERE {_chosen(spec)}) TO '{target}/rows' (FORMAT parquet, PARTITION_BY (bucket), COMPRESSION"
            " uncompressed)"
        )
    except duckdb.Error as error:
        if isinstance(counted.failure, RecordsGone):
            raise AuditError(
                f"{piece.end.text}: {counted.failure}: records were deleted while they were read (retention.ms,"
                " retention.bytes): audit again, or keep them for longer"
            ) from None
        if counted.failure is not None:
            raise counted.failure from None
        raise AuditError(f"{piece.end.text}: {_first_line(error)}") from None
    finally:
        con.close()
    return counted.count


def table_rows(con: Any, path: str) -> str:
    """SQL for the rows of a file, with their numbers."""
    quoted = path.replace("'", "''")
    return f"read_parquet('{quoted}', file_row_number = true)"


def table_facts(files: Sequence[str], work: Work) -> tuple[dict[str, str], int]:
    """The columns of a table's first file, with their types, and the number of all its rows. `AuditError`."""
    import duckdb

    con = database(":memory:", work.folder, _MEMORY_MB, 1)
    try:
        found = con.execute(f"DESCRIBE SELECT * FROM {table_rows(con, files[0])}").fetchall()
        (rows,) = con.execute("SELECT sum(num_rows) FROM parquet_file_metadata(?)", [list(files)]).fetchall()[0]
    except duckdb.Error as error:
        raise AuditError(_first_line(error)) from None
    finally:
        con.close()
    return {row[0]: row[1] for row in found if row[0] != "file_row_number"}, int(rows)


def read_piece(end: End, wanted: Range | FileRange, *, committed: bool, headers: bool) -> Iterator[pa.RecordBatch]:
    """The records of a range of an end. `ReadError`."""
    how = Reading(committed=committed, fails_on_loss=True, headers=headers)
    if isinstance(end, TopicEnd):
        assert isinstance(wanted, Range)
        return brokers.read(Brokers(end.bootstrap, end.properties, max(end.timeout_s, 30.0)), how, wanted)
    assert isinstance(end, DirectoryEnd)
    assert isinstance(wanted, FileRange)
    return segments.read(end.path, how, wanted)


class _Counted:
    """The batches of a piece for DuckDB, which has only texts for errors: what fails is kept."""

    def __init__(self, piece: Piece, spec: Spec, say: Callable[[int], None]) -> None:
        self._piece = piece
        self._spec = spec
        self._say = say
        self.count = 0
        self.failure: Exception | None = None

    def reader(self) -> pa.RecordBatchReader:
        import pyarrow as pa

        batches = self._batches()
        first = next(batches, None)
        if first is None:
            return pa.RecordBatchReader.from_batches(_nothing(), iter(()))
        return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        assert not isinstance(self._piece.wanted, str)
        headers = self._spec.comparison.headers
        try:
            for batch in read_piece(
                self._piece.end, self._piece.wanted, committed=self._spec.committed, headers=headers
            ):
                self.count += batch.num_rows
                self._say(self.count)
                yield batch
        except Exception as error:
            self.failure = error
            raise


def _nothing() -> pa.Schema:
    """The columns of a range without records."""
    import pyarrow as pa

    return pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )


def _chosen(spec: Spec) -> str:
    """The condition of rows that are compared."""
    first, end = spec.between_ms
    found = ["true"]
    if spec.sample < SAMPLE_OF:
        found.append(f"(hash(scope) & {SAMPLE_OF - 1}) < {spec.sample}")
    if first is not None:
        found.append(f"ts >= {first}")
    if end is not None:
        found.append(f"ts < {end}")
    return " AND ".join(found)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
