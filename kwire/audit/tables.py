"""Files of tables: Parquet, as Spark writes it (with its log of committed files, if there is one), and Delta."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote, urlparse

from kwire.audit.ends import TableEnd
from kwire.audit.errors import AuditError

_SPARK_LOG: Final = "_spark_metadata"
_HIDDEN: Final = ("_", ".")


def table_files(table: TableEnd) -> list[str]:
    """The Parquet files that a table has now, sorted. `AuditError` if there is no table."""
    if table.kind == "delta":
        return _delta_files(table)
    if os.path.isfile(table.path):
        return [table.path]
    if not os.path.isdir(table.path):
        raise AuditError(f"{table.path}: there is no such file or folder")
    committed = _spark_files(table.path)
    found = sorted(_files_below(table.path) if committed is None else committed)
    if not found and committed is None:
        raise AuditError(f"{table.path}: no Parquet file lies in it")
    return found


def _files_below(folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(_HIDDEN)]
        yield from (os.path.join(place, each) for each in files if not each.startswith(_HIDDEN))


def _spark_files(folder: str) -> set[str] | None:
    """The files that a streaming query of Spark has committed: those of attempts that were given up lie beside them.
    None if the folder has no such log."""
    log = os.path.join(folder, _SPARK_LOG)
    if not os.path.isdir(log):
        return None
    batches = {}
    for name in os.listdir(log):
        digits, dot, kind = name.partition(".")
        if digits.isdecimal() and (not dot or kind == "compact"):
            batches[int(digits), bool(dot)] = os.path.join(log, name)
    compacted = max((number for number, is_compact in batches if is_compact), default=-1)
    found: set[str] = set()
    for (number, is_compact), path in sorted(batches.items()):
        if number > compacted or (number == compacted and is_compact):
            _apply(path, folder, found)
    return found


def _apply(path: str, folder: str, found: set[str]) -> None:
    with open(path, encoding="utf-8") as file:
        version, *lines = file.read().splitlines() or [""]
    if version != "v1":
        raise AuditError(f"{path}: a log of Spark of version {version!r}, and v1 is understood")
    try:
        for line in lines:
            entry = json.loads(line)
            name = _local(unquote(urlparse(entry["path"]).path), folder)
            if entry["action"] == "delete":
                found.discard(name)
            else:
                found.add(name)
    except (ValueError, KeyError, TypeError) as error:
        raise AuditError(f"{path}: not a log of Spark: {error}") from None


def _local(path: str, folder: str) -> str:
    """A committed file where the folder is now: it may have been moved since."""
    if os.path.exists(path) or os.path.basename(os.path.normpath(folder)) not in path:
        return path
    return os.path.join(folder, path.rpartition(f"/{os.path.basename(os.path.normpath(folder))}/")[2])


def _delta_files(table: TableEnd) -> list[str]:
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise AuditError("tables of Delta Lake need the library deltalake: pip install deltalake") from None
    if not os.path.isdir(os.path.join(table.path, "_delta_log")):
        raise AuditError(f"{table.path}: no table of Delta Lake, it has no _delta_log")
    found = DeltaTable(table.path)
    vectors = [each for each in found.get_add_actions(flatten=True).schema.names if each.startswith("deletionVector")]
    if vectors and any(_values(found, name) for name in vectors):
        raise AuditError(f"{table.path}: it has deletion vectors: run REORG TABLE … APPLY (PURGE) first")
    return sorted(unquote(urlparse(each).path) for each in found.file_uris())


def _values(table: object, name: str) -> list[object]:
    actions = table.get_add_actions(flatten=True)  # type: ignore[attr-defined] # deltalake is imported above only
    return [each for each in actions.column(name).to_pylist() if each]
