"""Large frames are received where they stay: no copy from a receive buffer, and no memory fresh from the system.

A frame of which much is missing gets a buffer of its own; pieces of `RECEIVE_BYTES` are received into it directly. What
has been announced is believed only as far as `TRUST` times what has come of it, so a peer cannot make the broker spend
memory by words alone. Buffers whose frames are done with are used again.

What lives elsewhere: small frames, and everything about order (`connection`).
"""

from __future__ import annotations

from typing import Final

from kwire.net.settings import RECEIVE_BYTES

LARGE_BYTES: Final = 64 * 1024
"""A frame of which so much has come and so much is missing is received in place."""

TRUST: Final = 16
"""How many times what has come of a frame is laid out for it."""

SPARE_BUFFERS: Final = 2
SPARE_BYTES_MAX: Final = 2 * 1024 * 1024
"""What is kept for the next frames: more would be memory that an idle broker holds on to."""


class SpareBuffers:
    """Buffers of earlier frames, for the next ones."""

    __slots__ = ("_spare",)

    def __init__(self) -> None:
        self._spare: list[bytearray] = []

    def take(self, need: int, have: int) -> bytearray:
        """A buffer for a frame of ``need`` bytes of which ``have`` are there; perhaps smaller, perhaps larger."""
        for at, buffer in enumerate(self._spare):
            if len(buffer) >= need:
                return self._spare.pop(at)
        return bytearray(min(need, have * TRUST))

    def give_back(self, buffer: bytearray) -> None:
        """Keep a buffer, unless somebody still looks into it or there are enough."""
        if len(self._spare) >= SPARE_BUFFERS or len(buffer) > SPARE_BYTES_MAX:
            return
        try:  # a buffer that is looked into refuses to change its size
            buffer.append(0)
            buffer.pop()
        except BufferError:
            return
        self._spare.append(buffer)


class LargeFrame:
    """One frame on its way in, with its size field: ``have`` of ``need`` bytes."""

    __slots__ = ("_spare", "buffer", "have", "need")

    def __init__(self, spare: SpareBuffers, begun: bytearray, need: int) -> None:
        self._spare = spare
        self.have = len(begun)
        self.need = need
        self.buffer = spare.take(need, self.have)
        self.buffer[: self.have] = begun

    def room(self) -> memoryview:
        """Where the next piece is received; never beyond the end of the frame."""
        if self.have == len(self.buffer):
            larger = self._spare.take(self.need, self.have)
            larger[: self.have] = self.buffer
            self.buffer = larger
        return memoryview(self.buffer)[self.have : min(self.have + RECEIVE_BYTES, self.need)]

    def whole(self) -> memoryview:
        """The frame, all of it there."""
        return memoryview(self.buffer)[: self.need]

    def done(self) -> None:
        """The frame is no longer needed by whoever received it."""
        self._spare.give_back(self.buffer)
