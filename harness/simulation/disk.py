"""A simulated disk: the `Files` door in memory, which keeps apart what has been synced and what has not.

Every change that is not synced yet can be undone: `lose_unsynced` leaves the worst that a power loss can leave.
Content becomes durable by ``fsync`` of the file, names by ``sync_dir`` of their directory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kwire.base.doors import Files

if TYPE_CHECKING:
    from harness.simulation.trace import Trace

DISK_BYTES: Final = 1 << 40
FIRST_FD: Final = 100_000


class Inode:
    """A file's content, and how to undo what was not synced."""

    __slots__ = ("data", "modified_ms", "number", "undo")

    def __init__(self, number: int, now_ms: int) -> None:
        self.number = number
        self.data = bytearray()
        self.undo: list[tuple[int, int, bytes]] = []  # length before, position, bytes overwritten
        self.modified_ms = now_ms

    def write(self, data: bytes, position: int, now_ms: int) -> None:
        """Change some bytes; a gap before them reads as zeros."""
        length = len(self.data)
        self.undo.append((length, position, bytes(self.data[position : position + len(data)])))
        if position > length:
            self.data += bytes(position - length)
        self.data[position : position + len(data)] = data
        self.modified_ms = now_ms

    def truncate(self, length: int, now_ms: int) -> None:
        """Truncate, or fill with zeros."""
        before = len(self.data)
        self.undo.append((before, length, bytes(self.data[length:])))
        if length < before:
            del self.data[length:]
        else:
            self.data += bytes(length - before)
        self.modified_ms = now_ms

    def roll_back(self) -> None:
        """Undo everything since the last sync."""
        for length, position, old in reversed(self.undo):
            self.data[position : position + len(old)] = old
            del self.data[length:]
        self.undo.clear()


def _within(names: dict[str, Any], directory: str) -> list[str]:
    """The directory itself and all names below it."""
    prefix = directory + "/"
    return [name for name in names if name == directory or name.startswith(prefix)]


def missing(path: str) -> FileNotFoundError:
    """The error for a path that does not exist."""
    return FileNotFoundError(errno.ENOENT, "No such file or directory", path)


