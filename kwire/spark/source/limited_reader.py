"""The reader of streams for PySpark from 4.2 on, which says where a batch begins and how much it may read."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (  # not there before 4.2
    ReadAllAvailable,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from kwire.spark.source.planning import limited
from kwire.spark.source.positions import Topics
from kwire.spark.source.readers import ID, Offsets, StreamReader, kept, positions, to_offsets


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Keeps to the limits that Spark gives, also with Trigger.AvailableNow."""

    _target: Offsets | None = None

    def getDefaultReadLimit(self) -> Any:
        """What the options say: the maximum, which may have a minimum beside it, or else the minimum."""
        if self.options.at_most:
            return ReadMaxRows(self.options.at_most)
        return ReadMinRows(self.options.at_least) if self.options.at_least else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where all that is there ends."""
        self._target = self.core.latest(None, 0, 0)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of all that there is, for a query's progress: how far behind it is."""
        return self.core.newest

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # type: ignore[override]
        """Where the next batch ends. With Trigger.Once Spark asks for all that is there, whatever the options say."""
        at_most = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        if self._target is None:
            at_least = 0 if isinstance(limit, ReadAllAvailable) else self.options.at_least
            return self.core.latest(start, at_most, at_least)
        starts, ends = positions(start), positions(self._target)
        ends = {each: max(offset, starts.get(each, offset)) for each, offset in ends.items()}
        if at_most:
            ends = limited({each: starts.get(each, 0) for each in ends}, ends, at_most)
        ids = {topic: each[ID] for topic, each in self._target.items() if ID in each}
        return kept(start, to_offsets(ends, Topics(tuple(ends), ids)))
