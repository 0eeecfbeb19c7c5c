"""Where ``kwire produce`` reads: files, in pieces that end with a record.

A pipe or terminal is waited for, so that what somebody types is sent at once; a regular file is read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from io import UnsupportedOperation
from typing import IO, Final

_READ_BYTES: Final = 256 * 1024
RECORD_BYTES_MAX: Final = 128 * 1024 * 1024
"""A longer record is not read: brokers take no such request."""


async def pieces(file: IO[bytes], delimiter: bytes, linger_s: float) -> AsyncGenerator[list[bytes]]:
    """The records between delimiters, as many as a read gives; an empty list if none comes for a while. What follows
    the last delimiter is a record, if it is not empty. Without a delimiter all of it is a record. ValueError for one
    that is too long, OSError."""
    rest = [b""]
    size = 0
    source = _Source(file)
    while (content := await source.read(linger_s)) != b"":
        if content is None:
            yield []
            continue
        rest.append(content)
        if not delimiter or (delimiter not in content and (len(delimiter) == 1 or size == 0)):
            size += len(content)
        else:
            records = _split(rest, delimiter)
            rest = [records.pop()]
            size = len(rest[0])
            yield records
        if size > RECORD_BYTES_MAX:
            raise ValueError(f"a record of more than {RECORD_BYTES_MAX} bytes")
    if last := b"".join(rest):
        yield [last]


def _split(parts: list[bytes], delimiter: bytes) -> list[bytes]:
    """The records between delimiters, and what follows the last one."""
    if len(delimiter) > 1:  # one may lie across two parts
        return b"".join(parts).split(delimiter)
    records = parts.pop().split(delimiter)
    records[0] = b"".join((*parts, records[0]))
    return records


class _Source:
    """A file to read from, past its buffer."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        try:
            self._descriptor = file.fileno()
            self._is_ready = False
        except UnsupportedOperation:  # in memory
            self._descriptor = -1
            self._is_ready = True
        self._idle = False

    async def read(self, linger_s: float) -> bytes | None:
        """The next bytes, none at the end; None once if nothing comes for a while."""
        if self._is_ready:
            await asyncio.sleep(0)
        else:
            try:
                async with asyncio.timeout(None if self._idle else linger_s):
                    await self._readable()
            except TimeoutError:
                self._idle = True
                return None
            self._idle = False
        return self._file.read(_READ_BYTES) if self._descriptor < 0 else os.read(self._descriptor, _READ_BYTES)

    async def _readable(self) -> None:
        """Wait until a read does not block."""
        ready = asyncio.Event()
        try:
            self._loop.add_reader(self._descriptor, ready.set)
        except PermissionError:  # a regular file, which is always readable
            self._is_ready = True
            return
        try:
            await ready.wait()
        finally:
            self._loop.remove_reader(self._descriptor)