class Disk(Files):
    """The files of one machine."""

    INODE: type[Inode] = Inode

    def __init__(self, trace: Trace, name: str, time_ms: Callable[[], int]) -> None:
        self._trace = trace
        self._name = name
        self._time_ms = time_ms
        self._files: dict[str, Inode] = {}
        self._directories: dict[str, None] = {"/": None}
        self._undo_names: dict[str, list[tuple[str, Inode | None]]] = {}  # by directory, since its last sync
        self._open: dict[int, Inode] = {}
        self._open_directories: dict[int, str] = {}
        self._locks: dict[int, str] = {}
        self._next_fd = FIRST_FD
        self._next_inode = 0

    def _record(self, kind: str, *facts: object, data: Any = None) -> None:
        self._trace.record(kind, self._name, *facts, data=data)

    # -- names ------------------------------------------------------------------------------------------------------

    @staticmethod
    def _path(path: str) -> str:
        return os.path.normpath("/" + path.lstrip("/"))

    def _set_name(self, path: str, inode: Inode | None) -> None:
        """Bind, rebind or drop a name, so that it can be undone."""
        directory = os.path.dirname(path)
        if directory not in self._directories:
            raise missing(path)
        self._undo_names.setdefault(directory, []).append((os.path.basename(path), self._files.get(path)))
        if inode is None:
            del self._files[path]
        else:
            self._files[path] = inode

    def _inode(self, path: str) -> Inode:
        inode = self._files.get(self._path(path))
        if inode is None:
            raise missing(path)
        return inode

    def set_aside(self, fd: int, position: int, size: int) -> None:
        """See `kwire.base.doors.Files`. This one has no room to set aside."""
        raise OSError(errno.EOPNOTSUPP, "not supported")

    def exists(self, path: str) -> bool:
        """See `kwire.base.doors.Files`."""
        path = self._path(path)
        return path in self._files or path in self._directories

    def is_dir(self, path: str) -> bool:
        """See `kwire.base.doors.Files`."""
        return self._path(path) in self._directories

    def makedirs(self, path: str) -> None:
        """See `kwire.base.doors.Files`."""
        path = self._path(path)
        while path not in self._directories:
            self._directories[path] = None
            path = os.path.dirname(path)

    def listdir(self, path: str) -> list[str]:
        """See `kwire.base.doors.Files`."""
        path = self._path(path)
        if path not in self._directories:
            raise missing(path)
        prefix = path.rstrip("/") + "/"
        below = [name[len(prefix) :] for name in (*self._files, *self._directories) if name.startswith(prefix)]
        return sorted(name for name in below if name and "/" not in name)

    def stat(self, path: str) -> os.stat_result:
        """See `kwire.base.doors.Files`."""
        if self.is_dir(path):
            return os.stat_result((0o40755, 0, 0, 1, 0, 0, 0, 0, 0, 0))
        inode = self._inode(path)
        seconds = inode.modified_ms // 1000
        times = (seconds, seconds, seconds, *(inode.modified_ms / 1000,) * 3, *(inode.modified_ms * 1_000_000,) * 3)
        return os.stat_result((0o100644, inode.number, 0, 1, 0, 0, len(inode.data), *times))

    def replace(self, source: str, target: str) -> None:
        """See `kwire.base.doors.Files`."""
        source, target = self._path(source), self._path(target)
        self._record("rename", source, target)
        if source in self._directories:
            self._replace_directory(source, target)
            return
        inode = self._inode(source)
        self._set_name(target, inode)
        self._set_name(source, None)

    def _replace_directory(self, source: str, target: str) -> None:
        """Move a directory at once and durably, as journalled file systems do."""
        for names in self._name_tables():
            for name in _within(names, source):
                names[target + name[len(source) :]] = names.pop(name)

    def _name_tables(self) -> tuple[dict[str, Any], ...]:
        return self._files, self._directories, self._undo_names

    def unlink(self, path: str) -> None:
        """See `kwire.base.doors.Files`."""
        path = self._path(path)
        self._inode(path)
        self._record("unlink", path)
        self._set_name(path, None)

    def utime(self, path: str, *, ns: tuple[int, int]) -> None:
        """See `kwire.base.doors.Files`."""
        self._inode(path).modified_ms = ns[1] // 1_000_000

    def rmtree(self, path: str) -> None:
        """See `kwire.base.doors.Files`."""
        path = self._path(path)
        if path not in self._directories:
            raise missing(path)
        self._record("rmtree", path)
        for names in self._name_tables():
            for name in _within(names, path):
                del names[name]

    # -- open files -------------------------------------------------------------------------------------------------

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        """See `kwire.base.doors.Files`."""
        path = self._path(path)
        if path in self._directories:
            return self._open_directory(path, flags)
        inode = self._files.get(path)
        if inode is None:
            if not flags & os.O_CREAT:
                raise missing(path)
            self._next_inode += 1
            inode = self.INODE(self._next_inode, self._time_ms())
            self._set_name(path, inode)
            self._record("create", path)
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        if flags & os.O_TRUNC and inode.data:
            inode.truncate(0, self._time_ms())
        self._next_fd += 1
        self._open[self._next_fd] = inode
        return self._next_fd

    def _open_directory(self, path: str, flags: int) -> int:
        """A descriptor that can be synced and closed, nothing else."""
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        self._next_fd += 1
        self._open_directories[self._next_fd] = path
        return self._next_fd

    def _of(self, fd: int) -> Inode:
        inode = self._open.get(fd)
        if inode is None:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return inode

    def close(self, fd: int) -> None:
        """See `kwire.base.doors.Files`."""
        if self._open_directories.pop(fd, None) is None:
            self._of(fd)
            del self._open[fd]
            self._locks.pop(fd, None)

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        """See `kwire.base.doors.Files`."""
        return bytes(self._of(fd).data[offset : offset + size])

    def preadv(self, fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        """See `kwire.base.doors.Files`."""
        data = self._of(fd).data
        done = 0
        for buffer in buffers:
            piece = data[offset + done : offset + done + len(buffer)]
            buffer[: len(piece)] = piece
            done += len(piece)
            if len(piece) < len(buffer):
                break
        return done

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        """See `kwire.base.doors.Files`."""
        content = bytes(data)
        inode = self._of(fd)
        self._record("write", inode.number, offset, data=content)
        inode.write(content, offset, self._time_ms())
        return len(content)

    def pwritev(self, fd: int, buffers: Any, offset: int) -> int:
        """See `kwire.base.doors.Files`."""
        return self.pwrite(fd, b"".join(bytes(buffer) for buffer in buffers), offset)

    def fsync(self, fd: int) -> None:
        """See `kwire.base.doors.Files`."""
        if fd in self._open_directories:
            self.sync_dir(self._open_directories[fd])
            return
        inode = self._of(fd)
        self._record("fsync", inode.number)
        inode.undo.clear()

    def ftruncate(self, fd: int, length: int) -> None:
        """See `kwire.base.doors.Files`."""
        inode = self._of(fd)
        self._record("truncate", inode.number, length)
        inode.truncate(length, self._time_ms())

    def size(self, fd: int) -> int:
        """See `kwire.base.doors.Files`."""
        return len(self._of(fd).data)

    def sync_dir(self, path: str) -> None:
        """See `kwire.base.doors.Files`."""
        self._record("sync_dir", path)
        self._undo_names.pop(self._path(path), None)

    # -- whole files ------------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        """See `kwire.base.doors.Files`."""
        return bytes(self._inode(path).data)

    def read_regular(self, path: str, max_bytes: int) -> bytes:
        """See `kwire.base.doors.Files`."""
        return self.read(path)

    def write_atomic(self, path: str, data: bytes) -> None:
        """See `kwire.base.doors.Files`."""
        fd = self.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.pwrite(fd, data, 0)
        self.fsync(fd)
        self.close(fd)
        self.replace(path + ".tmp", path)
        self.sync_dir(os.path.dirname(path))

    def lock(self, path: str) -> int | None:
        """See `kwire.base.doors.Files`."""
        path = self._path(path)
        if path in self._locks.values():
            return None
        fd = self.open(path, os.O_RDWR | os.O_CREAT)
        self._locks[fd] = path
        return fd

    def disk_usage(self, path: str) -> tuple[int, int]:
        """See `kwire.base.doors.Files`."""
        used = sum(len(inode.data) for inode in self._files.values())
        return DISK_BYTES, DISK_BYTES - used

    def forget_process(self) -> None:
        """The process has ended, the machine has not: close its files and release its locks."""
        self._open.clear()
        self._open_directories.clear()
        self._locks.clear()

    # -- power ------------------------------------------------------------------------------------------------------

    def lose_unsynced(self) -> None:
        """The power fails: open files and everything that was not synced are lost."""
        self._open.clear()
        self._open_directories.clear()
        self._locks.clear()
        for directory, changes in self._undo_names.items():
            for name, inode in reversed(changes):
                path = f"{directory}/{name}"
                if inode is None:
                    self._files.pop(path, None)
                else:
                    self._files[path] = inode
        self._undo_names.clear()
        for inode in self._files.values():
            inode.roll_back()
