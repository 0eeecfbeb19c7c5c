"""Mutants of backups, which a directory that changes while runs are ended must notice (`campaigns.archive`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from campaigns.archive import backup_seeds
from campaigns.mutants.mutant import Mutant, together
from kwire.archive.backup import creating, cut
from kwire.archive.backup.manifest import Manifest, StoredFile


def _list_first() -> Any:
    """Objects are sent when the list that names them is written."""
    send, publish = creating._Run._send, creating._Run._publish
    late: list[tuple[StoredFile, bytes | Iterator[bytes]]] = []

    def queue(_self: creating._Run, stored: StoredFile, data: bytes | Iterator[bytes]) -> None:
        late.append((stored, data if isinstance(data, bytes) else b"".join(data)))

    def list_and_send(self: creating._Run, manifest: Manifest) -> None:
        publish(self, manifest)
        waiting = late[:]
        late.clear()
        for each in waiting:
            send(self, *each)

    return together(patch.object(creating._Run, "_send", queue), patch.object(creating._Run, "_publish", list_and_send))


def _delete_shared() -> Any:
    return patch.object(creating, "_unused", lambda old, _kept: sorted(old))


def _uncommitted() -> Any:
    import os

    return patch.object(cut.Cutter, "_size_before", lambda _self, path, _end: os.stat(path).st_size)


MUTANTS: dict[str, Mutant] = {
    "list-first": Mutant("a backup is there before its objects", _list_first, backup_seeds.run_seeds, 30),
    "delete-shared": Mutant("objects of kept backups are deleted", _delete_shared, backup_seeds.run_seeds, 30),
    "uncommitted": Mutant("what is not committed is in a backup", _uncommitted, backup_seeds.run_seeds, 30),
}
