"""A range of an open file that is sent as it is: the form of fetched batches between the log and the socket."""

from __future__ import annotations

from typing import Protocol


class FileOwner(Protocol):
    """Keeps a descriptor open while a range of its file may still be sent."""

    def retain(self) -> None:
        """Count one more use."""

    def release(self) -> None:
        """Count one use less; the last one may close the descriptor."""


class FileRange:
    """``size`` bytes of the file behind descriptor ``fd``, from ``position``.

    Creating a range counts as a use of its owner. Its sender calls `release` when the bytes are sent, or when they will
    not be (closed connection, failed request). Releasing twice is harmless.
    """

    __slots__ = ("_owner", "fd", "position", "size")

    def __init__(self, fd: int, position: int, size: int, owner: FileOwner) -> None:
        owner.retain()
        self.fd = fd
        self.position = position
        self.size = size
        self._owner: FileOwner | None = owner

    def narrow(self, start: int, size: int) -> None:
        """Keep ``size`` bytes from ``start`` on, counted from the beginning of this range."""
        self.position += start
        self.size = size

    def release(self) -> None:
        """This range no longer needs the file to be open."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.release()

    def __repr__(self) -> str:
        return f"FileRange(fd={self.fd}, position={self.position}, size={self.size})"
