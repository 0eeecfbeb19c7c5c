"""Large buffers: what they hold, how they grow, and what they cost before they are filled."""

from __future__ import annotations

import mmap
import os

import pytest

from harness.inspection.process_usage import own_mb
from kwire.base.buffers import MAPPED_BYTES, buffer_of, enlarged, has_views

MB = 1 << 20


@pytest.mark.parametrize("size", [1, MAPPED_BYTES - 1, MAPPED_BYTES, 3 * MB + 1])
def test_a_buffer_has_room_and_is_empty(size: int) -> None:
    buffer = buffer_of(size)
    assert size <= len(buffer) <= size + 2 * MB
    assert bytes(buffer[:size]) == bytes(size)
    buffer[size - 1] = 7
    assert memoryview(buffer)[size - 1] == 7


@pytest.mark.parametrize("sizes", [(10, 20), (10, 3 * MB), (MB, 5 * MB), (3 * MB, 64 * MB)])
def test_a_larger_one_begins_like_the_smaller(sizes: tuple[int, int]) -> None:
    small, large = sizes
    buffer = buffer_of(small)
    buffer[:3], buffer[small - 1] = b"abc", 7
    larger = enlarged(buffer, large)
    assert len(larger) >= large
    assert (bytes(larger[:3]), larger[small - 1], larger[large - 1]) == (b"abc", 7, 0)


def test_memory_is_used_when_it_is_filled() -> None:
    before = own_mb(os.getpid())
    buffer = buffer_of(256 * MB)
    assert own_mb(os.getpid()) - before < 8
    buffer[: 16 * MB] = bytes(16 * MB)
    assert 12 < own_mb(os.getpid()) - before < 40


def test_a_size_that_cannot_be_had_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        buffer_of(1 << 62)
    with pytest.raises(MemoryError):
        enlarged(buffer_of(MAPPED_BYTES), 1 << 62)


def test_a_system_that_cannot_move_pages_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed(mmap.mmap):
        def resize(self, newsize: int) -> None:
            raise SystemError("mmap: resizing not available--no mremap()")

    monkeypatch.setattr(mmap, "mmap", Fixed)
    buffer = buffer_of(MAPPED_BYTES)
    buffer[:3] = b"abc"
    assert bytes(enlarged(buffer, 3 * MB)[:4]) == b"abc\0"


def test_views_are_noticed() -> None:
    buffer = bytearray(100)
    view = memoryview(buffer)[3:]
    assert has_views(buffer)
    view.release()
    assert not has_views(buffer)
    assert buffer == bytes(100)
