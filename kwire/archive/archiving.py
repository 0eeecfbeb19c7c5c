"""Moving a topic into a table: rounds from where the table ends to where the topic ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kwire.archive.errors import ArchiveError
from kwire.archive.identity import Identity
from kwire.archive.portions import Portion
from kwire.archive.sources import Bounds, Source
from kwire.archive.targets.target import Target
from kwire.arrow.ranges import Range

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX: Final = 1_000_000
BYTES_MAX: Final = 64 * 1024 * 1024
"""A commit has about so many records or bytes at most; memory holds two to three times as much."""


class Settings(NamedTuple):
    """``rows_max`` and ``bytes_max``: after how much there is a commit. ``skip_lost``: go on behind records that were
    deleted from the topic before they were archived."""

    rows_max: int = ROWS_MAX
    bytes_max: int = BYTES_MAX
    skip_lost: bool = False


class Stop(Protocol):
    """Whether to stop, and waiting for that: `threading.Event`."""

    def is_set(self) -> bool:
        """Whether to stop."""

    def wait(self, timeout: float) -> bool:
        """Wait for it, for some seconds at most."""


class _Gathered:
    """Records of a partition that wait for the next commit."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self.rows: list[pa.RecordBatch] = []


class Archiver:
    """Archives one topic. After an `ArchiveError` the table has whole commits only, and a later run goes on there."""

    def __init__(self, source: Source, target: Target, identity: Identity, settings: Settings, stop: Stop) -> None:
        self._source = source
        self._target = target
        self._identity = identity
        self._settings = settings
        self._stop = stop
        self._seen: dict[int, int] = {}  # before which offsets all was read, also what had no records
        self._gathered: dict[int, _Gathered] = {}
        self._rows = self._bytes = 0
        self.records = 0
        """Records that were committed."""
        self.commits = 0
        """Commits that were made."""

    def follow(self, interval_s: float) -> None:
        """A round at least so often, until it is to stop."""
        while not self._stop.is_set():
            self.round()
            self._stop.wait(interval_s)

    def round(self) -> None:
        """Archive what the topic has now; as much as was read if it is to stop meanwhile."""
        for partition, bounds in sorted(self._source.bounds().items()):
            start = self._first(partition, bounds)
            if start < bounds.end and not self._stop.is_set():
                self._read(partition, start, bounds)
        self._commit()

    def _first(self, partition: int, bounds: Bounds) -> int:
        """The offset from which to read. `ArchiveError` if the topic does not go on where the table ends."""
        name = f"{self._identity.topic}-{partition}"
        done = self._target.positions().get(partition)
        if done is None:
            return max(bounds.start, self._seen.get(partition, 0))
        done = max(done, self._seen.get(partition, 0))
        if done > bounds.end:
            if self._source.lags:
                return bounds.end
            raise ArchiveError(
                f"{name} ends at offset {bounds.end}, and the table has what was before {done}: the end of the log was"
                " lost, and other records may follow; give another --path"
            )
        if done >= bounds.start:
            return done
        if not self._settings.skip_lost:
            raise ArchiveError(
                f"{name}: records from offset {done} to {bounds.start - 1} were deleted before they were archived:"
                " --skip-lost goes on after them"
            )
        return bounds.start

    def _begins(self, partition: int, start: int) -> int:
        """Where the offsets begin that are done when what is read from ``start`` on is committed: without a gap behind
        what is in the table, unless records were lost."""
        done = self._target.positions().get(partition)
        is_next = done is not None and start <= max(done, self._seen.get(partition, 0))
        return done if done is not None and is_next else start

    def _is_strict(self, partition: int) -> bool:
        """Whether it is an error if some of the wanted records are gone."""
        return partition in self._target.positions() and not self._settings.skip_lost

    def _read(self, partition: int, start: int, bounds: Bounds) -> None:
        self._gathered[partition] = _Gathered(self._begins(partition, start))
        wanted = Range(self._identity.topic, partition, start, bounds.end)
        for batch in self._source.read(wanted, strict=self._is_strict(partition)):
            self._add(partition, batch)
            if self._stop.is_set():
                return
        self._gathered[partition].end = self._seen[partition] = bounds.end

    def _add(self, partition: int, batch: pa.RecordBatch) -> None:
        while batch.num_rows:
            part = batch.slice(0, self._settings.rows_max - self._rows)
            batch = batch.slice(part.num_rows)
            gathered = self._gathered[partition]
            gathered.rows.append(part)
            gathered.end = part.column("offset")[-1].as_py() + 1
            self._rows += part.num_rows
            self._bytes += part.nbytes
            if self._rows >= self._settings.rows_max or self._bytes >= self._settings.bytes_max:
                self._commit()
                self._gathered[partition] = _Gathered(gathered.end)

    def _commit(self) -> None:
        """Commit what was gathered, unless the topic is another one by now."""
        if self._rows:
            self._identity.check(self._source.identity(), self._identity.topic)
            portions = [Portion(each, it.start, it.end, it.rows) for each, it in sorted(self._gathered.items())]
            self._target.commit(portions)
            self.records += self._rows
            self.commits += 1
        self._gathered.clear()
        self._rows = self._bytes = 0
