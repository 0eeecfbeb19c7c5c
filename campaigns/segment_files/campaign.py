"""The rounds: in each, files are read while something happens to the brokers, and every read is judged."""

from __future__ import annotations

import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from campaigns.segment_files import verdict
from campaigns.segment_files.disturbances import Disturbances
from campaigns.segment_files.verdict import Row, make_row
from campaigns.segment_files.witness import Late, Partition, Witness
from campaigns.segment_files.writers import (
    AGAIN,
    COMPACTED,
    LONG_S,
    PARTITIONS,
    PLAIN,
    SHORT_S,
    TRANSACTIONS,
    RecordWriter,
    TransactionWriter,
)
from kwire.spark.source.errors import SourceError
from kwire.spark.source.files_reader import FileRangePartition, FilesReader

_QUERIES: Final = ((PLAIN, False), (COMPACTED, False), (TRANSACTIONS, False), (TRANSACTIONS, True), (AGAIN, False))
_PAUSE_S: Final = 0.01
_WARM_UP_S: Final = 1.0
_PROGRESS: Final = 20
_KINDS: Final = {
    "deleted": "was deleted meanwhile",
    "made again or truncated": "was made again, or its log truncated",
    "ends early": "ends before offset",
    "torn": "does not end inside|the file ends inside|checksum|magic",
    "not there": "is not in this directory",
    "swap": "a compaction has not ended",
    "changing": "change all the time",
}
"""What errors say: one line each, by which they are counted."""


class Violation(Exception):
    """Files showed something else than a consumer was given."""


@dataclass
class Query:
    """One topic, read once, as Spark does it: planned at the driver, then a task for each range."""

    topic: str
    committed: bool
    reader: FilesReader
    tasks: Sequence[Any] = ()
    lives: int = 0
    cut: dict[Partition, int] = field(default_factory=dict)
    rows: dict[int, dict[int, list[Row]]] = field(default_factory=dict)  # by partition and first offset
    error: str = ""


