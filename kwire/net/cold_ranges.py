"""Ranges of files that have left the system's file cache: noticed without waiting, read in by a thread.

`sendfile` of such a range would hold up the event loop, and with it everybody, until the disk has answered. Where the
system cannot tell (`RWF_NOWAIT` is Linux's), every range counts as cached.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kwire.base.doors import Files
    from kwire.base.file_range import FileRange

_PIECE: Final = 1 << 20
_CANNOT_TELL: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
_probe = [bytearray(1)]


def is_cached(files: Files, part: FileRange) -> bool:
    """Whether the range can be sent without the disk, judged by its ends: what is read one after the other comes and
    goes one after the other."""
    flag = files.RWF_NOWAIT
    if not flag:
        return True
    try:
        files.preadv(part.fd, _probe, part.position, flag)
        files.preadv(part.fd, _probe, part.position + part.size - 1, flag)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _CANNOT_TELL:
            raise
    return True


def read_in(files: Files, fd: int, position: int, size: int) -> None:
    """Bring the range into the cache; on a thread. A disk that fails is told by whoever sends the range. OSError."""
    end = position + size
    while position < end:
        found = len(files.pread(fd, min(_PIECE, end - position), position))
        if not found:
            return
        position += found
