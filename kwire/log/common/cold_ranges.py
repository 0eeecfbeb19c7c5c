"""File ranges that are no longer in the page cache: detected without waiting, read by a thread.

`sendfile` of such a range would block the event loop, and with it all clients, until the disk has delivered it. Where
the system has no `RWF_NOWAIT` (only Linux has), every range counts as cached.
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
    """Whether the range can be sent without reading the disk. Only its first and last byte are checked: a sequentially
    read file enters and leaves the cache sequentially."""
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
    """Read the range into the page cache, on a thread. OSError; sending the range then fails as well."""
    end = position + size
    while position < end:
        found = len(files.pread(fd, min(_PIECE, end - position), position))
        if not found:
            return
        position += found