class Campaign:
    """Rounds on one cluster."""

    def __init__(self, home: Path, seed: int, disturbances: Sequence[str] = ()) -> None:
        self._chance = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._world = Disturbances(home, seed)
        self._world.above = self._check_bounds
        self._names = list(disturbances) or self._world.names()
        self._failures: list[BaseException] = []

    def run(self, rounds: int) -> None:
        """Run the rounds. `Violation`."""
        world = self._world
        try:
            world.start()
            bootstrap = world.cluster.bootstrap
            everything = [(topic, number) for topic in (PLAIN, COMPACTED, TRANSACTIONS) for number in range(PARTITIONS)]
            own = [each for each in everything if each[0] == TRANSACTIONS]
            self._witnesses = {
                False: Witness(bootstrap, everything, committed=False),
                True: Witness(bootstrap, own, committed=True),
            }
            world.witness = self._witnesses[False]
            writers = [
                RecordWriter(bootstrap, 1),
                *(TransactionWriter(bootstrap, number, f"short-{number}", SHORT_S) for number in range(2)),
                *(TransactionWriter(bootstrap, number, f"long-{number}", LONG_S) for number in range(2)),
            ]
            time.sleep(_WARM_UP_S)
            for done in range(1, rounds + 1):
                self._round()
                if done % _PROGRESS == 0:
                    print(f"{done} rounds: {dict(sorted(self.counts.items()))}", file=sys.stderr, flush=True)
            for writer in writers:
                writer.close()
            for witness in self._witnesses.values():
                witness.close()
        finally:
            world.cluster.kill()

    def _round(self) -> None:
        chance = self._chance
        name, node = chance.choice(self._names), chance.choice((1, 2))
        thread = threading.Thread(target=self._happen, args=(name, node))
        if earlier := chance.random() < 0.5:
            thread.start()
            time.sleep(chance.uniform(0, 0.5))
        queries = [self._planned(node, topic, committed) for topic, committed in _QUERIES]
        if not earlier:
            thread.start()
        tasks = [(query, task) for query in queries for task in query.tasks]
        chance.shuffle(tasks)
        for query, task in tasks:
            if not query.error:
                _read(query, task)
                time.sleep(chance.uniform(0, 2 * _PAUSE_S))
        thread.join()
        if self._failures:
            raise self._failures[0]
        for query in queries:
            try:
                self._judge(query)
            except (Violation, Late) as error:
                kind = "read_committed" if query.committed else "read_uncommitted"
                raise Violation(f"{name} at broker {node}, {query.topic} ({kind}): {error}") from None
        self.counts["rounds"] += 1
        self.counts[f"with {name}"] += 1
        self._world.tidy()

    def _happen(self, name: str, node: int) -> None:
        try:
            self._world.happen(name, node)
        except BaseException as error:  # the round ends with it
            self._failures.append(error)

    def _planned(self, node: int, topic: str, committed: bool) -> Query:
        given = {"path": str(self._world.data_dir(node)), "subscribe": topic, "includeHeaders": "true"}
        if committed:
            given["kafka.isolation.level"] = "read_committed"
        query = Query(topic, committed, FilesReader(given), lives=len(self._world.lives), cut=dict(self._world.cut))
        try:
            query.tasks = query.reader.partitions()
        except SourceError as error:
            query.error = str(error)
        return query

    def _judge(self, query: Query) -> None:
        """`Violation` if a read that has ended well is not what a consumer was given."""
        if query.error:
            kinds = [kind for kind, pattern in _KINDS.items() if re.search(pattern, query.error)]
            if "\n" in query.error or not kinds:
                raise Violation(f"an error of another kind: {query.error}")
            self.counts[f"errors: {kinds[0]}"] += 1
            return
        for number, parts in query.rows.items():
            partition = (query.topic, number)
            planned = [task.planned for task in query.tasks if task.planned.wanted.partition == number]
            start, end = min(each.wanted.start for each in planned), max(each.wanted.end for each in planned)
            rows = [row for first in sorted(parts) for row in parts[first]]
            wrong = verdict.rising(rows, start, end) or self._difference(query, partition, rows, start, end)
            if start < query.cut.get(partition, 0):
                wrong = f"begins at {start}, and what lies before {query.cut[partition]} was deleted"
            if wrong:
                raise Violation(f"{query.topic}-{number}, offsets {start} to {end}: {wrong}")
            self.counts[f"records of {query.topic}"] += len(rows)
        self.counts["reads equal"] += 1

    def _difference(self, query: Query, partition: Partition, rows: list[Row], start: int, end: int) -> str | None:
        if query.topic == AGAIN:
            lives = self._world.lives[max(0, query.lives - 1) :]
            return verdict.same_as_one([each[partition[1]] for each in lives], rows, end)
        ledger = self._witnesses[query.committed].wait_for(partition, end)
        compare = verdict.same_but_compacted if query.topic == COMPACTED else verdict.same
        return compare(ledger, rows, start, end)

    def _check_bounds(self, leader: int, witness: Witness) -> None:
        """`Violation` if files have more to read than the leader's high watermark allows."""
        for query in (self._planned(leader, PLAIN, False), self._planned(leader, COMPACTED, False)):
            for task in query.tasks:
                wanted = task.planned.wanted
                high = witness.high_watermark((wanted.topic, wanted.partition))
                if wanted.end > high:
                    raise Violation(f"{wanted} is to be read, and the high watermark is {high}")
                self.counts["bounds beside a high watermark"] += 1


def _read(query: Query, task: FileRangePartition) -> None:
    """Read a range, as a task does."""
    wanted = task.planned.wanted
    rows: list[Row] = []
    try:
        for batch in query.reader.read(task):
            rows += _rows(batch)
            time.sleep(0)  # others may write meanwhile
    except SourceError as error:
        query.error = str(error)
    query.rows.setdefault(wanted.partition, {})[wanted.start] = rows


def _rows(batch: Any) -> Iterator[Row]:
    times = batch.column("timestamp").cast("int64").to_pylist()
    columns = (batch.column(name).to_pylist() for name in ("offset", "key", "value", "headers"))
    for time_us, offset, key, value, headers in zip(times, *columns, strict=True):
        found = tuple((each["key"], each["value"]) for each in headers or ())
        yield make_row(offset, time_us // 1000, key, value, found)


def run_rounds(seed: int, rounds: int, disturbances: Sequence[str] = ()) -> tuple[Counter[str], list[str]]:
    """Rounds on a cluster of their own in a temporary folder: what happened, and the failure if there was one."""
    with tempfile.TemporaryDirectory(prefix="kwire-files-") as home:
        campaign = Campaign(Path(home), seed, disturbances)
        try:
            campaign.run(rounds)
        except Violation as violation:
            return campaign.counts, [f"seed {seed}, round {campaign.counts['rounds'] + 1}: {violation}"]
        return campaign.counts, []
