"""Marks: which batch of which query a sink has written last.

A mark is committed in the transaction of its batch, twice: as an offset of the sink's group, which is quick to ask for,
and as a record of a compacted topic, which stays when the group's offsets expire (offsets.retention.minutes).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import check
from kwire.cli.connection.offsets import EARLIEST, LATEST, list_offsets
from kwire.cli.records.reading import Reader
from kwire.cli.records.writing.encoding import Rows, encode_batch
from kwire.cli.records.writing.transaction import Transaction
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from kwire.spark.sink.errors import SinkError
from kwire.spark.sink.options import SinkOptions
from kwire.spark.sink.staging import create_topic, partition_count

COMMITS_CONFIGS: Final = {"cleanup.policy": "compact"}
PREFIX: Final = "kwire-sink-"
"""What transactional ids and groups of sinks begin with."""
_FETCH_VERSION: Final = 7
"""The last version of OffsetFetch for one group."""


class Mark(NamedTuple):
    """``query``: the id that is in the checkpoint; ``run``: that of one start of it. ``rows`` and ``digest`` say what
    the batch was."""

    query: str
    run: str
    batch: int
    rows: int
    digest: int

    def text(self) -> str:
        """As it is written."""
        return json.dumps(self._asdict(), separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Mark | None:
        """A mark as it is written; None for anything else."""
        try:
            found = json.loads(text)
            return cls(
                str(found["query"]), str(found["run"]), int(found["batch"]), int(found["rows"]), int(found["digest"])
            )
        except (ValueError, KeyError, TypeError):
            return None


def is_written(new: Mark, last: Mark | None, others: Mapping[str, Mark], sink: str, *, skips_changed: bool) -> bool:
    """Whether the batch of ``new`` is the last that was written, so that it must not be written again. ``others``: the
    marks of other sinks. `SinkError` if the query may not write to this sink."""
    for other, mark in others.items():
        if mark.query == new.query and (last is None or last.query != new.query):
            raise SinkError(
                f"query {new.query} has written batch {mark.batch} as sink {other!r}, and now comes as {sink!r}: its"
                f" checkpoint was copied or moved. If it was moved, set the option sinkId to {other!r}; a copy begins"
                " with a checkpoint of its own"
            )
    if last is None:
        return False
    if last.query != new.query:
        raise SinkError(
            f"sink {sink!r} belongs to query {last.query}, which has written batch {last.batch}; this is query"
            f" {new.query}: the checkpoint was deleted, or two queries have one sinkId. Give this query another sinkId,"
            f" or let go of the old one with kwire.spark.forget_sink({sink!r}, …)"
        )
    if new.batch < last.batch:
        raise SinkError(
            f"batch {new.batch} of query {new.query} comes after batch {last.batch} was written to sink {sink!r}: its"
            " checkpoint is an old copy. Go on with the newest one, or begin with a new checkpoint and another sinkId"
        )
    if new.batch > last.batch:
        return False
    if (new.rows, new.digest) != (last.rows, last.digest) and not skips_changed:
        raise SinkError(
            f"batch {new.batch} was written to sink {sink!r} with {last.rows} rows and comes again with {new.rows},"
            " or with others: its checkpoint is a copy, or the query does not give the same rows again (rand, now)."
            " The rows that were written stay; set the option changedBatch to skip to go on"
        )
    return True


class Marks:
    """The marks of a cluster, seen by one sink."""

    def __init__(self, cluster: Cluster, options: SinkOptions, sink: str) -> None:
        self._cluster = cluster
        self._options = options
        self._sink = sink
        self.name = PREFIX + sink
        """The sink's transactional id, and its group."""

    async def last(self) -> Mark | None:
        """The sink's last mark, by its group's offset; None if it is not there (any more). Begin a transaction first:
        an offset of an open one is waited for."""
        topic = OffsetFetchRequestTopic(name=self._options.commits_topic, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=self.name, topics=[topic], require_stable=True)

        def code(response: object) -> int:
            return int(response.error_code or response.topics[0].partitions[0].error_code)  # type: ignore[attr-defined]

        self._cluster.extend()
        found = await self._cluster.at_coordinator(self.name, request, code, max_version=_FETCH_VERSION)
        if code(found) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            check(code(found), f"group {self.name}")
        return Mark.parse(found.topics[0].partitions[0].metadata or "")

    async def all(self) -> dict[str, Mark]:
        """The last mark of each sink, by the records of the topic, which is made if it is not there."""
        topic, found = self._options.commits_topic, dict[str, Mark]()
        if await partition_count(self._cluster, topic) is None:
            await create_topic(self._cluster, topic, 1, COMMITS_CONFIGS)
            return found
        place = (topic, 0)
        first = (await list_offsets(self._cluster, {place: EARLIEST}))[place].offset
        end = (await list_offsets(self._cluster, {place: LATEST}, committed=True))[place].offset
        reader = Reader(self._cluster, {place: first}, {place: end}, committed=True, timeout_s=self._options.timeout_s)
        async for columns in reader.batches():
            for key, value in zip(columns.keys, columns.values, strict=True):
                sink = (key or b"").decode("utf-8", "replace")
                mark = Mark.parse((value or b"").decode("utf-8", "replace"))
                if mark is not None:
                    found[sink] = mark
                else:
                    found.pop(sink, None)
        return found

    async def put(self, transaction: Transaction, mark: Mark | None) -> None:
        """Make a mark part of a transaction; None forgets the sink."""
        text = mark.text() if mark else ""
        rows = Rows([text.encode() or None], [self._sink.encode()])
        place = (self._options.commits_topic, 0)
        await transaction.write(place, encode_batch(rows, time.time_ns() // 1_000_000))
        await transaction.commit_offset(self.name, place, mark.batch if mark else 0, text)
