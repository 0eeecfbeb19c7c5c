"""Reading past damage in a `.log` file: where the next valid batch begins, and which ranges are damaged.

The length of a damaged batch may be wrong, so the next batch is searched for by what a batch must have: its magic,
plausible offsets and a matching checksum. What happens with damage is decided elsewhere: `recovery` truncates or
quarantines it, `verification.verifier` keeps it from being served.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from kwire.base.doors import Files
from kwire.base.futures import at_once
from kwire.codec.errors import CodecError
from kwire.codec.records.header import HEADER_SIZE, crc_is_valid, parse_header
from kwire.log.segment.batch_scan import CorruptLog, ScannedBatch, scan

_MAGIC = b"\x02"
_MAGIC_AT = 16
_SEARCH_CHUNK = 1 << 20


class Damage(NamedTuple):
    """The bytes from ``position`` to ``end`` of a segment, which are not valid batches."""

    position: int
    end: int
    why: str


_LOOK_AHEAD = 1 << 16
"""How many bytes after the first candidate are searched for a better one."""


def next_batch(files: Files, fd: int, position: int, end: int, lowest: int, limit: int) -> int | None:
    """The position of the next valid batch at or after a position, with offsets from ``lowest`` to below ``limit``;
    None if there is none before ``end``. OSError.

    A disk block written to the wrong place contains valid batches, too: of candidates near each other, the one with the
    lowest offset is taken.
    """
    return at_once(next_batch_steps(files, fd, position, end, lowest, limit))


Search = Generator[None, None, int | None]
"""A search that yields after every chunk of the file, so that the event loop is not blocked."""


def next_batch_steps(files: Files, fd: int, position: int, end: int, lowest: int, limit: int) -> Search:
    """`next_batch`, yielding after every MiB."""
    best = yield from _search(files, fd, position, end, lowest, limit)
    at = best
    while best is not None and at is not None:
        base_offset = int.from_bytes(files.pread(fd, 8, best), "big")
        at = yield from _search(files, fd, at + 1, min(end, best + _LOOK_AHEAD), lowest, base_offset)
        best = best if at is None else at
    return best


def _search(files: Files, fd: int, position: int, end: int, lowest: int, limit: int) -> Search:
    while position + HEADER_SIZE <= end:
        chunk = files.pread(fd, min(_SEARCH_CHUNK, end - position), position)
        at = chunk.find(_MAGIC, _MAGIC_AT)
        while at >= 0:
            start = at - _MAGIC_AT
            if start + HEADER_SIZE > len(chunk):
                break
            if _is_batch(files, fd, chunk, start, position, end, lowest, limit):
                return position + start
            at = chunk.find(_MAGIC, at + 1)
        if position + len(chunk) >= end or len(chunk) <= HEADER_SIZE:
            return None
        position += len(chunk) - HEADER_SIZE
        yield
    return None


def _is_batch(files: Files, fd: int, chunk: bytes, at: int, position: int, end: int, lowest: int, limit: int) -> bool:
    base_offset = int.from_bytes(chunk[at : at + 8], "big", signed=True)
    if not lowest <= base_offset < limit:
        return False
    try:
        header = parse_header(chunk, at)
    except CodecError:
        return False
    if header.last_offset_delta < 0 or header.next_offset > limit or position + at + header.size > end:
        return False
    data = chunk[at : at + header.size]
    if len(data) < header.size:
        data = files.pread(fd, header.size, position + at)
    return len(data) == header.size and crc_is_valid(data, 0, header)


def scan_with_damage(
    files: Files,
    fd: int,
    path: str,
    end: int,
    base_offset: int,
    limit: int,
    epoch_of: Callable[[int], int],
    *,
    dense: bool = False,
) -> Iterator[ScannedBatch | Damage | None]:
    """Every batch of a segment up to position ``end``, or the damage in its place; None now and then during a search
    for the end of damage. OSError.

    The checksum does not cover base offset and leader epoch. So offsets must rise, stay below ``limit`` and fit those
    of the next batch, and a leader epoch other than ``epoch_of`` the offset is damage, too. In a log without gaps
    (``dense``) the first batch after damage must be followed by the next offset. A batch's bytes are valid until the
    next one is requested.
    """
    anchored = True
    position, expected = 0, base_offset
    held: ScannedBatch | None = None
    while position < end:
        try:
            for batch in scan(files, fd, path, position, end, check_crc=True):
                header = batch.header
                if held is not None:
                    joins = anchored or not dense or held.header.next_offset == header.base_offset
                    anchored = True
                    # The next batch's offset is wrong if it is below the expected one, or within a batch that has it.
                    in_place = held.header.base_offset == expected and dense
                    upto = limit if header.base_offset < expected or in_place else header.base_offset
                    if joins and _fits(held, upto, epoch_of):
                        expected = held.header.next_offset
                        yield held
                    else:
                        yield _misplaced(held)
                    held = None
                if header.base_offset < expected or header.next_offset > limit:
                    raise CorruptLog(path, batch.position, f"offset {header.base_offset} instead of {expected}")
                held = batch._replace(data=memoryview(bytes(batch.data)))
                position = batch.position + header.size
        except CorruptLog as error:
            if held is not None:
                expected = held.header.next_offset
                yield held if _fits(held, limit, epoch_of) else _misplaced(held)
                held = None
            following = yield from next_batch_steps(files, fd, error.position + 1, end, expected, limit)
            position = end if following is None else following
            anchored = False
            yield Damage(error.position, position, str(error))
    if held is not None:
        joins = anchored or not dense or held.header.next_offset == limit
        yield held if joins and _fits(held, limit, epoch_of) else _misplaced(held)


def _fits(batch: ScannedBatch, following: int, epoch_of: Callable[[int], int]) -> bool:
    header = batch.header
    known = epoch_of(header.last_offset)  # -1 before the first known epoch
    return header.next_offset <= following and (known < 0 or header.partition_leader_epoch == known)


def _misplaced(batch: ScannedBatch) -> Damage:
    header = batch.header
    why = f"offset {header.base_offset} or leader epoch {header.partition_leader_epoch} is wrong"
    return Damage(batch.position, batch.position + header.size, why)
