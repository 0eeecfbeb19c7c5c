"""Where records come from: brokers, or a data directory without one. Only committed ones (read_committed)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from kwire.archive.errors import ArchiveError
from kwire.archive.identity import Identity
from kwire.archive.rows import to_rows
from kwire.arrow import brokers as from_brokers
from kwire.arrow.errors import ReadError
from kwire.arrow.files import segments
from kwire.arrow.files.directory import DataDirectory
from kwire.arrow.ranges import Range
from kwire.arrow.reading import Brokers, Reading
from kwire.base.doors import Files
from kwire.base.uuids import uuid_to_text
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import EARLIEST, LATEST, list_offsets
from kwire.log.common import checkpoints
from kwire.log.common.log_dirs import LogDirectoryError, read_meta_properties

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class Bounds(NamedTuple):
    """Offsets of a partition that may be read, from ``start`` to before ``end``."""

    start: int
    end: int


class Source(Protocol):
    """One topic. `ArchiveError` for what cannot be read. ``lags``: its ends may be earlier than they were."""

    lags: bool

    def identity(self) -> Identity:
        """What the topic is now."""

    def bounds(self) -> dict[int, Bounds]:
        """What may be read of each partition now."""

    def read(self, wanted: Range, *, strict: bool) -> Iterator[pa.RecordBatch]:
        """The rows of a range, in order; ``strict``: that some are gone is an error."""


class BrokerSource:
    """A topic of a running cluster."""

    lags = False

    def __init__(self, brokers: Brokers, topic: str) -> None:
        self._brokers = brokers
        self._topic = topic

    def identity(self) -> Identity:
        """Its id, that of its cluster, and its partitions."""
        return _run(self._identity())

    def bounds(self) -> dict[int, Bounds]:
        """From the first offset to the last stable one."""
        return _run(self._bounds())

    def read(self, wanted: Range, *, strict: bool) -> Iterator[pa.RecordBatch]:
        """The rows, as a consumer gets them."""
        how = Reading(committed=True, fails_on_loss=strict, headers=True)
        return _rows(from_brokers.read(self._brokers, how, wanted), wanted)

    async def _identity(self) -> Identity:
        cluster = await self._connected()
        try:
            response = await cluster.metadata([self._topic])
            [topic] = response.topics
            check(topic.error_code, f"topic {self._topic}")
            topic_id = uuid_to_text(topic.topic_id) if any(topic.topic_id) else ""
            return Identity(self._topic, topic_id, response.cluster_id or "", len(topic.partitions))
        finally:
            cluster.close()

    async def _bounds(self) -> dict[int, Bounds]:
        cluster = await self._connected()
        try:
            [topic] = (await cluster.metadata([self._topic])).topics
            check(topic.error_code, f"topic {self._topic}")
            wanted = [(self._topic, each.partition_index) for each in topic.partitions]
            first = await list_offsets(cluster, dict.fromkeys(wanted, EARLIEST))
            last = await list_offsets(cluster, dict.fromkeys(wanted, LATEST), committed=True)
            return {each[1]: Bounds(first[each].offset, last[each].offset) for each in sorted(wanted)}
        finally:
            cluster.close()

    async def _connected(self) -> Cluster:
        brokers = self._brokers
        cluster = Cluster.of(brokers.bootstrap, brokers.properties, brokers.timeout_s)
        try:
            await cluster.connect()
        except BaseException:
            cluster.close()
            raise
        return cluster


class DirectorySource:
    """A topic in a data directory of kwire or Apache Kafka, which a broker may be using."""

    lags = True

    def __init__(self, path: str, topic: str) -> None:
        self._directory = DataDirectory(path)
        self._topic = topic

    def identity(self) -> Identity:
        """What its directories say."""
        try:
            numbers = self._numbers()
            files, path = Files(), self._directory.path
            topic_id = checkpoints.read_topic_id(files, self._directory.folder((self._topic, numbers[0])))
            properties = read_meta_properties(files, path)
        except (ReadError, LogDirectoryError, checkpoints.CorruptCheckpoint) as error:
            raise ArchiveError(str(error)) from None
        except OSError as error:
            raise ArchiveError(f"{error.filename}: {error.strerror}") from None
        cluster_id = (properties and properties.cluster_id) or ""
        return Identity(self._topic, uuid_to_text(topic_id) if topic_id else "", cluster_id, numbers[-1] + 1)

    def bounds(self) -> dict[int, Bounds]:
        """What the directory's checkpoints show."""
        try:
            found = {
                number: self._directory.visible((self._topic, number), committed=True) for number in self._numbers()
            }
        except ReadError as error:
            raise ArchiveError(str(error)) from None
        return {number: Bounds(each.start, each.end) for number, each in found.items()}

    def read(self, wanted: Range, *, strict: bool) -> Iterator[pa.RecordBatch]:
        """The rows, from segments."""
        how = Reading(committed=True, fails_on_loss=strict, headers=True)
        try:
            identity = self._directory.identity((wanted.topic, wanted.partition), wanted.end)
        except ReadError as error:
            raise ArchiveError(str(error)) from None
        planned = segments.FileRange(wanted, wanted.end, identity)
        return _rows(segments.read(self._directory.path, how, planned), wanted)

    def _numbers(self) -> list[int]:
        found = [number for topic, number in self._directory.partitions() if topic == self._topic]
        if not found:
            raise ReadError(f"{self._directory.path}: topic {self._topic} is not in this directory")
        return found


def _rows(batches: Iterator[pa.RecordBatch], wanted: Range) -> Iterator[pa.RecordBatch]:
    try:
        for batch in batches:
            yield to_rows(batch)
    except ReadError as error:
        raise ArchiveError(str(error)) from None
    except UnicodeEncodeError:
        raise ArchiveError(
            f"{wanted.topic}-{wanted.partition}: a record from offset {wanted.start} on has a header whose name is not"
            " UTF-8, which a table cannot keep: back up its segments instead"
        ) from None


def _run(work: Coroutine[Any, Any, T]) -> T:
    """The outcome of work on a cluster. `ArchiveError`."""
    try:
        return asyncio.run(work)
    except CommandError as error:
        raise ArchiveError(str(error)) from None
