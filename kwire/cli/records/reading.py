"""`Reader`: fetches partitions from their leaders and yields the records of each batch.

One Fetch is under way at each leader while the records of the last one are written, so memory holds two responses for
each leader and one decoded batch. The end is an offset, never a number of records: markers of transactions, aborted
records and what compaction has removed take offsets without being records.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kwire.base.errors import ErrorCode
from kwire.cli.connection.cluster import PASSING, Cluster
from kwire.cli.connection.errors import CommandError, check
from kwire.cli.connection.offsets import EARLIEST, Partition, leaders, list_offsets
from kwire.cli.records.columns import Columns, decode_batch
from kwire.codec.errors import CorruptBatch
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.records import (
    ABORT,
    BatchHeader,
    Buffer,
    crc_is_valid,
    iter_headers,
    iter_records,
    parse_control_key,
)

_VERSION_MAX: Final = 12
"""The last version of Fetch that names topics; those after it have their ids."""
_WAIT_MS: Final = 500
_RESPONSE_BYTES_MAX: Final = 16 * 1024 * 1024
_PARTITION_BYTES_MAX: Final = 4 * 1024 * 1024
_MUCH_BYTES: Final = 1024 * 1024
"""A response with so many bytes of records: the leader may have more, and there is no pause before the next fetch."""
_PAUSE_S: Final = 0.1
_EMPTY_MAX: Final = 2
"""After so many responses without records, though the end has not been reached, nothing is left before the end."""
_CONTROL_BYTES_MAX: Final = 1024 * 1024
_MOVED: Final = frozenset({*PASSING, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Errors that a partition may have while it moves or its topic is new; they end with the timeout."""


Decode = Callable[[str, int, Buffer, BatchHeader], Columns]
"""What makes columns of a topic's name, a partition, a batch and its header, as `decode_batch` does; it may leave out
records that nobody wants."""


class Chosen(NamedTuple):
    """A batch that has records for the reader; of them those from offset ``first`` to before ``end`` are wanted (None:
    all). Of a batch that has none (a marker) there is no ``data``, only its ``header``."""

    partition: Partition
    data: Buffer | None
    header: BatchHeader
    first: int
    end: int | None


class _Source:
    """One partition: the next offset, and the one before which it ends (None: it goes on)."""

    def __init__(self, partition: Partition, offset: int, end: int | None) -> None:
        self.partition = partition
        self.name = f"{partition[0]}-{partition[1]}"
        self.offset = offset
        self.end = end
        self.empty = 0

    @property
    def is_done(self) -> bool:
        return self.end is not None and self.offset >= self.end


class _Portion(NamedTuple):
    """What a response has of a partition: batches by their positions in ``records``, and the offset that was wanted.
    ``aborted``: producer ids and first offsets of aborted transactions; None if they are read like others."""

    source: _Source
    first: int
    records: memoryview
    batches: list[tuple[int, BatchHeader]]
    aborted: Sequence[tuple[int, int]] | None


