"""Plain Parquet: a folder with a file for each range of offsets, whose names say which offsets are done.

    orders-0-00000000000000000000-00000000000000250000.parquet     topic, partition, first offset, offset after the last

A file gets its name when it is whole and on the disk. `DESCRIPTION` says which topic the folder is of.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from kwire.archive.errors import ArchiveError, Conflict
from kwire.archive.identity import Identity
from kwire.archive.portions import Portion, StagedFile
from kwire.archive.rows import table_schema
from kwire.archive.targets.target import (
    ASIDE,
    MARKS,
    ROW_GROUP,
    check_alone,
    check_columns,
    forget_unfinished,
    locked,
    sync_folder,
)

DESCRIPTION: Final = MARKS["parquet"]
"""The file with the properties of `Identity`; engines overlook names that begin so."""
_NAME: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<start>\d{20})-(?P<end>\d{20})\.parquet")


class DataFile(NamedTuple):
    """A file of a partition, with the records from ``start`` to before ``end``."""

    partition: int
    start: int
    end: int
    path: str


class ParquetTarget:
    """A folder with files of one topic, which is locked for this process."""

    def __init__(self, path: str, topic: str, positions: Mapping[int, int]) -> None:
        self._path = path
        self._topic = topic
        self._positions = dict(positions)

    @classmethod
    @contextmanager
    def opened(cls, path: str, identity: Identity) -> Iterator[ParquetTarget]:
        """The folder for a topic, made if need be. `ArchiveError`."""
        if "://" in path:
            raise ArchiveError(f"{path}: Parquet files are written to a folder; --to delta and iceberg know stores")
        with locked(path), _as_archive_errors():
            check_alone(path, "parquet")
            files = data_files(path)
            if os.path.exists(f"{path}/{DESCRIPTION}"):
                known = described(path)
                known.check(identity, path)
                _check_newest(files)
            elif files or any(name.endswith(".parquet") for name in os.listdir(path)):
                raise ArchiveError(f"{path}: has Parquet files, and no {DESCRIPTION}: give another --path")
            else:
                known = None
            forget_unfinished(path)
            if known is None or known.partitions < identity.partitions:
                _describe(path, identity)
            yield cls(path, identity.topic, {each.partition: each.end for each in files})

    def positions(self) -> Mapping[int, int]:
        """After the last file of each partition."""
        return self._positions

    def commit(self, portions: Sequence[Portion]) -> None:
        """A file for each portion that has records."""
        with _as_archive_errors():
            for each in portions:
                if each.records:
                    self._write(each)
                    self._positions[each.partition] = each.end

    def adopt(self, staged: Sequence[StagedFile]) -> None:
        """Files that others have written beside the table, by partition and offset, become part of it one by one."""
        with _as_archive_errors():
            for each in staged:
                if each.rows:
                    self._name(each.path, self._name_of(each.partition, each.start, each.end))
                    self._positions[each.partition] = each.end

    def _name_of(self, partition: int, start: int, end: int) -> str:
        return f"{self._topic}-{partition}-{start:020d}-{end:020d}.parquet"

    def _write(self, portion: Portion) -> None:
        import pyarrow.parquet as pq

        name = self._name_of(portion.partition, portion.start, portion.end)
        aside = f"{self._path}/{name}{ASIDE}"
        with open(aside, "wb") as file:
            with pq.ParquetWriter(file, table_schema(), compression="zstd") as writer:
                for batch in portion.rows:
                    writer.write_batch(batch, ROW_GROUP)
            file.flush()
            os.fsync(file.fileno())
        self._name(aside, name)

    def _name(self, aside: str, name: str) -> None:
        """Give a whole file its name. `Conflict`, OSError."""
        try:
            os.link(aside, f"{self._path}/{name}")  # unlike a rename, never in the place of another file
        except FileExistsError:
            raise Conflict(f"{self._path}/{name}: somebody else has written it; run the command again") from None
        os.unlink(aside)
        sync_folder(self._path)


def described(path: str) -> Identity:
    """The topic that a folder is of. `ArchiveError`, OSError."""
    try:
        properties = json.loads(Path(f"{path}/{DESCRIPTION}").read_text(encoding="utf-8"))
    except ValueError:
        properties = None
    if not isinstance(properties, dict) or not all(isinstance(each, str) for each in properties.values()):
        raise ArchiveError(f"{path}/{DESCRIPTION}: damaged: restore it from a copy")
    return Identity.of(properties, path)


def data_files(path: str) -> list[DataFile]:
    """The files of a folder, by partition and offset. `ArchiveError` if some have the same offsets. OSError."""
    found = []
    for name in os.listdir(path):
        parsed = _NAME.fullmatch(name)
        if parsed:
            partition, start, end = (int(parsed[each]) for each in ("partition", "start", "end"))
            found.append(DataFile(partition, start, end, f"{path}/{name}"))
    found.sort()
    for one, other in pairwise(found):
        if one.partition == other.partition and other.start < one.end:
            raise ArchiveError(f"{one.path} and {other.path} have the same offsets: remove the one that is not kwire's")
    return found


def _check_newest(files: Sequence[DataFile]) -> None:
    """`ArchiveError` if a file is none, or has other columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not files:
        return
    try:
        check_columns(pq.read_schema(files[-1].path), files[-1].path)
    except pa.ArrowInvalid as error:
        raise ArchiveError(f"{files[-1].path}: damaged: {error}") from None


def _describe(path: str, identity: Identity) -> None:
    aside = f"{path}/{DESCRIPTION}{ASIDE}"
    with open(aside, "w", encoding="utf-8") as file:
        json.dump(identity.properties(), file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, f"{path}/{DESCRIPTION}")
    sync_folder(path)


@contextmanager
def _as_archive_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ArchiveError(f"{error.filename or 'a file'}: {error.strerror or error}") from None
