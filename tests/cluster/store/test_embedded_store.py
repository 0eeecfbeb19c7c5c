"""The SQLite store: restarts, formats, and disk failures."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from kwire.base.doors import Doors
from kwire.cluster.store.embedded import FILE_NAME, RESERVE_BYTES, EmbeddedStore
from kwire.cluster.store.store import Change, Check, StoreFormatError, StoreFull, StoreUnavailable, Write


async def opened(path: Path) -> EmbeddedStore:
    store = EmbeddedStore(str(path), Doors(), on_failure=lambda _directory, _error: None)
    await store.open()
    return store


async def test_lasting_keys_survive_a_restart_and_ephemeral_ones_of_a_dead_process_do_not(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    session = await store.open_session("broker 1", lease_ms=9000)
    first = await store.commit([], [Write("a", b"1"), Write("brokers/1", b"", session.id)])
    await store._run(store._database.close)  # the process dies: its session is not closed
    again = await opened(tmp_path)
    revision, entries = await again.read("")
    assert entries == {"a": (b"1", first, first, None)}
    assert revision > first
    await again.close()
    store._executor.close()


async def test_a_store_of_a_newer_kwire_is_refused(tmp_path: Path) -> None:
    await (await opened(tmp_path)).close()
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreFormatError, match="newer kwire"):
        await opened(tmp_path)


async def test_a_file_that_is_not_a_database_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"x" * 5000)
    with pytest.raises(StoreUnavailable, match=f"{FILE_NAME}.*database"):
        await opened(tmp_path)


def modes(path: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.glob(f"{FILE_NAME}*")}


async def test_only_the_owner_can_read_the_store(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.commit([], [Write("scram/1/alice", b"salted")])
    assert modes(tmp_path) == {FILE_NAME: 0o600, f"{FILE_NAME}-wal": 0o600}
    await store.close()


async def test_the_store_of_an_older_kwire_becomes_private(tmp_path: Path) -> None:
    await (await opened(tmp_path)).close()
    (tmp_path / FILE_NAME).chmod(0o644)
    await (await opened(tmp_path)).close()
    assert modes(tmp_path) == {FILE_NAME: 0o600}


async def test_a_closed_store_raises_a_store_error(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.read("")


class Full(sqlite3.OperationalError):
    sqlite_errorcode = sqlite3.SQLITE_FULL


async def test_a_full_disk_is_reported_when_the_reserve_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path)
    reserve = tmp_path / "kwire-store.reserve"
    assert reserve.stat().st_size == RESERVE_BYTES
    real = store._database._commit

    def commit_with_reserve_gone(checks: Sequence[Check], writes: Sequence[Write]) -> tuple[int, list[Change]]:
        if reserve.exists():
            raise Full("database or disk is full")
        return real(checks, writes)

    monkeypatch.setattr(store._database, "_commit", commit_with_reserve_gone)
    await store.commit([], [Write("a", b"1")])
    assert reserve.exists()  # there is space again, so it was created again

    def never(checks: Sequence[Check], writes: Sequence[Write]) -> None:
        raise Full("database or disk is full")

    monkeypatch.setattr(store._database, "_commit", never)
    with pytest.raises(StoreFull):
        await store.commit([], [Write("b", b"1")])
    assert not reserve.exists()
    monkeypatch.setattr(store._database, "_commit", real)
    _, entries = await store.read("")
    assert list(entries) == ["a"]
    await store.close()


async def test_a_disk_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[str] = []
    store = EmbeddedStore(str(tmp_path), Doors(), on_failure=lambda directory, error: failures.append(str(error)))
    await store.open()

    class Failing(sqlite3.OperationalError):
        sqlite_errorcode = sqlite3.SQLITE_IOERR | (3 << 8)  # SQLITE_IOERR_WRITE

    def fail(prefix: str) -> None:
        raise Failing("disk I/O error")

    monkeypatch.setattr(store._database, "read", fail)
    with pytest.raises(StoreUnavailable, match="disk I/O error"):
        await store.read("")
    assert len(failures) == 1
    assert "the metadata store: disk I/O error" in failures[0]
    await store.close()
