"""Making a data directory of a backup: a broker that is started on it has the same cluster, topics, offsets and bytes.

While it is made, a file in it (`RESTORING_FILE`) keeps brokers away; a run that was killed goes on with what is there.
The broker's first start recovers it as after a crash: it checks what was last written, and rebuilds indexes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Final, NamedTuple

from kwire.archive.backup.creating import THREADS, backups, read_manifest
from kwire.archive.backup.manifest import Manifest, StoredFile, StoredPartition
from kwire.archive.backup.stores import Place
from kwire.archive.errors import ArchiveError
from kwire.base.doors import Files
from kwire.base.uuids import uuid_from_text
from kwire.cluster.store.embedded import PRIVATE
from kwire.log.common import checkpoints
from kwire.log.common.log_dirs import LOCK_FILE, META_PROPERTIES_FILE, RESTORING_FILE

_ASIDE: Final = ".unfinished"
_OVERLOOKED: Final = frozenset({LOCK_FILE, f"{RESTORING_FILE}.tmp", "lost+found"})
"""What counts as nothing; a run that was killed while it wrote its mark leaves `write_atomic`'s file."""
_CHUNK: Final = 1024 * 1024


class RestoredDirectory(NamedTuple):
    """What a run has made."""

    number: int
    data_dir: str
    cluster_id: str
    topics: int
    partitions: int
    bytes: int


def restore(place: Place, path: str, number: int | None) -> RestoredDirectory:
    """Make a data directory of a backup, the newest one if no number is given. `ArchiveError`."""
    chosen = _chosen(place, number)
    manifest = read_manifest(place, chosen)
    files = Files()
    try:
        files.makedirs(path)
        lock = files.lock(f"{path}/{LOCK_FILE}")
        if lock is None:
            raise ArchiveError(f"{path}: another process uses this directory")
        try:
            _Run(place, path, manifest).restore()
        finally:
            files.close(lock)
    except OSError as error:
        raise ArchiveError(f"{error.filename or path}: {error.strerror or error}") from None
    return RestoredDirectory(
        chosen,
        path,
        manifest.cluster_id,
        len({each.topic for each in manifest.partitions}),
        len(manifest.partitions),
        sum(each.size for each in manifest.files()),
    )


def is_data_directory(path: str) -> bool:
    """Whether a broker has used a directory, or a restore has ended in it."""
    files = Files()
    return files.exists(f"{path}/{META_PROPERTIES_FILE}") and not files.exists(f"{path}/{RESTORING_FILE}")


def _chosen(place: Place, number: int | None) -> int:
    known = backups(place)
    if not known:
        raise ArchiveError(f"{place.url}: has no backup")
    if number is not None and number not in known:
        raise ArchiveError(f"{place.url}: has no backup {number}; it has {', '.join(map(str, known[-20:]))}")
    return known[-1] if number is None else number


class _Run:
    def __init__(self, place: Place, path: str, manifest: Manifest) -> None:
        self._place = place
        self._path = path
        self._manifest = manifest
        self._files = Files()

    def restore(self) -> None:
        """Fetch all files and write what a broker keeps beside them."""
        self._begin()
        for each in self._manifest.partitions:
            self._files.makedirs(f"{self._path}/{each.name}")
        work = [(each.name, file) for each in self._manifest.partitions for file in each.files]
        with ThreadPoolExecutor(THREADS) as pool:
            futures = [pool.submit(self._fetch, *each) for each in work]
            try:
                for future in futures:
                    future.result()
            finally:
                pool.shutdown(cancel_futures=True)
        for partition in self._manifest.partitions:
            self._describe(partition)
        self._write_checkpoints()
        self._fetch("", self._manifest.store)
        self._files.chmod(f"{self._path}/{self._manifest.store.name}", PRIVATE)
        self._files.write_atomic(f"{self._path}/{META_PROPERTIES_FILE}", self._manifest.properties.encode())
        self._files.unlink(f"{self._path}/{RESTORING_FILE}")
        self._files.sync_dir(self._path)

    def _begin(self) -> None:
        """Mark the directory. `ArchiveError` if it has something else in it."""
        marker = f"{self._path}/{RESTORING_FILE}"
        mark = json.dumps({"cluster": self._manifest.cluster_id, "number": self._manifest.number}).encode()
        if self._files.exists(marker):
            if self._files.read(marker) != mark:
                raise ArchiveError(f"{self._path}: the restore of another backup into it was not finished: empty it")
            return
        if set(self._files.listdir(self._path)) - _OVERLOOKED:
            raise ArchiveError(f"{self._path}: is not empty: give another directory")
        self._files.write_atomic(marker, mark)

    def _fetch(self, folder: str, stored: StoredFile) -> None:
        """Fetch a file, unless it is there. `ArchiveError` if it is not what was stored."""
        path = f"{self._path}/{folder}/{stored.name}" if folder else f"{self._path}/{stored.name}"
        if self._files.exists(path) and _digest(path) == stored.sha256:
            return
        total, size = sha256(), 0
        with open(os.open(path + _ASIDE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644), "wb") as file:
            if not folder:
                os.fchmod(file.fileno(), PRIVATE)
            for chunk in self._place.chunks(stored.object) if stored.object else ():
                total.update(chunk)
                size += len(chunk)
                if size > stored.size:
                    break
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        found = total.hexdigest()
        if found != stored.sha256:
            where = f"{self._place.url.rstrip('/')}/{stored.object}"
            raise ArchiveError(
                f"{where}: damaged: its SHA-256 is {found}, not {stored.sha256}; --number takes an earlier backup"
            )
        self._files.replace(path + _ASIDE, path)

    def _describe(self, partition: StoredPartition) -> None:
        folder = f"{self._path}/{partition.name}"
        checkpoints.write_topic_id(self._files, folder, uuid_from_text(partition.topic_id), sync=True)
        epochs = checkpoints.join_lines([f"{epoch} {offset}" for epoch, offset in partition.epochs])
        checkpoints.write_text(self._files, f"{folder}/{checkpoints.LEADER_EPOCH_FILE}", epochs, sync=True)

    def _write_checkpoints(self) -> None:
        offsets: dict[str, Callable[[StoredPartition], int]] = {
            checkpoints.RECOVERY_POINT_FILE: lambda each: each.recovery_point,
            checkpoints.LOG_START_OFFSET_FILE: lambda each: each.start,
            checkpoints.HIGH_WATERMARK_FILE: lambda each: each.end,
            checkpoints.CLEANER_FILE: lambda each: each.cleaned,
        }
        for file, offset in offsets.items():
            found = {(each.topic, each.partition): offset(each) for each in self._manifest.partitions}
            known = {key: value for key, value in found.items() if value >= 0}
            checkpoints.write_offsets(self._files, f"{self._path}/{file}", known, sync=True)


def _digest(path: str) -> str:
    total = sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            total.update(chunk)
    return total.hexdigest()
