"""The work of `Archiver` by a Spark job: tasks read ranges of offsets and write Parquet files, the driver commits them.

A task writes its file aside, in the table's folder, which executors and the driver share; so what was killed is as if
it had not been, and a task that Spark runs twice (speculation) leaves a file that nobody has committed. For Parquet
files and Delta tables in a folder. Executors need ``pip install 'kwire[archive]'``.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.archive.archiving import Archiver, Settings, Stop
from kwire.archive.errors import ArchiveError
from kwire.archive.identity import Identity
from kwire.archive.portions import StagedFile
from kwire.archive.rows import table_schema
from kwire.archive.sources import Source
from kwire.archive.targets.target import ASIDE, ROW_GROUP, AdoptingTarget
from kwire.arrow.ranges import Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STRAY: Final = "kwire-task-"
"""How the names of tasks' files begin."""


class Work(NamedTuple):
    """A task: a range to read, where its offsets begin in the table, and whether records that are gone are an error."""

    wanted: Range
    begins: int
    strict: bool


class Outcome(NamedTuple):
    """What a task has written, or why nothing."""

    staged: StagedFile | None
    error: str


def session() -> SparkSession:
    """Spark as it is configured for this process (``spark-submit``, SPARK_REMOTE excepted), or on all cores here."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # read when Spark's JVM starts
    return SparkSession.builder.appName("kwire archive").getOrCreate()


class SparkArchiver(Archiver):
    """Archives one topic with Spark. ``make_source`` is called by tasks, wherever they run."""

    def __init__(
        self,
        spark: SparkSession,
        folder: str,
        make_source: Callable[[], Source],
        target: AdoptingTarget,
        identity: Identity,
        settings: Settings,
        stop: Stop,
    ) -> None:
        self._make_source = make_source
        super().__init__(make_source(), target, identity, settings, stop)
        self._spark = spark
        self._folder = os.path.abspath(folder)
        self._adopting = target

    def round(self) -> None:
        """Archive what the topic has now, in one job and one commit (of plain files: one after the other)."""
        work = []
        for partition, bounds in sorted(self._source.bounds().items()):
            work += self._work(partition, self._first(partition, bounds), bounds.end)
        if not work or self._stop.is_set():
            return
        folder, make_source = self._folder, self._make_source
        tasks = self._spark.sparkContext.parallelize(work, len(work))
        outcomes = tasks.map(lambda each: _written(each, folder, make_source)).collect()
        staged = _without_gaps(outcomes)
        rows = sum(each.rows for each in staged)
        if rows:
            self._identity.check(self._source.identity(), self._identity.topic)
            self._adopting.adopt(staged)
            self.records += rows
            self.commits += 1
        for one in staged:
            self._seen[one.partition] = one.end

    def _work(self, partition: int, start: int, end: int) -> list[Work]:
        """The tasks of a partition, each of `rows_max` offsets at most."""
        found, begins, strict = [], self._begins(partition, start), self._is_strict(partition)
        for first in range(start, end, self._settings.rows_max):
            last = min(end, first + self._settings.rows_max)
            found.append(Work(Range(self._identity.topic, partition, first, last), begins, strict))
            begins = last
        return found


def _without_gaps(outcomes: Sequence[Outcome]) -> list[StagedFile]:
    """What tasks have written, in order; a range without rows belongs to the file behind it. `ArchiveError`."""
    staged: list[StagedFile] = []
    for each in outcomes:
        if each.staged is None:
            raise ArchiveError(each.error)
        one = each.staged
        if staged and staged[-1].partition == one.partition and not staged[-1].rows:
            one = one._replace(start=staged.pop().start)
        staged.append(one)
    return staged


def _written(work: Work, folder: str, make_source: Callable[[], Source]) -> Outcome:
    """Read a range into a file of its own. Runs in a task."""
    import pyarrow.parquet as pq

    wanted = work.wanted
    path = f"{folder}/{_STRAY}{wanted.partition}-{wanted.start:020d}-{uuid.uuid4()}.parquet{ASIDE}"
    rows = size = 0
    try:
        with open(path, "wb") as file:
            with pq.ParquetWriter(file, table_schema(), compression="zstd") as writer:
                for batch in make_source().read(wanted, strict=work.strict):
                    writer.write_batch(batch, ROW_GROUP)
                    rows += batch.num_rows
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        if not rows:
            os.unlink(path)
    except ArchiveError as error:
        return Outcome(None, str(error))
    except OSError as error:
        return Outcome(None, f"{error.filename or path}: {error.strerror}: the folder must be one for all executors")
    return Outcome(StagedFile(wanted.partition, work.begins, wanted.end, path, rows, size), "")
