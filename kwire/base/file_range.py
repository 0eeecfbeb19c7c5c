"""A range of an open file that is to be sent as it is: how a fetched batch travels from the log to the socket."""

from __future__ import annotations

from typing import Protocol


class FileOwner(Protocol):
    """Keeps a descriptor open for as long as somebody may still send from it."""

    def retain(self) -> None: ...
    def release(self) -> None: ...


class FileRange:
    """``size`` bytes of the file behind descriptor ``fd``, from ``position``.

    Making one counts as a use of its owner; whoever sends it calls `release` exactly once, when the bytes are gone or
    when they never will be (closed connection, failed request). Releasing twice is harmless.
    """

    __slots__ = ("_owner", "fd", "position", "size")

    def __init__(self, fd: int, position: int, size: int, owner: FileOwner) -> None:
        owner.retain()
        self.fd = fd
        self.position = position
        self.size = size
        self._owner: FileOwner | None = owner

    def release(self) -> None:
        """The file may be closed as far as this range is concerned."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.release()

    def __repr__(self) -> str:
        return f"FileRange(fd={self.fd}, position={self.position}, size={self.size})"