class Reader:
    """Reads partitions from offsets; ``ends`` are the offsets before which to stop, None to go on for ever. A partition
    that cannot be read for ``timeout_s`` is a `CommandError`. ``decode`` makes columns of batches. ``strict``: offsets
    that are not there any more are a `CommandError` with OFFSET_OUT_OF_RANGE, too; otherwise it goes on after them.
    ``pause_s``: seconds between two fetches from a leader that had little to give, so that a topic with many small
    batches does not cost its leader a fetch for each."""

    def __init__(
        self,
        cluster: Cluster,
        starts: Mapping[Partition, int],
        ends: Mapping[Partition, int] | None,
        *,
        committed: bool,
        timeout_s: float,
        decode: Decode = decode_batch,
        strict: bool = False,
        pause_s: float = 0.0,
    ) -> None:
        self._cluster = cluster
        self._pause_s = pause_s
        self._next_s: dict[int, float] = {}  # by leader
        self._decode = decode
        self._committed = committed
        self._timeout_s = timeout_s
        self._strict = strict
        self._sources = {
            each: _Source(each, offset, None if ends is None else ends[each]) for each, offset in starts.items()
        }
        self._fetches: dict[asyncio.Task[Any], int] = {}  # with the leader
        self._unplaced: set[Partition] = set(starts)
        self._out_of_range: set[Partition] = set()
        self._failing_since_s: float | None = None

    async def batches(self) -> AsyncGenerator[Columns]:
        """The records of each batch, without those of other offsets. A batch without records for the reader (a marker)
        is empty columns, so that its end is known. `CommandError`."""
        async for chosen in self.chosen():
            yield _decoded(chosen, self._decode)

    async def chosen(self) -> AsyncGenerator[Chosen]:
        """Each batch as it is. `CommandError`."""
        try:
            while any(not each.is_done for each in self._sources.values()):
                await self._place()
                async for chosen in self._round():
                    yield chosen
        finally:
            for task in self._fetches:
                task.cancel()

    async def _place(self) -> None:
        """Start to fetch partitions whose leaders are not known yet, from leaders without a fetch under way."""
        waiting = [each for each in sorted(self._unplaced) if not self._sources[each].is_done]
        if not waiting:
            return
        self._cluster.extend()
        if self._out_of_range:
            await self._move_into_range()
        for leader, partitions in (await self._cluster.until_done(lambda: leaders(self._cluster, waiting))).items():
            if leader not in self._fetches.values():
                self._fetch(leader, partitions)

    def _fetch(self, leader: int, partitions: Iterable[Partition]) -> None:
        sources = [self._sources[each] for each in partitions]
        sources = [each for each in sources if not each.is_done]
        if sources:
            self._unplaced.difference_update(each.partition for each in sources)
            self._fetches[asyncio.create_task(self._fetched(leader, sources))] = leader

    async def _fetched(self, leader: int, sources: list[_Source]) -> tuple[list[_Source], Any]:
        """The response of a leader; the failure if there is none."""
        if self._pause_s:
            await asyncio.sleep(self._next_s.get(leader, 0.0) - asyncio.get_running_loop().time())
        topics: dict[str, list[FetchPartition]] = {}
        for each in sources:
            topics.setdefault(each.partition[0], []).append(
                FetchPartition(
                    partition=each.partition[1],
                    fetch_offset=each.offset,
                    partition_max_bytes=_PARTITION_BYTES_MAX,
                )
            )
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_RESPONSE_BYTES_MAX,
            isolation_level=int(self._committed),
            topics=[FetchTopic(topic=topic, partitions=each) for topic, each in topics.items()],
        )
        self._cluster.extend()
        try:
            return sources, await self._cluster.call(request, leader, _VERSION_MAX)
        except CommandError as error:
            return sources, error

    async def _round(self) -> AsyncIterator[Chosen]:
        """The batches of the responses that have come."""
        if not self._fetches:
            await asyncio.sleep(_PAUSE_S)
            return
        finished, _ = await asyncio.wait(self._fetches, return_when=asyncio.FIRST_COMPLETED)
        for task in finished:
            leader = self._fetches.pop(task)
            sources, response = task.result()
            if isinstance(response, CommandError):
                await self._failed(sources, response)
                continue
            portions = self._taken(sources, response)
            if self._pause_s and sum(len(each.records) for each in portions) < _MUCH_BYTES:
                self._next_s[leader] = asyncio.get_running_loop().time() + self._pause_s
            self._fetch(leader, [each.partition for each in sources if each.partition not in self._unplaced])
            await asyncio.sleep(0)  # the next request goes out before this response is decoded
            for portion in portions:
                for chosen in _chosen(portion):
                    yield chosen
            if self._unplaced and not portions:
                await asyncio.sleep(_PAUSE_S)

    async def _failed(self, sources: list[_Source], error: CommandError) -> None:
        self._unplaced.update(each.partition for each in sources)
        self._delayed(error)
        await asyncio.sleep(_PAUSE_S)

    def _delayed(self, error: CommandError) -> None:
        """Remember since when nothing could be read. Raises the error when that is too long."""
        now_s = asyncio.get_running_loop().time()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        if now_s - self._failing_since_s > self._timeout_s:
            raise error

    def _taken(self, sources: list[_Source], response: Any) -> list[_Portion]:
        """What a response has of each partition; their offsets move on, so that the next request can go out."""
        check(response.error_code, "Fetch")
        parts = {(topic.topic, each.partition_index): each for topic in response.responses for each in topic.partitions}
        nothing = not response.throttle_time_ms and not any(each.records for each in parts.values())
        portions = []
        for source in sources:
            part = parts.get(source.partition)
            if part is None:
                self._unplaced.add(source.partition)
            elif part.error_code:
                self._refused(source, part.error_code)
            else:
                self._failing_since_s = None
                if part.records:
                    portions.append(self._portion(source, part))
                elif nothing:
                    self._nothing_left(source, part)
        return portions

    def _portion(self, source: _Source, part: Any) -> _Portion:
        records = memoryview(part.records)
        try:
            batches = list(iter_headers(records, allow_partial=True))
        except CorruptBatch as error:
            raise CommandError(f"{source.name}: after offset {source.offset}: {error}") from None
        aborted = None
        if self._committed:
            aborted = [(each.producer_id, each.first_offset) for each in part.aborted_transactions or ()]
        portion = _Portion(source, source.offset, records, batches, aborted)
        if batches:
            source.offset = max(source.offset, batches[-1][1].next_offset)
            source.empty = 0
        return portion

    def _refused(self, source: _Source, code: int) -> None:
        self._unplaced.add(source.partition)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and not self._strict:
            self._out_of_range.add(source.partition)
            return
        try:
            check(code, source.name)
        except CommandError as error:
            if code not in _MOVED:
                raise
            self._delayed(error)

    def _nothing_left(self, source: _Source, part: Any) -> None:
        """Count responses without records before the end: compaction may have removed the last ones."""
        stable = part.last_stable_offset if self._committed else part.high_watermark
        if source.end is not None and stable >= source.end:
            source.empty += 1
            if source.empty >= _EMPTY_MAX:
                source.offset = source.end

    async def _move_into_range(self) -> None:
        """Go on at the first offset where records have been removed meanwhile (retention, DeleteRecords)."""
        earliest = await list_offsets(self._cluster, dict.fromkeys(self._out_of_range, EARLIEST))
        for partition, found in earliest.items():
            source = self._sources[partition]
            if source.offset >= found.offset:
                raise CommandError(f"{source.name}: offset {source.offset} is beyond the end of the partition")
            source.offset = found.offset
        self._out_of_range.clear()


