"""What the driver does when all tasks of a batch have staged their rows: one transaction with the rows and the mark."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import reduce
from typing import Final, NamedTuple
from uuid import uuid4

from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError
from kwire.cli.records.writing.transaction import Transaction
from kwire.spark.sink.errors import SinkError
from kwire.spark.sink.marks import PREFIX, Mark, Marks, is_written
from kwire.spark.sink.options import SinkOptions
from kwire.spark.sink.rows import added
from kwire.spark.sink.staging import Staged, staged_batches

_FENCED: Final = (
    "another run of this query has taken over, or the transaction was open for longer than"
    " kafka.transaction.timeout.ms; nothing of this batch was written"
)


class Run(NamedTuple):
    """Of which query the rows are: its id, which the checkpoint has, and the id of this start of it."""

    query: str
    run: str


async def commit_batch(cluster: Cluster, options: SinkOptions, run: Run, batch: int, staged: Sequence[Staged]) -> bool:
    """Write a batch of a streaming query, unless it has been written; whether it was written now. `SinkError` if this
    query may not write here, `CommandError` if the cluster does not take it."""
    sink = options.identity(run.query)
    rows, total = sum(each.rows for each in staged), reduce(added, (each.digest for each in staged), 0)
    new = Mark(run.query, run.run, batch, rows, total)
    marks = Marks(cluster, options, sink)
    transaction = await _begin(cluster, options, marks.name)
    last, others = await marks.last(), dict[str, Mark]()
    if last is None or last.run != run.run:  # the first batch of a run; or the group's offsets have expired
        others = await marks.all()
        last = others.pop(sink, None)
    if is_written(new, last, others, sink, skips_changed=options.skips_changed):
        return False
    async with _taken_back(transaction):
        await _copy(cluster, options, transaction, staged)
        await marks.put(transaction, new)
    await transaction.commit()
    return True


async def commit_rows(cluster: Cluster, options: SinkOptions, staged: Sequence[Staged]) -> None:
    """Write the rows of a batch query: all of them or none."""
    transaction = await _begin(cluster, options, f"{PREFIX}{options.sink_id or uuid4()}")
    async with _taken_back(transaction):
        await _copy(cluster, options, transaction, staged)
    await transaction.commit()


async def forget(cluster: Cluster, options: SinkOptions, sink: str) -> bool:
    """Let go of a sink's mark, so that another query may have its name; whether there was one."""
    marks = Marks(cluster, options, sink)
    transaction = await _begin(cluster, options, marks.name)
    if sink not in await marks.all():
        return False
    async with _taken_back(transaction):
        await marks.put(transaction, None)
    await transaction.commit()
    return True


@contextlib.asynccontextmanager
async def _taken_back(transaction: Transaction) -> AsyncIterator[None]:
    """Abort at once if what is in it fails, so that readers need not wait for the transaction's timeout."""
    try:
        yield
    except Exception:
        with contextlib.suppress(CommandError, SinkError):
            await transaction.abort()
        raise


async def _begin(cluster: Cluster, options: SinkOptions, name: str) -> Transaction:
    open_ms, timeout_s = options.transaction_timeout_ms, options.timeout_s
    return await Transaction.begin(cluster, name, open_ms=open_ms, timeout_s=timeout_s, fenced=_FENCED)


async def _copy(cluster: Cluster, options: SinkOptions, transaction: Transaction, staged: Sequence[Staged]) -> None:
    async for target, content in staged_batches(cluster, options, staged):
        await transaction.write(target, content)
