"""What is particular to the SQLite store: what lasts, and what is refused."""

from __future__ import annotations

import sqlite3

import pytest

from kwire.base.doors import Doors
from kwire.cluster.embedded import FILE_NAME, EmbeddedStore
from kwire.cluster.store import StoreFormatError, StoreUnavailable, Write


async def opened(path):
    store = EmbeddedStore(str(path), Doors())
    await store.open()
    return store


async def test_lasting_keys_survive_a_restart_and_ephemeral_ones_of_a_dead_process_do_not(tmp_path):
    store = await opened(tmp_path)
    session = await store.open_session("broker 1", lease_ms=9000)
    first = await store.commit([], [Write("a", b"1"), Write("brokers/1", b"", session.id)])
    # The process dies: no close. (The connection of the dead process does not matter to SQLite's WAL.)
    again = await opened(tmp_path)
    revision, entries = await again.read("")
    assert entries == {"a": (b"1", first, first, None)}
    assert revision > first
    await again.close()
    await store.close()


async def test_a_store_of_a_newer_kwire_is_refused_by_name(tmp_path):
    await (await opened(tmp_path)).close()
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreFormatError, match="newer kwire"):
        await opened(tmp_path)


async def test_a_file_that_is_no_database_is_an_error_of_the_store(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"x" * 5000)
    with pytest.raises(StoreUnavailable, match=f"{FILE_NAME}.*database"):
        await opened(tmp_path)


async def test_a_closed_store_answers_with_its_own_error(tmp_path):
    store = await opened(tmp_path)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.read("")