def _chosen(portion: _Portion) -> Iterator[Chosen]:
    """The batches of a portion. `CommandError` for one that is damaged."""
    source = portion.source
    waiting = sorted(portion.aborted or (), key=lambda transaction: transaction[1], reverse=True)
    aborting: set[int] = set()
    for position, header in portion.batches:
        batch = portion.records[position : position + header.size]
        data: Buffer | None = None
        try:
            if not crc_is_valid(batch, 0, header):
                raise CorruptBatch("its CRC is wrong")
            while waiting and waiting[-1][1] <= header.last_offset:
                aborting.add(waiting.pop()[0])
            if header.is_control:
                if _is_abort(batch):
                    aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                data = batch
        except CorruptBatch as error:
            raise damaged(source.name, header, error) from None
        yield Chosen(source.partition, data, header, portion.first, source.end)


def _decoded(chosen: Chosen, decode: Decode) -> Columns:
    """The records of a batch. `CommandError` if it is damaged."""
    (topic, partition), data, header, first, end = chosen
    if data is None:
        return Columns(topic, partition, (), (), (), (), {}, header.next_offset)
    try:
        return decode(topic, partition, data, header).between(first, end)
    except CorruptBatch as error:
        raise damaged(f"{topic}-{partition}", header, error) from None


def damaged(partition: str, header: BatchHeader, error: CorruptBatch) -> CommandError:
    """The error for a batch of a partition."""
    return CommandError(f"{partition}: the batch at offset {header.base_offset}: {error}")


def _is_abort(batch: Buffer) -> bool:
    """Whether a control batch ends a transaction by aborting it."""
    return any(parse_control_key(each).type == ABORT for each in iter_records(batch, max_bytes=_CONTROL_BYTES_MAX))
