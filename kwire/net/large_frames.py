"""Large frames are received into their final buffers, without a copy, and those buffers are reused.

A frame of which much is missing gets a buffer of its own, and pieces of `RECEIVE_BYTES` are received into it directly.
The buffer is at most `GROWTH` times as large as what has been received, whatever size the frame announces, so a client
cannot make the broker allocate memory without sending data.

What lives elsewhere: small frames, and everything about order (`connection`).
"""

from __future__ import annotations

from typing import Final

from kwire.base.buffers import Buffer, buffer_of, enlarged, has_views
from kwire.net.settings import RECEIVE_BYTES

LARGE_BYTES: Final = 64 * 1024
"""A frame is received in place once this much of it has been received and this much is missing."""

GROWTH: Final = 16
"""How many times the received bytes a buffer may have room for."""

SPARE_BUFFERS: Final = 2
SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
"""The largest buffer that is kept for later frames: an idle broker should hold little memory."""


class SpareBuffers:
    """Buffers of earlier frames, for later ones."""

    __slots__ = ("_spare",)

    def __init__(self) -> None:
        self._spare: list[bytearray] = []

    def take(self, need: int, have: int) -> Buffer:
        """A buffer for a frame of ``need`` bytes of which ``have`` are received; it may be smaller or larger."""
        for at, buffer in enumerate(self._spare):
            if len(buffer) >= need:
                return self._spare.pop(at)
        size = min(need, have * GROWTH)
        return bytearray(size) if need <= SPARE_BYTES_MAX else buffer_of(size)

    def give_back(self, buffer: Buffer) -> None:
        """Keep a buffer, unless a view of it exists or enough are kept."""
        if len(self._spare) >= SPARE_BUFFERS or len(buffer) > SPARE_BYTES_MAX or not isinstance(buffer, bytearray):
            return
        if not has_views(buffer):
            self._spare.append(buffer)


class LargeFrame:
    """A frame that is being received, with its size field: ``have`` of ``need`` bytes."""

    __slots__ = ("_spare", "buffer", "have", "need")

    def __init__(self, spare: SpareBuffers, begun: bytearray, need: int) -> None:
        self._spare = spare
        self.have = len(begun)
        self.need = need
        self.buffer = spare.take(need, self.have)
        self.buffer[: self.have] = begun

    def room(self) -> memoryview:
        """Room for the next piece, not beyond the end of the frame."""
        if self.have == len(self.buffer):
            self.buffer = enlarged(self.buffer, min(self.need, self.have * GROWTH))
        return memoryview(self.buffer)[self.have : min(self.have + RECEIVE_BYTES, self.need)]

    def whole(self) -> memoryview:
        """The complete frame."""
        return memoryview(self.buffer)[: self.need]

    def done(self) -> None:
        """The frame has been handled: its buffer may be reused."""
        self._spare.give_back(self.buffer)
