"""Making a backup: what is new is copied, then the list of everything is written, then old backups are deleted.

A backup is there when its list is, so one that is killed changes nothing; the next run uses what it has copied. What is
deleted is what the lists of old backups name and no kept one does: nothing else in the place is touched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import kwire
from kwire.archive.backup.cut import Changed, CutPartition, Cutter, Part
from kwire.archive.backup.manifest import (
    LISTS,
    OBJECTS,
    STORE,
    Manifest,
    StoredFile,
    StoredPartition,
    decode,
    encode,
    list_name,
    list_number,
    object_name,
)
from kwire.archive.backup.metadata import Metadata, read_metadata
from kwire.archive.backup.stores import PART_BYTES, Place
from kwire.archive.errors import ArchiveError
from kwire.base.doors import Files
from kwire.cluster.store.embedded import FILE_NAME
from kwire.log.common.log_dirs import META_PROPERTIES_FILE, LogDirectoryError, read_meta_properties
from kwire.log.common.names import directory_name

THREADS: Final = 4
"""How many files are copied at a time; each takes two parts of memory."""
_ASKED_FROM: Final = 1024 * 1024
"""What is larger is sent only if it is not there yet; to send what is smaller takes no longer than to ask."""
_DELETED_AT_ONCE: Final = 1000
_ROUNDS: Final = 20
_PAUSE_S: Final = 0.5


class Created(NamedTuple):
    """What a run has done. ``files`` and ``bytes``: of the backup, without empty ones; ``copied_files`` and
    ``copied_bytes``: those of them that were copied by this run."""

    number: int
    to: str
    topics: int
    partitions: int
    files: int
    bytes: int
    copied_files: int
    copied_bytes: int
    deleted_backups: int


def backups(place: Place) -> list[int]:
    """The numbers of the backups in a place, oldest first. `ArchiveError`."""
    numbers = [list_number(name) for name in place.names(LISTS)]
    return sorted(each for each in numbers if each is not None)


def read_manifest(place: Place, number: int) -> Manifest:
    """The list of a backup. `ArchiveError`."""
    name = list_name(number)
    return decode(place.read(name), f"{place.url.rstrip('/')}/{name}")


def create(path: str, place: Place, *, keep: int, closed_only: bool) -> Created:
    """Back a data directory up, which a broker may be using. ``keep``: so many backups stay, 0 for all.
    `ArchiveError`."""
    return _Run(path, place, closed_only=closed_only).create(keep)


class _Run:
    def __init__(self, path: str, place: Place, *, closed_only: bool) -> None:
        self._path = path.rstrip("/") or "/"
        self._place = place
        self._closed_only = closed_only
        try:
            self._meta = read_meta_properties(Files(), self._path)
            self._properties = "" if self._meta is None else Path(f"{self._path}/{META_PROPERTIES_FILE}").read_text()
        except LogDirectoryError as error:
            raise ArchiveError(str(error)) from None
        except OSError as error:
            raise ArchiveError(f"{error.filename}: {error.strerror}") from None
        if self._meta is None or self._meta.node_id is None:
            raise ArchiveError(f"{self._path}: no data directory, it has no {META_PROPERTIES_FILE}")
        self._node_id = self._meta.node_id
        self._number = 1
        self._known: dict[tuple[str, str, int], StoredFile] = {}  # by folder, name and size
        self._objects: set[str] = set()  # what is known to be in the place
        self._copied_files = self._copied_bytes = 0

    def create(self, keep: int) -> Created:
        """See `create`."""
        metadata = self._metadata()
        numbers = backups(self._place)
        if numbers:
            self._number = numbers[-1] + 1
            self._know(read_manifest(self._place, numbers[-1]), metadata)
        partitions, metadata = self._consistent(metadata)
        manifest = Manifest(
            self._number,
            time.time_ns() // 1_000_000,
            kwire.__version__,
            metadata.cluster_id,
            self._node_id,
            self._properties,
            self._stored_database(metadata.database),
            tuple(partitions),
        )
        self._publish(manifest)
        files = [each for each in manifest.files() if each.object]
        return Created(
            self._number,
            self._place.url,
            len(metadata.topics),
            len(partitions),
            len(files),
            sum(each.size for each in files),
            self._copied_files,
            self._copied_bytes,
            self._forget(keep, manifest),
        )

    def _metadata(self) -> Metadata:
        return read_metadata(self._path, self._node_id)

    def _know(self, last: Manifest, metadata: Metadata) -> None:
        """Take from the last backup what need not be copied again."""
        if last.cluster_id != metadata.cluster_id:
            raise ArchiveError(
                f"{self._place.url}: has backups of cluster {last.cluster_id}, and {self._path} is of cluster"
                f" {metadata.cluster_id}: give another place"
            )
        self._objects = last.objects()
        self._known[STORE, last.store.name, last.store.size] = last.store
        for partition in last.partitions:
            folder = _folder(partition.topic, partition.partition, partition.topic_id)
            for each in partition.files:
                self._known[folder, each.name, each.size] = each

    def _consistent(self, metadata: Metadata) -> tuple[list[StoredPartition], Metadata]:
        """All partitions of one cut, and the metadata with which they belong together."""
        cutter = Cutter(self._path, closed_only=self._closed_only)
        reason = ""
        for _ in range(_ROUNDS):
            try:
                cut = cutter.cut(metadata.topics)
                stored = self._copy(cutter, cut)
                for each in cut:
                    cutter.check(each)
            except Changed as changed:
                reason = str(changed)
                time.sleep(_PAUSE_S)
                metadata = self._metadata()
                continue
            after = self._metadata()
            if after.topics == metadata.topics:
                return stored, after
            reason, metadata = "topics are made and deleted", after
        raise ArchiveError(f"{self._path}: changes all the time ({reason}); try again")

    def _copy(self, cutter: Cutter, cut: Sequence[CutPartition]) -> list[StoredPartition]:
        """Copy what is new of a cut."""
        work = [(partition, part) for partition in cut for part in partition.parts]
        with ThreadPoolExecutor(THREADS) as pool:
            futures = [pool.submit(self._stored, cutter, *each) for each in work]
            try:
                stored = [each.result() for each in futures]
            finally:
                pool.shutdown(cancel_futures=True)
        files: dict[int, list[StoredFile]] = {}
        for (partition, _), one in zip(work, stored, strict=True):
            files.setdefault(id(partition), []).append(one)
        return [
            StoredPartition(
                *each.key,
                each.topic_id,
                each.start,
                each.end,
                each.recovery_point,
                each.cleaned,
                each.epochs,
                tuple(files.get(id(each), [])),
            )
            for each in cut
        ]

    def _stored(self, cutter: Cutter, partition: CutPartition, part: Part) -> StoredFile:
        folder = _folder(*partition.key, partition.topic_id)
        if part.size == 0:
            return self._named(folder, part, sha256().hexdigest())
        known = self._known.get((folder, part.name, part.size))
        is_log_that_grows = part.size < part.stamp[1]
        if known is not None and (known.stamp == part.stamp or (is_log_that_grows and known.stamp[0] == part.stamp[0])):
            return known
        descriptor = cutter.open(partition.key, part)
        try:
            if part.size <= PART_BYTES:
                data = b"".join(_chunks(descriptor, part))
                stored = self._named(folder, part, sha256(data).hexdigest())
                self._send(stored, data)
            else:
                digest = sha256()
                for chunk in _chunks(descriptor, part):
                    digest.update(chunk)
                stored = self._named(folder, part, digest.hexdigest())
                self._send(stored, _chunks(descriptor, part))
        finally:
            os.close(descriptor)
        self._known[folder, part.name, part.size] = stored
        return stored

    def _named(self, folder: str, part: Part, digest: str) -> StoredFile:
        """What a file becomes: the object that a former backup has of these bytes, or a new one."""
        known = self._known.get((folder, part.name, part.size))
        if known is not None and known.sha256 == digest:
            return known._replace(stamp=part.stamp)
        name = object_name(folder, part.name, self._number, digest) if part.size else ""
        return StoredFile(part.name, part.size, digest, name, part.stamp)

    def _send(self, stored: StoredFile, data: bytes | Iterator[bytes]) -> None:
        """Copy a file, unless a former backup or a run that was killed has copied it."""
        if not stored.object or stored.object in self._objects:
            return
        if stored.size > _ASKED_FROM and self._place.has_whole(stored.object, stored.size):
            return
        self._place.put(stored.object, data)
        self._objects.add(stored.object)
        self._copied_files += 1
        self._copied_bytes += stored.size

    def _stored_database(self, data: bytes) -> StoredFile:
        part = Part(FILE_NAME, len(data), (0, 0, 0, 0))
        stored = self._named(STORE, part, sha256(data).hexdigest())
        self._send(stored, data)
        return stored

    def _publish(self, manifest: Manifest) -> None:
        """Write the list, with which the backup is there. `Conflict` if another run has written it."""
        self._place.put(list_name(self._number), encode(manifest), new=True)

    def _forget(self, keep: int, newest: Manifest) -> int:
        """Delete all backups but some; how many were."""
        numbers = [each for each in backups(self._place) if each < newest.number]
        old = numbers[: max(0, len(numbers) + 1 - keep)] if keep else []
        if not old:
            return 0
        kept = newest.objects()
        for each in numbers[len(old) :]:
            kept |= read_manifest(self._place, each).objects()
        for each in old:
            names = _unused(read_manifest(self._place, each).objects(), kept)
            for at in range(0, len(names), _DELETED_AT_ONCE):
                self._place.delete(names[at : at + _DELETED_AT_ONCE])
            self._place.delete([list_name(each)])
        return len(old)


def _unused(old: set[str], kept: set[str]) -> list[str]:
    """The objects of an old backup that no kept one has."""
    return sorted(old - kept)


def _folder(topic: str, partition: int, topic_id: str) -> str:
    return f"{OBJECTS}{directory_name(topic, partition)}.{topic_id}"


def _chunks(descriptor: int, part: Part) -> Iterator[bytes]:
    """The bytes of a part, which nobody changes any more. `Changed` if the file is shorter by now."""
    position = 0
    while position < part.size:
        chunk = os.pread(descriptor, min(PART_BYTES, part.size - position), position)
        if not chunk:
            raise Changed(f"{part.name} became shorter")
        position += len(chunk)
        yield chunk
