"""What the cases read with: frames of ``format("kwire")``, and streaming queries whose batches are kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import PySparkException

from examples.spark_orders.pipeline import BUSY
from harness.processes.brokers import wait_until

needs_limits = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2),
    reason="before 4.2 PySpark's interface has neither read limits nor Trigger.AvailableNow",
)

_ATTEMPTS = 10
_BUSY = re.compile(f"{BUSY}|CANNOT_OPEN_SOCKET")


def is_busy(error: PySparkException) -> bool:
    """Whether the machine is too busy for Spark: it waits ten seconds for its Python processes to start."""
    return _BUSY.search(str(error)) is not None


class Source:
    """``format("kwire")`` on a broker."""

    def __init__(self, spark: Any, bootstrap: str) -> None:
        self.spark = spark
        self._least = {"kafka.bootstrap.servers": bootstrap}

    def read(self, **options: Any) -> Any:
        """A batch frame with all columns."""
        return self.spark.read.format("kwire").options(**{**self._least, **options}).load()

    def read_stream(self, **options: Any) -> Any:
        """A streaming frame with all columns."""
        return self.spark.readStream.format("kwire").options(**{**self._least, **options}).load()


class Stream:
    """A streaming query that goes on from its checkpoint whenever it is started.

    ``before`` is called with each batch's id before its rows are read. ``take`` is called with each batch instead of
    keeping the numbers in its column ``value``. ``mode``: the output mode.
    """

    def __init__(
        self,
        frame: Any,
        checkpoint: Path,
        *,
        before: Callable[[int], None] | None = None,
        take: Callable[[Any], None] | None = None,
        mode: str = "append",
    ) -> None:
        self._frame = frame
        self.checkpoint = checkpoint
        self._before = before
        self._take_instead = take
        self._mode = mode
        self._query: Any = None
        self._trigger: dict[str, Any] = {}
        self._batches: dict[int, list[int]] = {}

    def start(self, **trigger: Any) -> Stream:
        """Start the query. ``trigger``: as for ``writeStream.trigger``, by default as soon as possible."""
        self._trigger = trigger
        writer = self._frame.writeStream.foreachBatch(self._take).outputMode(self._mode)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        self._query = (writer.trigger(**trigger) if trigger else writer).start()
        return self

    def stop(self) -> None:
        """Stop the query, if it runs."""
        if self._query is not None:
            self._query.stop()

    def restart(self) -> None:
        """Stop and start it."""
        self.stop()
        self.start()

    def process(self) -> Stream:
        """Wait until all that is there now has been read. Raises what the query ended with."""

        def process() -> None:
            self._query.processAllAvailable()  # of the query that runs then

        self._patiently(process)
        return self

    def finish(self) -> Stream:
        """Wait for the end of a query that ends by itself. Raises what it ended with."""

        def end() -> None:
            assert self._query.awaitTermination(120), self._query.status

        self._patiently(end)
        return self

    def wait_for(self, count: int) -> None:
        """Wait for so many batches."""

        def are_there() -> bool:
            self.check()
            return len(self._batches) >= count

        wait_until(are_there, 600, f"{count} batches")

    def check(self) -> None:
        """Raise what the query has ended with, if it has failed."""

        def look() -> None:
            if (error := self._query.exception()) is not None:
                raise error

        self._patiently(look)

    def _patiently(self, action: Callable[[], None]) -> None:
        """Do something; if meanwhile the query fails because the machine is busy, start it again and do it again."""
        for _ in range(_ATTEMPTS):
            try:
                return action()
            except PySparkException as error:
                if not is_busy(error):
                    raise
            self.start(**self._trigger)
        return action()

    @property
    def query(self) -> Any:
        """The query of PySpark."""
        return self._query

    @property
    def batches(self) -> list[list[int]]:
        """The values of each batch as numbers, sorted; empty batches too, but for those at the beginning."""
        found = [self._batches[each] for each in sorted(self._batches)]
        while found and not found[0]:
            del found[0]
        return found

    @property
    def numbers(self) -> list[int]:
        """The values of all batches, sorted."""
        return sorted(number for batch in self._batches.values() for number in batch)

    def _take(self, batch: Any, batch_id: int) -> None:
        if self._before is not None:
            self._before(batch_id)
        if self._take_instead is not None:
            self._take_instead(batch)
        else:
            self._batches[batch_id] = numbers(batch)


def numbers(frame: Any) -> list[int]:
    """The values of a batch frame as numbers, sorted."""
    return sorted(int(row.value) for row in frame.selectExpr("cast(value as string) as value").collect())
