"""What ``kwire produce`` does: from files, through a parser and the partitioner, to the brokers.

One round of batches, at most one for each partition, is under way while the next one is read and encoded.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, NamedTuple

from kwire.cli import INTERRUPTED, fail
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, UsageError, check
from kwire.cli.output import show_one
from kwire.cli.records.escapes import unescaped
from kwire.cli.records.writing.encoding import Rows
from kwire.cli.records.writing.gathering import Gathering
from kwire.cli.records.writing.parsing import Additions, Batch, Parser, json_parser, text_parser
from kwire.cli.records.writing.partitioner import Partitioner
from kwire.cli.records.writing.sending import Sender, Settings
from kwire.cli.records.writing.sources import pieces

_SLICES_PER_SECOND = 20
"""With a rate, how often records are sent in a second."""


class Written(NamedTuple):
    """What the command has done. ``records``: those that the brokers have acknowledged."""

    topic: str
    records: int


async def produce(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Write what the files have; the exit status. `UsageError`; other failures are one line with what is written."""
    parser, delimiter = _parser(arguments)
    if arguments.repeat > 1 and "-" in _files(arguments) and sys.stdin is not None and not sys.stdin.seekable():
        raise UsageError("--repeat needs files: standard input can be read once")
    gathering = await _gathering(cluster, arguments)
    settings = Settings(arguments.topic, arguments.acks, arguments.compression, arguments.timeout)
    idempotent = arguments.acks == -1 and not arguments.no_idempotence
    flow = _Flow(await Sender.open(cluster, settings, idempotent=idempotent), gathering, arguments.rate)
    try:
        await _run(flow, arguments, parser, delimiter)
    except asyncio.CancelledError:  # Ctrl-C
        await flow.stop()
        fail(f"interrupted; {_count(flow.written)} written to {arguments.topic}")
        return INTERRUPTED
    except (CommandError, ValueError, OSError) as error:
        await flow.stop()
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        return fail(f"{reason}; {_count(flow.written)} written to {arguments.topic}")
    if arguments.output == "table":
        print(f"{_count(flow.written)} written to {arguments.topic}")
    else:
        show_one(Written(arguments.topic, flow.written), arguments.output)
    return 0


async def _run(flow: _Flow, arguments: argparse.Namespace, parser: Parser, delimiter: bytes) -> None:
    """Read and send everything. A failure to send ends that at once, even while nothing comes to be read."""

    async def read() -> None:
        async for records in _records(arguments, delimiter):
            await flow.add(parser(records))
        await flow.end()

    reading = asyncio.create_task(read())
    try:
        await asyncio.wait({reading, flow.failed}, return_when=asyncio.FIRST_COMPLETED)
        await (reading if reading.done() else flow.end())
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


def _count(records: int) -> str:
    return f"{records} record" if records == 1 else f"{records} records"


def _parser(arguments: argparse.Namespace) -> tuple[Parser, bytes]:
    """What makes records of the pieces between delimiters, and the delimiter."""
    try:
        delimiter = unescaped(arguments.delimiter)
        separator = None if arguments.key_separator is None else unescaped(arguments.key_separator)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if separator == b"":
        raise UsageError("-k needs at least one character")
    key = None if arguments.key is None else arguments.key.encode("utf-8", "surrogateescape")
    additions = Additions(key, arguments.header, arguments.tombstone)
    if arguments.input == "text":
        if arguments.keep_partitions:
            raise UsageError("--keep-partitions is for --input jsonl")
        return text_parser(separator, additions), delimiter
    if separator is not None:
        raise UsageError("-k is for text: with --input jsonl each record names its key")
    return json_parser(additions, keep_partitions=arguments.keep_partitions), b"\n"


async def _gathering(cluster: Cluster, arguments: argparse.Namespace) -> Gathering:
    [topic] = (await cluster.metadata([arguments.topic])).topics
    check(topic.error_code, f"topic {arguments.topic}")
    count = len(topic.partitions)
    if arguments.partition is not None and arguments.partition >= count:
        raise CommandError(f"topic {arguments.topic} has no partition {arguments.partition}")
    return Gathering(Partitioner(count), arguments.partition)


def _files(arguments: argparse.Namespace) -> Sequence[str]:
    return arguments.files or ["-"]


async def _records(arguments: argparse.Namespace, delimiter: bytes) -> AsyncGenerator[list[bytes]]:
    """The records of all files, as often as wanted."""
    files = _files(arguments)
    if "-" in files and sys.stdin is None:
        raise ValueError("standard input is closed")
    for _ in range(arguments.repeat):
        for path in files:
            with _opened(path) as file:
                async for records in pieces(file, delimiter, arguments.linger):
                    yield records


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """A file, or standard input; that is at its beginning again afterwards, if it can be. OSError with its name."""
    if path != "-":
        with open(path, "rb", buffering=0) as file:
            yield file
        return
    yield sys.stdin.buffer
    if sys.stdin.seekable():
        sys.stdin.buffer.seek(0)


class _Flow:
    """Records on their way: gathered, and sent in rounds."""

    def __init__(self, sender: Sender, gathering: Gathering, rate: float | None) -> None:
        self._sender = sender
        self._gathering = gathering
        self._rate = rate
        self._round: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        """Done when batches could not be written."""
        self._due_s = self._loop.time()

    @property
    def written(self) -> int:
        """Records that the brokers have acknowledged."""
        return self._sender.written

    async def add(self, batch: Batch) -> None:
        """Take records; none means that no more are coming for now, so that all go out."""
        if not batch.rows.values:
            await self._flush()
        elif self._rate is None:
            self._gathering.add(batch)
            await self._send_full()
        else:
            await self._add_slowly(batch, self._rate)

    async def _add_slowly(self, batch: Batch, rate: float) -> None:
        step = max(int(rate / _SLICES_PER_SECOND), 1)
        for first in range(0, len(batch.rows.values), step):
            part = Batch(
                batch.rows.between(first, first + step), batch.partitions and batch.partitions[first : first + step]
            )
            self._due_s = max(self._due_s, self._loop.time() - 1)  # what was missed is caught up for a second only
            await asyncio.sleep(max(self._due_s - self._loop.time(), 0))
            self._due_s += len(part.rows.values) / rate
            self._gathering.add(part)
            await self._flush()

    async def end(self) -> None:
        """Send everything and wait for the brokers."""
        await self._flush()
        if self._round is not None:
            await asyncio.shield(self._round)

    async def stop(self) -> None:
        """Wait for what is under way, so that `written` is true; nothing more is sent."""
        if self._round is not None:
            await asyncio.gather(self._round, return_exceptions=True)

    async def _flush(self) -> None:
        self._gathering.end()
        await self._send_full()

    async def _send_full(self) -> None:
        """Start rounds for the batches that are ready; wait for those before."""
        full = self._gathering.full
        while full:
            if self._round is not None:
                await asyncio.shield(self._round)
            batches: dict[int, Rows] = {}
            rest = []
            for partition, rows in full:
                if partition in batches:
                    rest.append((partition, rows))
                else:
                    batches[partition] = rows
            full[:] = rest
            self._round = asyncio.create_task(self._sender.send(batches))
            self._round.add_done_callback(self._ended)
            await asyncio.sleep(0)  # the request goes out before more is read

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self.failed.done() and not task.cancelled() and task.exception() is not None:
            self.failed.set_result(None)
