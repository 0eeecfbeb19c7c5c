"""The embedded metadata store: one SQLite database in the data directory, used by one process.

* WAL mode with ``synchronous=FULL``: a commit that was answered survives a power loss. Exclusive locking keeps the
  index of the WAL in memory: as a mapped file on a full disk it would be the end of the process (SIGBUS).
* A reserve of disk space (`RESERVE_BYTES`) is given back when the disk is full, so that a broker can start there, tell
  what it cannot serve, and delete topics.
* All calls run on one thread of its own (an `Executor` with one thread), in the order in which they were made, so the
  event loop never waits for the disk, and results and feed events come back in commit order.
* No Python runs inside a transaction. The checks and writes of a commit are first put into temporary tables, which
  lock nothing; then one statement fires a trigger that compares, writes and counts the revision, and SQLite begins
  and ends the transaction around it by itself.
* The database's ``user_version`` is the format's version: a newer one is refused by name.

Local file systems only. One process at a time, held to that by the data directory's lock: sessions left over by an
earlier process are ended when the store is opened. Several processes on one store (pushes and liveness over a Unix
socket, leases) come with clusters of several brokers; the interface (`kwire.cluster.store.store`) already allows for
them.
"""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from kwire.base.doors import Doors, Executor, Files
from kwire.cluster.store.feed import Feed, OwnSession, Place
from kwire.cluster.store.store import (
    Change,
    Check,
    Conflict,
    Entry,
    Event,
    Listener,
    SessionLost,
    StoreFormatError,
    StoreFull,
    StoreUnavailable,
    Write,
    check_commit,
)
from kwire.log.common.checkpoints import write_bytes

T = TypeVar("T")

