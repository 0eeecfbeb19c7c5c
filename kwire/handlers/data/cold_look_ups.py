"""Look-ups by time in data that is no longer in the page cache: a thread reads it first.

Otherwise the event loop, and with it all clients, would wait for the disk. What lives elsewhere: the look-up itself
(`kwire.log.partition.timestamps`), and cold data that is fetched (`kwire.net.outgoing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kwire.base.file_range import FileRange
from kwire.log.common.cold_ranges import is_cached, read_in

if TYPE_CHECKING:
    from kwire.base.doors import Doors, Files
    from kwire.log.partition.partition_log import PartitionLog


class ColdLookUp:
    """A look-up whose data has to be read first."""

    def __init__(self, pieces: Iterator[str | FileRange], first: str | FileRange) -> None:
        self._pieces = pieces
        self._next: str | FileRange | None = first

    @classmethod
    def of(cls, log: PartitionLog, timestamp_ms: int | None, files: Files) -> ColdLookUp | None:
        """The look-up of a timestamp, None for the highest; None if all that it reads is in the page cache."""
        pieces = log.look_up_pieces(timestamp_ms)
        first = _next_cold(pieces, files)
        return None if first is None else cls(pieces, first)

    async def read(self, doors: Doors) -> None:
        """Have a thread read what the look-up will read. What cannot be read is left to the look-up, which fails."""
        try:
            while (piece := self._next) is not None:
                try:
                    if isinstance(piece, str):
                        await doors.executor.run(_read_file, doors.files, piece)
                    else:
                        await doors.executor.run(read_in, doors.files, piece.fd, piece.position, piece.size)
                finally:
                    _release(piece)
                self._next = _next_cold(self._pieces, doors.files)
        except OSError:
            pass


def _next_cold(pieces: Iterator[str | FileRange], files: Files) -> str | FileRange | None:
    """The next piece that is not in the page cache. Of index files this is not known."""
    try:
        for piece in pieces:
            if isinstance(piece, str) or not is_cached(files, piece):
                return piece
            _release(piece)
    except OSError:
        pass  # the look-up fails with the same error
    return None


def _release(piece: str | FileRange) -> None:
    if isinstance(piece, FileRange):
        piece.release()


def _read_file(files: Files, path: str) -> None:
    if files.exists(path):
        files.read(path)
