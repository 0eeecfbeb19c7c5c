"""The list of what is in a backup: JSON in two lines, the second one with everything, the first with its checksum.

    backups/00000042.json                                          a backup is there when its list is
    segments/orders-0-GDH.../00000000000000000000.log.00000041-5f3a...    what was first in backup 41, by its checksum

Pure. A list may come from a place that others write to, so what names files and objects is checked when it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple

from kwire.archive.errors import ArchiveError
from kwire.cluster.controller.topics import name_problem
from kwire.log.common.names import directory_name, parse_file_name

VERSION: Final = 1
LISTS: Final = "backups/"
OBJECTS: Final = "segments/"
STORE: Final = "store"
_LIST: Final = re.compile(r"backups/(\d{8})\.json")
_OBJECT: Final = re.compile(r"(segments|store)/[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)?\.\d{8}-[0-9a-f]{16}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

Stamp = tuple[int, int, int, int]
"""Inode, bytes, and times of modification and change in nanoseconds, of a file that was copied."""


class StoredFile(NamedTuple):
    """``size`` bytes from the beginning of a file. ``object`` is its name in the store, "" for an empty file."""

    name: str
    size: int
    sha256: str
    object: str
    stamp: Stamp


class StoredPartition(NamedTuple):
    """A partition: offsets from ``start`` to before ``end``. ``recovery_point``: before which offset its indexes are
    among the files; ``cleaned``: up to where it was compacted, -1 if never; ``epochs``: leader epochs and the offsets
    with which they began."""

    topic: str
    partition: int
    topic_id: str
    start: int
    end: int
    recovery_point: int
    cleaned: int
    epochs: tuple[tuple[int, int], ...]
    files: tuple[StoredFile, ...]

    @property
    def name(self) -> str:
        """``orders-0``."""
        return directory_name(self.topic, self.partition)


class Manifest(NamedTuple):
    """A backup. ``store`` is the metadata store, ``properties`` the text of `meta.properties`; ``created_ms``: when it
    was written; ``kwire``: by which version."""

    number: int
    created_ms: int
    kwire: str
    cluster_id: str
    node_id: int
    properties: str
    store: StoredFile
    partitions: tuple[StoredPartition, ...]

    def files(self) -> Iterator[StoredFile]:
        """All files."""
        yield self.store
        for each in self.partitions:
            yield from each.files

    def objects(self) -> set[str]:
        """The names of all objects."""
        return {each.object for each in self.files()} - {""}


def list_name(number: int) -> str:
    """The name of a backup's list."""
    return f"{LISTS}{number:08d}.json"


def list_number(name: str) -> int | None:
    """The inverse of `list_name`; None for another object."""
    match = _LIST.fullmatch(name)
    return None if match is None else int(match[1])


def object_name(folder: str, name: str, number: int, digest: str) -> str:
    """The name of an object that is new in a backup: no two backups write the same one, whatever is in it."""
    return f"{folder}/{name}.{number:08d}-{digest[:16]}"


def encode(manifest: Manifest) -> bytes:
    """The bytes of a list."""
    body = json.dumps(_plain(manifest), separators=(",", ":")).encode()
    head = json.dumps({"kwire.backup": VERSION, "sha256": sha256(body).hexdigest()}).encode()
    return head + b"\n" + body + b"\n"


def decode(data: bytes, where: str) -> Manifest:
    """The inverse of `encode`. `ArchiveError` for a damaged list, or that of a newer kwire."""
    head, _, body = data.partition(b"\n")
    try:
        known = json.loads(head)
        version, digest = known["kwire.backup"], known["sha256"]
    except (ValueError, KeyError, TypeError):
        raise ArchiveError(f"{where}: damaged, or not the list of a backup") from None
    if version != VERSION:
        raise ArchiveError(f"{where}: has format {version}, this kwire reads format {VERSION}: use a newer kwire")
    body = body.removesuffix(b"\n")
    found = sha256(body).hexdigest()
    if found != digest:
        raise ArchiveError(f"{where}: damaged: its SHA-256 is {found}, not {digest}; --number takes an earlier backup")
    try:
        manifest = _manifest(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ArchiveError(f"{where}: not the list of a backup of kwire") from None
    _check(manifest, where)
    return manifest


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _manifest(fields: dict[str, Any]) -> Manifest:
    known = {name: fields[name] for name in Manifest._fields if name not in ("store", "partitions")}
    partitions = tuple(_partition(each) for each in fields["partitions"])
    return Manifest(**known, store=_file(fields["store"]), partitions=partitions)


def _partition(fields: dict[str, Any]) -> StoredPartition:
    known = {name: fields[name] for name in StoredPartition._fields if name not in ("epochs", "files")}
    epochs = tuple((int(epoch), int(offset)) for epoch, offset in fields["epochs"])
    return StoredPartition(**known, epochs=epochs, files=tuple(map(_file, fields["files"])))


def _file(fields: dict[str, Any]) -> StoredFile:
    inode, size, modified, changed = map(int, fields["stamp"])
    return StoredFile(
        str(fields["name"]),
        int(fields["size"]),
        str(fields["sha256"]),
        str(fields["object"]),
        (inode, size, modified, changed),
    )


def _check(manifest: Manifest, where: str) -> None:
    """`ArchiveError` if a name would be a path to somewhere else."""
    for partition in manifest.partitions:
        wrong = name_problem(partition.topic) is not None or not isinstance(partition.partition, int)
        if wrong or partition.partition < 0:
            raise ArchiveError(f"{where}: {partition.name!r} is no partition")
        for each in partition.files:
            if parse_file_name(each.name) is None:
                raise ArchiveError(f"{where}: {each.name!r} is no file of a partition")
    for each in manifest.files():
        if not _DIGEST.fullmatch(each.sha256) or not (each.object == "" or _OBJECT.fullmatch(each.object)):
            raise ArchiveError(f"{where}: {each.object!r} is no object of a backup")
