"""Reading a `.log` file batch by batch, in bounded chunks: for look-ups, recovery and truncation.

Fetches do not scan: they send file ranges. Damage raises `CorruptLog` with the position.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kwire.base.doors import Files
from kwire.codec.errors import CodecError
from kwire.codec.records.header import HEADER_SIZE, BatchHeader, crc_is_valid, parse_header

_LOCATION = Struct(">qiibIhi")  # a batch's header up to its last offset delta
_LOCATION_SIZE = _LOCATION.size
_LOOKUP_CHUNK = 4096
_SCAN_CHUNK = 1 << 20
_LEAST_CHUNK = 4096  # any header fits


class CorruptLog(Exception):
    """The bytes at ``position`` of a segment are not a complete, valid batch."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(f"{path} at position {position}: {why}")
        self.position = position


class BatchPosition(NamedTuple):
    """Where a batch lies in its file, and which offsets it spans."""

    position: int
    size: int
    base_offset: int
    last_offset: int


class ScannedBatch(NamedTuple):
    """One batch found by `scan`. Its bytes are valid until the next batch is requested."""

    position: int
    header: BatchHeader
    data: memoryview


def find_batch(files: Files, fd: int, path: str, offset: int, position: int, end: int) -> BatchPosition | None:
    """The first batch from ``position`` on whose last offset is at or beyond ``offset``; None if there is none before
    ``end``. Reads headers only."""
    pread = files.pread
    unpack = _LOCATION.unpack_from
    while position < end:
        chunk = pread(fd, min(_LOOKUP_CHUNK, end - position), position)
        at, limit = 0, len(chunk) - _LOCATION_SIZE
        while at <= limit:
            base, length, _epoch, magic, _crc, _attributes, delta = unpack(chunk, at)
            if magic != 2 or length < HEADER_SIZE - 12 or delta < 0:
                raise CorruptLog(path, position + at, f"magic {magic}, length {length}, last offset delta {delta}")
            if base + delta >= offset:
                return BatchPosition(position + at, length + 12, base, base + delta)
            at += length + 12
        if at == 0:
            raise CorruptLog(path, position, "the file ends inside a batch header")
        position += at
    return None


def scan(
    files: Files,
    fd: int,
    path: str,
    position: int,
    end: int,
    *,
    check_crc: bool,
    max_batch: int | None = None,
    chunk_bytes: int = _SCAN_CHUNK,
) -> Iterator[ScannedBatch]:
    """Every batch between two positions, with its bytes.

    CorruptLog at the first batch that is incomplete, malformed or (with ``check_crc``) does not match its checksum. One
    chunk (of a MiB), or one batch if that is larger, is in memory at a time; ``max_batch`` limits the latter in bytes.
    """
    chunk_bytes = max(chunk_bytes, _LEAST_CHUNK)
    while position < end:
        chunk = memoryview(files.pread(fd, min(chunk_bytes, end - position), position))
        at = 0
        while at < len(chunk):
            header = _header_at(path, chunk, at, position, end, max_batch)
            if header is None:
                break  # the chunk ends inside the header
            if at + header.size > len(chunk):
                if at > 0:
                    break  # read on from here
                chunk = memoryview(_read_fully(files, fd, path, position, header.size))
            if check_crc and not crc_is_valid(chunk, at, header):
                raise CorruptLog(path, position + at, "the checksum does not match")
            yield ScannedBatch(position + at, header, chunk[at : at + header.size])
            at += header.size
        position += at


def _header_at(
    path: str, chunk: memoryview, at: int, position: int, end: int, max_batch: int | None
) -> BatchHeader | None:
    if len(chunk) - at < HEADER_SIZE:
        if at > 0 and end - (position + at) >= HEADER_SIZE:
            return None
        raise CorruptLog(path, position + at, "the file ends inside a batch header")
    try:
        header = parse_header(chunk, at)
    except CodecError as error:
        raise CorruptLog(path, position + at, str(error)) from error
    if header.last_offset_delta < 0 or position + at + header.size > end:
        raise CorruptLog(path, position + at, f"a batch of {header.size} bytes does not end inside the file")
    if max_batch is not None and header.size > max_batch:
        raise CorruptLog(path, position + at, f"a batch of {header.size} bytes is too large")
    return header


def _read_fully(files: Files, fd: int, path: str, position: int, size: int) -> bytes:
    data = files.pread(fd, size, position)
    if len(data) == size:
        return data
    parts = [data]
    have = len(data)
    while have < size:
        more = files.pread(fd, size - have, position + have)
        if not more:
            raise CorruptLog(path, position, f"the file ends inside a batch of {size} bytes")
        parts.append(more)
        have += len(more)
    return b"".join(parts)
