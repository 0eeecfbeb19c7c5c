"""`LeanDisk`: a simulated disk for very many files. It keeps nothing that only a power loss needs."""

from __future__ import annotations

import os
from typing import Any

from harness.simulation.disk import DISK_BYTES, Disk, Inode, missing


class LeanInode(Inode):
    """A file whose changes cannot be undone."""

    __slots__ = ()

    def write(self, data: bytes, position: int, now_ms: int) -> None:
        """See `Inode.write`."""
        length = len(self.data)
        if position > length:
            self.data += bytes(position - length)
        self.data[position : position + len(data)] = data
        self.modified_ms = now_ms

    def truncate(self, length: int, now_ms: int) -> None:
        """See `Inode.truncate`."""
        before = len(self.data)
        if length < before:
            del self.data[length:]
        else:
            self.data += bytes(length - before)
        self.modified_ms = now_ms


class LeanDisk(Disk):
    """The files of one machine. Listing a directory costs what is in it, not what is on the disk. Paths are absolute
    and normal, as those of a broker are."""

    INODE = LeanInode

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._children: dict[str, dict[str, None]] = {"/": {}}

    @property
    def files(self) -> int:
        """How many files there are."""
        return len(self._files)

    def _record(self, kind: str, *facts: object, data: Any = None) -> None:
        """Record nothing."""

    @staticmethod
    def _path(path: str) -> str:
        return path

    def _set_name(self, path: str, inode: Inode | None) -> None:
        directory, _, name = path.rpartition("/")
        children = self._children.get(directory or "/")
        if children is None:
            raise missing(path)
        if inode is None:
            del self._files[path], children[name]
        else:
            self._files[path] = inode
            children[name] = None

    def makedirs(self, path: str) -> None:
        """See `kwire.base.doors.Files`."""
        while path not in self._directories:
            self._directories[path] = None
            self._children.setdefault(path, {})
            parent, _, name = path.rpartition("/")
            path = parent or "/"
            self._children.setdefault(path, {})[name] = None

    def listdir(self, path: str) -> list[str]:
        """See `kwire.base.doors.Files`."""
        if path not in self._directories:
            raise missing(path)
        return sorted(self._children[path])

    def _replace_directory(self, source: str, target: str) -> None:
        names = list(self._children[source])
        self.makedirs(target)
        for name in names:
            old, new = f"{source}/{name}", f"{target}/{name}"
            if old in self._directories:
                self._replace_directory(old, new)
            else:
                inode = self._files[old]
                self._set_name(new, inode)
                self._set_name(old, None)
        self._forget_directory(source)

    def rmtree(self, path: str) -> None:
        """See `kwire.base.doors.Files`."""
        if path not in self._directories:
            raise missing(path)
        for name in list(self._children[path]):
            below = f"{path}/{name}"
            if below in self._directories:
                self.rmtree(below)
            else:
                self._set_name(below, None)
        self._forget_directory(path)

    def _forget_directory(self, path: str) -> None:
        del self._directories[path], self._children[path]
        self._children[os.path.dirname(path)].pop(os.path.basename(path))

    def disk_usage(self, path: str) -> tuple[int, int]:
        """See `kwire.base.doors.Files`. There is always room."""
        return DISK_BYTES, DISK_BYTES

    def sync_dir(self, path: str) -> None:
        """See `kwire.base.doors.Files`."""
