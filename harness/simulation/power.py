"""A disk that loses power: what was not synced is there, torn in units of 512 bytes, or gone, as a seed decides.

Content is durable after ``fsync`` of the file, names after the sync of their directory, a new directory after that of
its parent. Of what was not: each sector of a file holds what any of the writes since the last sync left there (or
zeros, where the file had grown), and its length is that of any moment since; files lose independently of each other.
Changes of names are journalled, as file systems do it: the first so many of a directory happened, and beyond those
perhaps the names of files that were synced themselves. A rename is one change: it happened or it did not.

What lives elsewhere: the disk itself (`disk`), what is to hold on it (`campaigns/power_loss.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any, Final

from harness.simulation.disk import Disk, Inode
from harness.simulation.trace import Trace

SECTOR: Final = 512
CHANGING: Final = ("pwrite", "fsync", "ftruncate", "replace", "unlink", "makedirs", "sync_dir", "rmtree")

Rename = tuple[str, str, Inode]
Change = tuple[str, Inode | None]


class PowerLost(BaseException):
    """The machine is off: no code runs any more."""


class PowerDisk(Disk):
    """A disk whose power fails before the n-th change from `fail_after` on; every later call raises
    PowerLost. `after_power_loss` is what the next life finds."""

    def __init__(self, time_ms: Callable[[], int]) -> None:
        super().__init__(Trace(lambda: 0.0), "disk", time_ms)
        self.steps_left = -1  # -1: the power does not fail
        self.dead = False
        self.changes = 0
        self._fresh_directories: dict[str, None] = {}  # their names are not synced yet
        self._renames: dict[str, list[Rename]] = {}
        for name in (*CHANGING, "open", "pread", "read", "listdir", "stat"):
            setattr(self, name, self._mortal(getattr(self, name), name in CHANGING))

    def fail_after(self, steps: int) -> None:
        """Let the power fail before the change after ``steps`` more of them."""
        self.steps_left = steps

    def _mortal(self, function: Callable[..., Any], changes: bool) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.dead or (changes and self.steps_left == 0):
                self.dead = True
                raise PowerLost
            if changes:
                self.changes += 1
                self.steps_left -= self.steps_left > 0
            return function(*args, **kwargs)

        return call

    def _record(self, kind: str, *facts: object, data: Any = None) -> None:
        """Record nothing: this disk has no trace."""

    # -- what is durable --------------------------------------------------------------------------------------------

    def makedirs(self, path: str) -> None:
        """See `kwire.base.doors.Files`."""
        before = set(self._directories)
        super().makedirs(path)
        for made in self._directories:
            if made not in before and made.count("/") > 1:  # the first level is given
                self._fresh_directories[made] = None

    def sync_dir(self, path: str) -> None:
        """See `kwire.base.doors.Files`."""
        path = self._path(path)
        super().sync_dir(path)
        self._renames.pop(path, None)
        for fresh in [each for each in self._fresh_directories if os.path.dirname(each) == path]:
            del self._fresh_directories[fresh]

    def replace(self, source: str, target: str) -> None:
        """See `kwire.base.doors.Files`."""
        source, target = self._path(source), self._path(target)
        if source not in self._directories and os.path.dirname(source) == os.path.dirname(target):
            rename = (os.path.basename(source), os.path.basename(target), self._inode(source))
            self._renames.setdefault(os.path.dirname(source), []).append(rename)
        super().replace(source, target)

    def _name_tables(self) -> tuple[dict[str, Any], ...]:
        return (*super()._name_tables(), self._renames, self._fresh_directories)

    # -- after the loss ---------------------------------------------------------------------------------------------

    def after_power_loss(self, random: Random) -> PowerDisk:
        """The disk as the next start finds it; all of it is durable."""
        after = PowerDisk(self._time_ms)
        gone = [path for path in self._fresh_directories if random.random() < 0.5]
        after._directories = {
            path: None for path in self._directories if not any(_is_within(path, lost) for lost in gone)
        }
        survivors = self._surviving_names(random)
        contents: dict[int, bytearray] = {}
        for path in sorted(survivors):
            if os.path.dirname(path) not in after._directories:
                continue
            inode = survivors[path]
            if inode.number not in contents:
                contents[inode.number] = _surviving_content(inode, random)
            after._next_inode += 1
            kept = Inode(after._next_inode, inode.modified_ms)
            kept.data = bytearray(contents[inode.number])
            after._files[path] = kept
        return after

    def _surviving_names(self, random: Random) -> dict[str, Inode]:
        names = dict(self._files)
        for directory, undo in self._undo_names.items():
            for name, inode in reversed(undo):  # back to what was durable
                _bind(names, f"{directory}/{name}", inode)
            changes = self._changes_of(directory, undo)
            first = random.choice((0, len(changes), random.randint(0, len(changes))))
            for number, change in enumerate(changes):
                if number < first or (_is_synced_file(change) and random.random() < 0.5):
                    _apply(names, directory, change)
        return names

    def _changes_of(self, directory: str, undo: list[tuple[str, Inode | None]]) -> list[Change | Rename]:
        """The changes of names since the last sync in their order; a rename is two entries of the undo list."""
        renames = list(self._renames.get(directory, ()))
        later: dict[str, Inode | None] = {}  # what a name was bound to after the entry
        forward: list[Change] = []
        for name, before in reversed(undo):
            forward.append((name, later[name] if name in later else self._files.get(f"{directory}/{name}")))
            later[name] = before
        forward.reverse()
        changes: list[Change | Rename] = []
        at = 0
        while at < len(forward):
            name, inode = forward[at]
            following = forward[at + 1] if at + 1 < len(forward) else None
            if renames and following is not None and (following[0], name, inode) == renames[0] and following[1] is None:
                changes.append(renames.pop(0))
                at += 2
                continue
            changes.append((name, inode))
            at += 1
        return changes


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")


def _bind(names: dict[str, Inode], path: str, inode: Inode | None) -> None:
    if inode is None:
        names.pop(path, None)
    else:
        names[path] = inode


def _is_synced_file(change: Change | Rename) -> bool:
    """Whether this is the creation of a file that has been synced since."""
    inode = change[1]
    return len(change) == 2 and isinstance(inode, Inode) and bool(inode.data) and not inode.undo


def _apply(names: dict[str, Inode], directory: str, change: Change | Rename) -> None:
    if len(change) == 2:
        _bind(names, f"{directory}/{change[0]}", change[1])
        return
    source, target, inode = change
    if names.get(f"{directory}/{source}") is inode:
        del names[f"{directory}/{source}"]
    names[f"{directory}/{target}"] = inode


def _versions(inode: Inode) -> list[bytes]:
    """The contents since the last sync: what is durable first, the newest last."""
    data = bytearray(inode.data)
    found = [bytes(data)]
    for length, position, old in reversed(inode.undo):
        data[position : position + len(old)] = old
        del data[length:]
        found.append(bytes(data))
    return found[::-1]


def _surviving_content(inode: Inode, random: Random) -> bytearray:
    if not inode.undo:
        return bytearray(inode.data)
    versions = _versions(inode)
    how = random.choice(("durable", "newest", "moment", "torn", "torn", "zeros"))
    if how == "durable":
        return bytearray(versions[0])
    if how == "newest":
        return bytearray(versions[-1])
    chosen = random.randrange(len(versions))
    if how == "moment":
        return bytearray(versions[chosen])
    result = bytearray(len(versions[chosen]))
    for start in range(0, len(result), SECTOR):
        end = min(start + SECTOR, len(result))
        pieces = list(dict.fromkeys(version[start:end] for version in versions if len(version) > start))
        if end > len(versions[0]):  # grown here, and perhaps nothing of it was written: what was durable, then zeros
            pieces.append(versions[0][start:end].ljust(end - start, b"\0"))
        if how == "zeros":  # the length was written, the data behind what is durable was not
            pieces = [versions[0][start:end]]
        piece = random.choice(pieces) if pieces else b""
        result[start : start + len(piece)] = piece
    return result
