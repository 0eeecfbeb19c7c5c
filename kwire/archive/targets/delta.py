"""A Delta table. A commit has the records and, as Delta's application transactions, the next offset of each partition;
what is committed stays known when the log of the table is made shorter (they are in its checkpoints)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from kwire.archive.errors import ArchiveError, Conflict
from kwire.archive.identity import Identity
from kwire.archive.portions import Portion, StagedFile
from kwire.archive.rows import table_schema
from kwire.archive.targets.target import ASIDE, check_alone, check_columns, forget_unfinished, locked

_TRIES: Final = 5
_UNUSABLE: Final = '%[]{}<>^|`"\\'


class DeltaTarget:
    """A Delta table of one topic."""

    def __init__(self, table: DeltaTable, where: str, partitions: int) -> None:
        self._table = table
        self._where = where
        self._partitions = partitions

    @classmethod
    @contextmanager
    def opened(cls, path: str, identity: Identity) -> Iterator[DeltaTarget]:
        """The table for a topic, made if need be. `ArchiveError`."""
        check_path(path)
        with nullcontext() if "://" in path else locked(path):
            with _as_archive_errors(path):
                if "://" not in path:
                    check_alone(path, "delta")
                    forget_unfinished(path)
                table = _opened(path, identity)
                known = Identity.of(table.metadata().configuration, path)
            yield cls(table, path, max(known.partitions, identity.partitions))

    def positions(self) -> Mapping[int, int]:
        """What the table's application transactions say."""
        versions = {number: self._table.transaction_version(_application(number)) for number in range(self._partitions)}
        return {number: version for number, version in versions.items() if version is not None}

    def commit(self, portions: Sequence[Portion]) -> None:
        """One commit. If somebody else has changed the table, but no offsets (OPTIMIZE, VACUUM), it is tried again."""
        rows = pa.Table.from_batches([batch for each in portions for batch in each.rows], table_schema())
        self._commit({each.partition: each.end for each in portions}, lambda how: self._append(rows, how))

    def adopt(self, staged: Sequence[StagedFile]) -> None:
        """One commit with files that others have written into the table's folder."""
        now_ms = time.time_ns() // 1_000_000
        names = {each.path: os.path.basename(each.path).removesuffix(ASIDE) for each in staged if each.rows}
        actions: list[AddAction | RemoveAction] = [
            AddAction(names[each.path], each.size, {}, now_ms, True, json.dumps({"numRecords": each.rows}))
            for each in staged
            if each.rows
        ]
        with _as_archive_errors(self._where):
            for path, name in names.items():
                os.replace(path, f"{self._where}/{name}")
            schema = self._table.schema()
        self._commit(
            {each.partition: each.end for each in staged},
            lambda how: self._table.create_write_transaction(actions, "append", schema, commit_properties=how),
        )

    def _commit(self, ends: Mapping[int, int], write: Callable[[CommitProperties], None]) -> None:
        before = self.positions()
        done = [Transaction(_application(partition), end) for partition, end in ends.items()]
        properties = CommitProperties(app_transactions=done, max_commit_retries=0)
        for _ in range(_TRIES):
            try:
                with _as_archive_errors(self._where):
                    write(properties)
                self._partitions = max(self._partitions, *(each + 1 for each in ends))
                return
            except CommitFailedError:
                with _as_archive_errors(self._where):
                    self._table.update_incremental()
                if self.positions() != before:
                    raise Conflict(f"{self._where}: another archiver writes to this table; stop one of them") from None
        raise Conflict(f"{self._where}: the table is changed by others all the time; run the command again")

    def _append(self, rows: pa.Table, properties: CommitProperties) -> None:
        write_deltalake(
            self._table,
            rows,
            mode="append",
            commit_properties=properties,
            writer_properties=WriterProperties(compression="ZSTD"),
            schema_mode="merge",  # a column that somebody has added is NULL
        )


def check_path(path: str) -> None:
    """`ArchiveError` for a folder that the library deltalake (up to 1.6 at least) would look for under another name."""
    wrong = [] if "://" in path else [each for each in os.path.abspath(path) if each in _UNUSABLE]
    if wrong:
        raise ArchiveError(
            f"{path}: the library deltalake cannot use a folder with {wrong[0]} in its name: give another"
        )


def _application(partition: int) -> str:
    return f"kwire-archive-{partition}"


def _opened(path: str, identity: Identity) -> DeltaTable:
    if not DeltaTable.is_deltatable(path):
        return DeltaTable.create(
            path,
            table_schema(),
            name=identity.topic,
            description=f"Topic {identity.topic}, archived by kwire",
            configuration=identity.properties(),
            raise_if_key_not_exists=False,
        )
    table = DeltaTable(path)
    known = Identity.of(table.metadata().configuration, path)
    known.check(identity, path)
    check_columns(pa.schema(table.schema().to_arrow()), path)
    if known.partitions < identity.partitions:
        table.alter.set_table_properties(identity.properties(), raise_if_not_exists=False)
    return table


@contextmanager
def _as_archive_errors(where: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, OSError) as error:
        raise ArchiveError(f"{where}: {error}") from None
