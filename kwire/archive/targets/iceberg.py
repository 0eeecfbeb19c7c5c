"""An Iceberg table. The summary of each snapshot has, beside Iceberg's own numbers, the next offset of each partition.

Who rolls the table back to an older snapshot rolls back the offsets with it. Snapshots that others have written
(compaction, deletions) have none: then the nearest one before them counts, and when all those are expired, the table's
properties, which the same commits write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    RESTError,
    ValidationError,
)
from pyiceberg.table import TableProperties
from sqlalchemy.exc import SQLAlchemyError

from kwire.archive.errors import ArchiveError, Conflict
from kwire.archive.identity import Identity
from kwire.archive.portions import Portion
from kwire.archive.rows import table_schema
from kwire.archive.targets.target import MARKS, check_alone, check_columns, locked

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

CATALOG: Final = "default"
"""The name of the catalog in a table's folder; pyiceberg finds tables under the name that made them only."""
NAMESPACE: Final = "kwire"
CATALOG_FILE: Final = MARKS["iceberg"]
_OFFSETS: Final = "kwire.offsets"
_TRIES: Final = 5
_SETTINGS: Final = {
    TableProperties.COMMIT_NUM_RETRIES: "0",  # pyiceberg would add the records once more, whoever has added them
    TableProperties.PARQUET_COMPRESSION: "zstd",
}


_FAILURES: Final = (
    OSError,
    RESTError,
    SQLAlchemyError,
    ValidationError,
    CommitStateUnknownException,
    NoSuchTableError,
)


class IcebergTarget:
    """An Iceberg table of one topic."""

    def __init__(self, table: Table, where: str) -> None:
        self._table = table
        self._where = where

    @classmethod
    @contextmanager
    def opened(
        cls, path: str | None, identity: Identity, catalog: str | None, name: str | None
    ) -> Iterator[IcebergTarget]:
        """The table for a topic, made if need be: in a catalog of pyiceberg's configuration, or in one that lies in the
        table's own folder. ``name``: NAMESPACE.TABLE. `ArchiveError`."""
        where = path or f"catalog {catalog}"
        with nullcontext() if path is None or "://" in path else locked(path):
            with _as_archive_errors(where):
                if path is not None and "://" not in path:
                    check_alone(path, "iceberg")
                table = _opened(open_catalog(path, catalog), path, identity, table_name(name, identity.topic))
            yield cls(table, where)

    def positions(self) -> Mapping[int, int]:
        """What the newest snapshot with offsets says, or the table's properties."""
        text = offsets_text(self._table)
        if text is None:
            return {}
        try:
            return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
        except (ValueError, AttributeError, TypeError):
            raise ArchiveError(f"{self._where}: damaged: {_OFFSETS}={text}") from None

    def commit(self, portions: Sequence[Portion]) -> None:
        """One snapshot. If somebody else has changed the table, but no offsets (compaction), it is tried again."""
        before = self.positions()
        rows = pa.Table.from_batches([batch for each in portions for batch in each.rows], table_schema())
        text = json.dumps({**before, **{each.partition: each.end for each in portions}})
        for _ in range(_TRIES):
            try:
                with _as_archive_errors(self._where), self._table.transaction() as transaction:
                    transaction.set_properties({_OFFSETS: text})
                    transaction.append(rows, snapshot_properties={_OFFSETS: text})
                return
            except CommitFailedException:
                with _as_archive_errors(self._where):
                    self._table.refresh()
                if self.positions() != before:
                    raise Conflict(f"{self._where}: another archiver writes to this table; stop one of them") from None
        raise Conflict(f"{self._where}: the table is changed by others all the time; run the command again")


def offsets_text(table: Table) -> str | None:
    """The offsets of a table as its newest commit by kwire has them."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return None
    while snapshot is not None:
        found = snapshot.summary and snapshot.summary.get(_OFFSETS)
        if found is not None:
            return str(found)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return table.properties.get(_OFFSETS)  # kwire's first snapshot was expired


def table_name(given: str | None, topic: str) -> tuple[str, ...]:
    """Namespace and name. `ArchiveError`."""
    if given is None:
        return (NAMESPACE, topic)
    *namespace, name = given.split(".")
    if not namespace or not name or not all(namespace):
        raise ArchiveError(f"--table {given}: not NAMESPACE.TABLE")
    return (*namespace, name)


def open_catalog(path: str | None, name: str | None) -> Catalog:
    """A catalog of pyiceberg's configuration, or the one in a table's folder."""
    if name is not None:
        try:
            return load_catalog(name)
        except ValueError as error:
            raise ArchiveError(f"catalog {name}: {error}") from None
    if path is None or "://" in path:
        raise ArchiveError(f"{path}: a table in a store needs a catalog: --catalog NAME of pyiceberg's configuration")
    from pyiceberg.catalog.sql import SqlCatalog

    folder = os.path.abspath(path)
    return SqlCatalog(
        CATALOG, uri=f"sqlite:///file:{quote(folder)}/{CATALOG_FILE}?uri=true", warehouse=f"file://{folder}"
    )


def _opened(catalog: Catalog, path: str | None, identity: Identity, name: tuple[str, ...]) -> Table:
    try:
        table = catalog.load_table(name)
    except NoSuchTableError:
        catalog.create_namespace_if_not_exists(name[:-1])
        return catalog.create_table(
            name,
            table_schema(),
            location=None if path is None else path if "://" in path else f"file://{os.path.abspath(path)}",
            properties={**identity.properties(), **_SETTINGS},
        )
    where = ".".join(name)
    known = Identity.of(table.properties, where)
    known.check(identity, path or where)
    check_columns(table.schema().as_arrow(), path or where)
    wanted = {**identity.properties(), **_SETTINGS}
    if known.partitions > identity.partitions:
        wanted["kwire.partitions"] = str(known.partitions)
    if any(table.properties.get(key) != value for key, value in wanted.items()):
        with table.transaction() as transaction:
            transaction.set_properties(wanted)
    return table


@contextmanager
def _as_archive_errors(where: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedException:
        raise
    except _FAILURES as error:
        raise ArchiveError(f"{where}: {error}") from None
