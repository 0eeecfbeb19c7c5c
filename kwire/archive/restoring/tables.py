"""A table that is to be read back: which topic it is of, and its files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote

from kwire.archive.errors import ArchiveError
from kwire.archive.identity import Identity


class Table(NamedTuple):
    """``files``: Parquet files of this machine, in any order."""

    where: str
    identity: Identity
    files: Sequence[str]


def open_table(path: str, catalog: str | None, name: str | None) -> Table:
    """The table in a folder, of whichever format; of Iceberg also one in a catalog. `ArchiveError`."""
    if catalog is not None or (os.path.isdir(f"{path}/metadata") and os.path.exists(f"{path}/catalog.db")):
        return _iceberg(path, catalog, name)
    if "://" in path:
        raise ArchiveError(f"{path}: restore reads tables of this machine: copy it here first")
    if not os.path.isdir(path):
        raise ArchiveError(f"{path}: there is no such folder")
    if os.path.isdir(f"{path}/_delta_log"):
        return _delta(path)
    return _parquet(path)


def _parquet(path: str) -> Table:
    from kwire.archive.targets.parquet import DESCRIPTION, data_files, described

    try:
        if not os.path.exists(f"{path}/{DESCRIPTION}"):
            raise ArchiveError(f"{path}: no table of kwire archive: it has no {DESCRIPTION}, _delta_log or catalog.db")
        return Table(path, described(path), [each.path for each in data_files(path)])
    except OSError as error:
        raise ArchiveError(f"{error.filename}: {error.strerror}") from None


def _delta(path: str) -> Table:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    from kwire.archive.targets.delta import check_path

    check_path(path)
    try:
        table = DeltaTable(path)
        configuration = table.metadata().configuration
        features = [*(table.protocol().reader_features or ())]
        files = table.file_uris()
    except (DeltaError, OSError) as error:
        raise ArchiveError(f"{path}: {error}") from None
    if features or configuration.get("delta.columnMapping.mode", "none") != "none":
        raise ArchiveError(
            f"{path}: the table has features that kwire does not read ({', '.join(features)}): write a copy"
        )
    return Table(path, Identity.of(configuration, path), [_local(each) for each in files])


def _iceberg(path: str, catalog: str | None, name: str | None) -> Table:
    from pyiceberg.exceptions import NoSuchTableError, RESTError
    from sqlalchemy.exc import SQLAlchemyError

    from kwire.archive.targets.iceberg import NAMESPACE, open_catalog, table_name

    try:
        opened = open_catalog(path, catalog)
        if name is not None:
            found = table_name(name, "")
        else:
            there = opened.list_tables(NAMESPACE)
            if len(there) != 1:
                names = ", ".join(".".join(each) for each in there)
                raise ArchiveError(f"{path}: has {len(there)} tables ({names}): name one with --table")
            found = there[0]
        table = opened.load_table(found)
        tasks = list(table.scan().plan_files())
    except (RESTError, SQLAlchemyError, NoSuchTableError, OSError) as error:
        raise ArchiveError(f"{path}: {error}") from None
    if any(each.delete_files for each in tasks):
        raise ArchiveError(f"{path}: some rows are deleted in files of their own: rewrite the table's files first")
    return Table(path, Identity.of(table.properties, path), [_local(each.file.file_path) for each in tasks])


def _local(url: str) -> str:
    """The path of a file; Delta's library writes some characters of it as in a URL."""
    path = url.removeprefix("file://")
    if "://" in path:
        raise ArchiveError(f"{url}: restore reads files of this machine: copy the table here first")
    return path if os.path.exists(path) else unquote(path)