FILE_NAME: Final = "kwire-store.sqlite"
FORMAT_VERSION: Final = 1
LEAST_FREE_BYTES: Final = 128 * 1024
RESERVE_BYTES: Final = 256 * 1024

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS entries (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, created INTEGER NOT NULL, session INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS counter (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL);
INSERT OR IGNORE INTO counter VALUES (1, 0);
PRAGMA user_version = 1;
COMMIT;
"""

_END_OLD_SESSIONS = """
BEGIN IMMEDIATE;
UPDATE counter SET revision = revision + 1;
DELETE FROM entries WHERE session IS NOT NULL;
DELETE FROM sessions;
COMMIT;
"""

# One insert into `commits` is one commit. RAISE(ABORT) undoes the whole statement.
_TEMPORARY = """
CREATE TEMP TABLE checks (key TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TEMP TABLE writes (key TEXT PRIMARY KEY, value BLOB, session INTEGER) WITHOUT ROWID;
CREATE TEMP TABLE commits (id INTEGER PRIMARY KEY);
CREATE TEMP TRIGGER do_commit BEFORE INSERT ON commits BEGIN
    SELECT RAISE(ABORT, 'kwire conflict') WHERE EXISTS (
        SELECT 1 FROM checks LEFT JOIN entries ON entries.key = checks.key
        WHERE checks.version <> ifnull(entries.version, 0));
    SELECT RAISE(ABORT, 'kwire session lost') WHERE EXISTS (
        SELECT 1 FROM writes WHERE session IS NOT NULL AND session NOT IN (SELECT id FROM sessions));
    UPDATE counter SET revision = revision + 1;
    DELETE FROM entries WHERE key IN (SELECT key FROM writes WHERE value IS NULL);
    INSERT INTO entries
        SELECT key, value, (SELECT revision FROM counter), (SELECT revision FROM counter), session
        FROM writes WHERE value IS NOT NULL
        ON CONFLICT (key) DO UPDATE
        SET value = excluded.value, version = excluded.version, session = excluded.session;
    SELECT RAISE(IGNORE);
END;
"""


class Database:
    """The blocking half: everything here runs on the store's thread."""

    def __init__(self, path: str, files: Files) -> None:
        self._path = path
        self._files = files
        self._reserve = path.removesuffix(".sqlite") + ".reserve"
        self._has_reserve = False
        self._connection: sqlite3.Connection | None = None

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.ProgrammingError("the metadata store is closed")
        return self._connection

    def open(self) -> None:
        self._has_reserve = self._files.exists(self._reserve)
        self._with_reserve(self._open)
        self._keep_reserve()

    def _with_reserve(self, work: Callable[[], T]) -> T:
        """Do something that is done wholly or not at all; once more where the disk is full and the reserve helps."""
        try:
            return work()
        except sqlite3.Error as error:
            if not (self._has_reserve and _primary_code(error) == sqlite3.SQLITE_FULL):
                raise
        self._files.unlink(self._reserve)
        self._has_reserve = False
        return work()

    def _keep_reserve(self) -> None:
        """Have a reserve, where there is room enough that nobody misses it."""
        if self._has_reserve:
            return
        try:
            if self._files.disk_usage(self._path)[1] >= 8 * RESERVE_BYTES:
                write_bytes(self._files, self._reserve, bytes(RESERVE_BYTES))
                self._has_reserve = True
        except OSError:
            pass  # it will be tried again

    def _open(self) -> None:
        # isolation_level=None: the module begins no transactions of its own.
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            self.prepare(connection)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > FORMAT_VERSION:
                raise StoreFormatError(
                    f"{self._path} has format {version}, this kwire knows up to {FORMAT_VERSION}: "
                    "it was written by a newer kwire"
                )
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA temp_store = MEMORY")
            if version == 0:
                connection.executescript(_SCHEMA)
            self.opened(connection, new=version == 0)
            connection.executescript(_TEMPORARY)
            self.temporary(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Settings that must come before anything else. One process: nobody else may have the database open."""
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")

    def opened(self, connection: sqlite3.Connection, *, new: bool) -> None:
        """The tables are there. One process: whatever sessions there are belong to an earlier one."""
        if not new and connection.execute("SELECT 1 FROM sessions").fetchone():
            connection.executescript(_END_OLD_SESSIONS)

    def temporary(self, connection: sqlite3.Connection) -> None:
        """More temporary tables and triggers."""

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        # One statement, so that revision and rows are of one state.
        rows = self._db.execute(
            "SELECT counter.revision, key, value, version, created, session FROM counter"
            " LEFT JOIN entries ON key >= ? AND substr(key, 1, ?) = ? ORDER BY key",
            (prefix, len(prefix), prefix),
        ).fetchall()
        return rows[0][0], {key: Entry(*entry) for _, key, *entry in rows if key is not None}

    def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> tuple[int, list[Change]]:
        result = self._with_reserve(lambda: self._commit(checks, writes))
        self._keep_reserve()
        return result

    def _commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> tuple[int, list[Change]]:
        db = self._db
        db.execute("DELETE FROM checks")
        db.execute("DELETE FROM writes")
        db.executemany("INSERT INTO checks VALUES (?, ?)", checks)
        db.executemany("INSERT INTO writes VALUES (?, ?, ?)", writes)
        deleted = db.execute(
            "SELECT key FROM writes WHERE value IS NULL AND key IN (SELECT key FROM entries)"
        ).fetchall()
        try:
            db.execute("INSERT INTO commits DEFAULT VALUES")
        except sqlite3.IntegrityError as error:
            raise self._refusal(error) from None
        (revision,) = db.execute("SELECT revision FROM counter").fetchone()
        written = db.execute(
            "SELECT key, value, version, created, session FROM entries WHERE key IN (SELECT key FROM writes)"
        ).fetchall()
        changes = [Change(key, None) for (key,) in deleted]
        changes += [Change(key, Entry(*entry)) for key, *entry in written]
        return revision, changes

    def _refusal(self, error: sqlite3.IntegrityError) -> Exception:
        if "session lost" in str(error):
            return SessionLost()
        row = self._db.execute(
            "SELECT checks.key FROM checks LEFT JOIN entries ON entries.key = checks.key"
            " WHERE checks.version <> ifnull(entries.version, 0)"
        ).fetchone()
        return Conflict(row[0]) if row else error

    def open_session(self, owner: str) -> int:
        insert = "INSERT INTO sessions (owner) VALUES (?)"
        session = self._with_reserve(lambda: self._db.execute(insert, (owner,)).lastrowid)
        assert session is not None
        return session

    def close_session(self, session: int) -> tuple[int, list[Change]] | None:
        db = self._db
        keys = db.execute("SELECT key FROM entries WHERE session = ?", (session,)).fetchall()
        # Not from the reserve: the next start ends the session as well, and needs it more.
        result = self._commit((), [Write(key, None) for (key,) in keys]) if keys else None
        db.execute("DELETE FROM sessions WHERE id = ?", (session,))
        return result


class EmbeddedStore:
    """`MetadataStore` on SQLite; ``directory`` is the data directory, locked by the caller. ``on_failure(directory,
    error)`` hears of a disk that fails (not of a full one)."""

    def __init__(
        self,
        directory: str,
        doors: Doors,
        executor: Executor | None = None,
        *,
        on_failure: Callable[[str, OSError], None] = lambda _directory, _error: None,
    ) -> None:
        self._directory = directory
        self._on_failure = on_failure
        self._files = doors.files
        self._executor = executor or Executor(1)
        self._database = Database(f"{directory}/{FILE_NAME}", doors.files)
        self._feed = Feed()
        self._sessions: list[OwnSession] = []

    async def open(self) -> None:
        self._files.makedirs(self._directory)
        try:
            await self._run(self._database.open)
        except StoreUnavailable as error:  # the path is for whoever starts the broker, not for its clients
            raise StoreUnavailable(f"{self._directory}/{FILE_NAME}: {error}") from error

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()
        self._sessions.clear()
        self._feed.clear()
        await self._run(self._database.close)
        self._executor.close()

    async def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        return await self._run(lambda: self._database.read(prefix))

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        check_commit(checks, writes)
        return await self._publish(lambda: self._database.commit(checks, writes))

    async def open_session(self, owner: str, *, lease_ms: int) -> OwnSession:
        """While there is one process, its session lives exactly as long as the store is open: it is never lost."""
        session = OwnSession(await self._run(lambda: self._database.open_session(owner)), self.end_session)
        self._sessions.append(session)
        return session

    async def end_session(self, session: OwnSession) -> None:
        """Take a session's keys away (called by `OwnSession.close`)."""
        await self._publish(lambda: self._database.close_session(session.id) or (0, []))

    async def subscribe(self, listener: Listener) -> Place:
        # Nothing is missed and nothing doubled: events of commits that the thread did before this read are published
        # before the read's result arrives, because results come back in order.
        revision, entries = await self._run(lambda: self._database.read(""))
        return self._feed.join(listener, entries, revision)

    async def _publish(self, function: Callable[[], tuple[int, list[Change]]]) -> int:
        future = self._executor.run(function)
        # A callback, not code after the await: the feed must not miss a commit whose caller was cancelled.
        future.add_done_callback(self._committed)
        return (await self._result(future))[0]

    def _committed(self, future: asyncio.Future[tuple[int, list[Change]]]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        revision, changes = future.result()
        if revision:  # also without changes: somebody may wait for the revision
            self._feed.publish(Event(changes, revision, consistent=True))

    async def _run(self, function: Callable[[], T]) -> T:
        return await self._result(self._executor.run(function))

    async def _result(self, future: asyncio.Future[T]) -> T:
        try:
            return await asyncio.shield(future)
        except sqlite3.Error as error:
            if self._is_full(error):
                raise StoreFull(str(error)) from error
            if _primary_code(error) == sqlite3.SQLITE_IOERR:
                self._on_failure(self._directory, OSError(errno.EIO, f"the metadata store: {error}", self._directory))
            raise StoreUnavailable(f"{type(error).__name__}: {error}") from error

    def _is_full(self, error: sqlite3.Error) -> bool:
        """SQLite has a code for a full disk, and for some files (shared memory) says I/O error nevertheless."""
        code = _primary_code(error)
        if code != sqlite3.SQLITE_IOERR:
            return code == sqlite3.SQLITE_FULL
        try:
            return self._files.disk_usage(self._directory)[1] < LEAST_FREE_BYTES
        except OSError:
            return False


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
