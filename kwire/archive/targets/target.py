"""What a table is to whoever writes it."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from kwire.archive.errors import ArchiveError
from kwire.archive.portions import Portion, StagedFile
from kwire.archive.rows import table_schema

if TYPE_CHECKING:
    import pyarrow as pa

LOCK: Final = ".kwire.lock"
"""The file in a table's folder that is locked while it is written to."""

MARKS: Final = {"parquet": "_kwire.json", "delta": "_delta_log", "iceberg": "catalog.db"}
"""What a folder with a table of each format has."""
ASIDE: Final = ".unfinished"
"""How the names of files end that are not part of the table yet."""
ROW_GROUP: Final = 128 * 1024
"""Rows in a row group of a Parquet file, so that reading back takes little memory."""


class Target(Protocol):
    """A table of one topic. `ArchiveError`; `Conflict` if somebody else has written to it since."""

    def positions(self) -> Mapping[int, int]:
        """The next offset of each partition that has some in the table, after what is committed."""

    def commit(self, portions: Sequence[Portion]) -> None:
        """Add records, and that their offsets are done: both or neither, whenever the process ends."""


class AdoptingTarget(Target, Protocol):
    """A table in a folder, of which files can become a part that others have written there."""

    def adopt(self, staged: Sequence[StagedFile]) -> None:
        """`commit`, of files."""


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Keep other archivers of this machine out of a folder, which is made if need be. `ArchiveError`."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(f"{path}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ArchiveError(f"{error.filename}: {error.strerror}") from None
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise ArchiveError(f"{path}: cannot be locked: {error.strerror}") from None
        raise ArchiveError(f"{path}: another kwire archive writes to it; stop that one first") from None


def check_alone(path: str, form: str) -> None:
    """`ArchiveError` if a folder has a table of another format: whoever reads the Parquet files in it would get the
    records of both."""
    for other, name in MARKS.items():
        if other != form and os.path.exists(f"{path}/{name}"):
            raise ArchiveError(f"{path}: has a table of another format ({other}): give another --path")


def forget_unfinished(path: str) -> None:
    """Remove what a process that was killed has left beside a table. OSError."""
    for name in os.listdir(path):
        if name.endswith(ASIDE):
            os.unlink(f"{path}/{name}")


def sync_folder(path: str) -> None:
    """Let new names in a folder outlast a loss of power. OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_columns(found: pa.Schema, where: str) -> None:
    """`ArchiveError` unless a table has all the columns that are written, with their types; it may have more."""
    for field in table_schema():
        index = found.get_field_index(field.name)
        if index < 0:
            raise ArchiveError(
                f"{where}: the table has no column {field.name}, which kwire writes: give another --path"
            )
        if not _alike(found.field(index).type, field.type):
            raise ArchiveError(
                f"{where}: column {field.name} has the type {found.field(index).type}, and kwire writes {field.type}:"
                " give another --path"
            )


def _alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether types differ in no more than widths of lengths and names inside lists."""
    import pyarrow.types as kinds

    texts = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
    blobs = (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view)
    if any(all(any(is_kind(each) for is_kind in family) for each in (one, other)) for family in (texts, blobs)):
        return True
    if (kinds.is_list(one) or kinds.is_large_list(one)) and kinds.is_list(other):
        return _alike(one.value_type, other.value_type)
    if kinds.is_struct(one) and kinds.is_struct(other):
        names = [each.name for each in other]
        return [each.name for each in one] == names and all(
            _alike(one.field(name).type, other.field(name).type) for name in names
        )
    return bool(one == other)
