"""The writers that PySpark calls: `write` in a task, `commit` at the driver."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter, WriterCommitMessage

from kwire.cli.connection.cluster import Cluster
from kwire.spark.sink.commits import Run, commit_batch, commit_rows
from kwire.spark.sink.options import SinkOptions
from kwire.spark.sink.rows import check_columns, records
from kwire.spark.sink.running import run_at
from kwire.spark.sink.staging import Staged, Stager

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

T = TypeVar("T")

# The local properties by which Spark tells its tasks what they work for.
_QUERY, _RUN = "sql.streaming.queryId", "spark.jobGroup.id"


@dataclass
class StagedMessage(WriterCommitMessage):
    """What a task tells the driver."""

    staged: Staged
    run: Run


class _Writer:
    """What both writers share. Each call has connections of its own: Spark may make it in any process."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns({each.name: each.dataType.simpleString() for each in schema.fields}, options.topic)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        context = TaskContext.get()
        assert context is not None
        run = Run(context.getLocalProperty(_QUERY) or "", context.getLocalProperty(_RUN) or "")

        async def stage(cluster: Cluster) -> Staged:
            stager = await Stager.open(cluster, self._options, context.partitionId())
            for batch in iterator:
                if batch.num_rows:
                    for topic, rows in records(batch, self._options.topic):
                        await stager.add(topic, rows)
            return await stager.finish()

        return StagedMessage(self._run(stage), run)

    def _run(self, action: Callable[[Cluster], Awaitable[T]]) -> T:
        return run_at(self._options, action)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Writes what a batch query gives: all rows or none."""

    def commit(self, messages: Sequence[Any]) -> None:
        """Write what all tasks have staged."""
        self._run(lambda cluster: commit_rows(cluster, self._options, _staged(messages)))


class StreamWriter(_Writer, DataSourceArrowWriter, DataSourceStreamWriter):
    """Writes the batches of a streaming query, each once."""

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # type: ignore[override]
        """Write what all tasks of a batch have staged, unless that batch has been written."""
        run = next((each.run for each in messages if each is not None), None)
        if run is None:
            return
        self._run(lambda cluster: commit_batch(cluster, self._options, run, batchId, _staged(messages)))

    def abort(self, messages: Sequence[Any], batchId: int) -> None:  # type: ignore[override]
        """Nothing: what was staged goes by itself."""


def _staged(messages: Sequence[Any]) -> list[Staged]:
    return [each.staged for each in messages if each is not None]
