"""Buffers of many megabytes, which cost nothing until they are filled.

A `bytearray` of 10 MB is zeroed when it is made: that takes 1 to 9 ms, in which no other thread of Python runs. Memory
from the system is zeroed page by page as it is filled, and in huge pages (Linux) a third of the time is enough.
"""

from __future__ import annotations

import mmap
from typing import Final, TypeAlias

Buffer: TypeAlias = bytearray | mmap.mmap

MAPPED_BYTES: Final = 1 << 20
"""Buffers of this size or more come from the system."""

_HUGE_PAGE: Final = 2 << 20


def buffer_of(size: int) -> Buffer:
    """A buffer of at least this size, all zeros. MemoryError."""
    if size < MAPPED_BYTES:
        return bytearray(size)
    try:
        buffer = mmap.mmap(-1, _rounded(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size} bytes: {error.strerror}") from None
    _use_huge_pages(buffer)
    return buffer


def enlarged(buffer: Buffer, size: int) -> Buffer:
    """A buffer of at least this size, of the same kind and with the same beginning; there is no view of the old one,
    which is not used any more. MemoryError."""
    if isinstance(buffer, bytearray):
        buffer += bytes(size - len(buffer))
        return buffer
    try:
        buffer.resize(_rounded(size))  # moves pages, not bytes
    except OSError as error:
        raise MemoryError(f"{size} bytes: {error.strerror}") from None
    except SystemError:  # where there is no mremap
        larger = buffer_of(size)
        larger[: len(buffer)] = buffer[:]
        return larger
    _use_huge_pages(buffer)
    return buffer


def has_views(buffer: bytearray) -> bool:
    """Whether something still has a view of the buffer, which must not be written to then."""
    try:  # such a buffer cannot change its size
        buffer.append(0)
        buffer.pop()
    except BufferError:
        return True
    return False


def _rounded(size: int) -> int:
    """Whole huge pages, which need that, if there is at least one."""
    return size if size < _HUGE_PAGE else -(-size // _HUGE_PAGE) * _HUGE_PAGE


def _use_huge_pages(buffer: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_HUGEPAGE") and len(buffer) >= _HUGE_PAGE:
        try:
            buffer.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            return  # a kernel without them
