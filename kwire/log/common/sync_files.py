"""Syncing files to stable storage: blocking calls for a thread of the executor."""

from __future__ import annotations

from kwire.base.doors import Files
from kwire.log.common.environment import SyncFailed


def sync_files(files: Files, descriptors: list[int], paths: list[str]) -> None:
    """Sync open files by descriptor, then files and directories by path. A path that no longer exists needs no sync.

    OSError; SyncFailed if the sync itself failed.
    """
    for fd in descriptors:
        _sync(files, fd)
    for path in paths:
        try:
            fd = files.open(path, 0)
        except FileNotFoundError:
            continue
        try:
            _sync(files, fd)
        finally:
            files.close(fd)


def _sync(files: Files, fd: int) -> None:
    try:
        files.fsync(fd)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror or str(error)) from error
