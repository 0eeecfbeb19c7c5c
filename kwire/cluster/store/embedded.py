"""The embedded metadata store: one SQLite database in the data directory, used by one process.

* WAL mode with ``synchronous=FULL``: a commit survives a power loss once `commit` has returned. Exclusive locking keeps
  the WAL's index in memory; as a mapped file on a full disk it could end the process (SIGBUS).
* A reserve file (`RESERVE_BYTES`) is deleted when the disk is full, so that a broker can still start, report which
  requests it cannot serve, and delete topics.
* All calls run on one thread (an `Executor` with one thread), in the order in which they were made, so the event loop
  never waits for the disk, and results and feed events come back in commit order.
* No Python runs inside a transaction. The checks and writes of a commit are first put into temporary tables, which
  lock nothing; then one statement fires a trigger that compares, writes and counts the revision, in a transaction that
  SQLite itself begins and ends.
* The database's ``user_version`` is the format version; a newer one is refused with a clear message.
* The database's files can be read by their owner only: they hold credentials.

For local file systems only. The data directory's lock admits one process at a time; sessions that an earlier process
left behind are ended when the store is opened. What lives elsewhere: one store for several brokers of a host
(`store.shared`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from kwire.base.doors import Doors, Executor, Files
from kwire.cluster.store.feed import Feed, FeedSubscription, OwnSession
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
PRIVATE: Final = 0o600
"""The permissions of the database's files."""

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
    """The blocking half of the store: everything here runs on the store's thread."""

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
        """Open or create the database. sqlite3.Error, `StoreFormatError`."""
        self._has_reserve = self._files.exists(self._reserve)
        self._with_reserve(self._open)
        self._keep_reserve()

    def _with_reserve(self, work: Callable[[], T]) -> T:
        """Call ``work``, which must be atomic; if the disk is full, delete the reserve and call it again."""
        try:
            return work()
        except sqlite3.Error as error:
            if not (self._has_reserve and _primary_code(error) == sqlite3.SQLITE_FULL):
                raise
        self._files.unlink(self._reserve)
        self._has_reserve = False
        return work()

    def _keep_reserve(self) -> None:
        """Create the reserve if the disk has plenty of space."""
        if self._has_reserve:
            return
        try:
            if self._files.disk_usage(self._path)[1] >= 8 * RESERVE_BYTES:
                write_bytes(self._files, self._reserve, bytes(RESERVE_BYTES))
                self._has_reserve = True
        except OSError:
            pass  # the next commit tries again

    def _keep_private(self) -> None:
        """Only the owner may read the database, because there are credentials in it. SQLite gives its other files the
        permissions of this one."""
        try:
            self._files.close(self._files.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE))
            for path in (self._path, f"{self._path}-wal", f"{self._path}-shm"):
                if self._files.exists(path):
                    self._files.chmod(path, PRIVATE)
        except OSError:
            pass  # another user's file, or a full disk: SQLite finds out whether the file can be used

    def _open(self) -> None:
        self._keep_private()
        # isolation_level=None: the module begins no transactions of its own.
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            self.prepare(connection)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > FORMAT_VERSION:
                raise StoreFormatError(
                    f"{self._path} has format {version}, this kwire supports up to {FORMAT_VERSION}: "
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
        """Settings that must come first. There is only one process, so it locks the database."""
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")

    def opened(self, connection: sqlite3.Connection, *, new: bool) -> None:
        """Called when the tables exist. All sessions belong to an earlier process, so they are ended."""
        if not new and connection.execute("SELECT 1 FROM sessions").fetchone():
            connection.executescript(_END_OLD_SESSIONS)

    def temporary(self, connection: sqlite3.Connection) -> None:
        """Create more temporary tables and triggers."""

    def close(self) -> None:
        """Close the database; harmless if it is closed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        """The revision, and the entries whose keys start with a prefix, in key order."""
        # One statement, so that revision and rows belong to the same state.
        rows = self._db.execute(
            "SELECT counter.revision, key, value, version, created, session FROM counter"
            " LEFT JOIN entries ON key >= ? AND substr(key, 1, ?) = ? ORDER BY key",
            (prefix, len(prefix), prefix),
        ).fetchall()
        return rows[0][0], {key: Entry(*entry) for _, key, *entry in rows if key is not None}

    def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> tuple[int, list[Change]]:
        """Make all writes if all checks hold. Returns the new revision and the changes. `Conflict`, `SessionLost`."""
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
        """The id of a new session."""
        insert = "INSERT INTO sessions (owner) VALUES (?)"
        session = self._with_reserve(lambda: self._db.execute(insert, (owner,)).lastrowid)
        assert session is not None
        return session

    def close_session(self, session: int) -> tuple[int, list[Change]] | None:
        """End a session. Returns the revision and changes of the commit that deleted its keys, None if it had none."""
        db = self._db
        keys = db.execute("SELECT key FROM entries WHERE session = ?", (session,)).fetchall()
        # Without the reserve: the next start, which also ends the session, needs it more.
        result = self._commit((), [Write(key, None) for (key,) in keys]) if keys else None
        db.execute("DELETE FROM sessions WHERE id = ?", (session,))
        return result


class EmbeddedStore:
    """`MetadataStore` on SQLite; ``directory`` is the data directory, locked by the caller. ``on_failure(directory,
    error)`` is called when the disk fails (not when it is full)."""

    def __init__(
        self,
        directory: str,
        doors: Doors,
        *,
        on_failure: Callable[[str, OSError], None],
    ) -> None:
        self._directory = directory
        self._on_failure = on_failure
        self._files = doors.files
        self._executor = Executor(1)
        self._database = Database(f"{directory}/{FILE_NAME}", doors.files)
        self._feed = Feed()
        self._sessions: list[OwnSession] = []

    async def open(self) -> None:
        """See `MetadataStore.open`."""
        self._files.makedirs(self._directory)
        try:
            await self._run(self._database.open)
        except StoreUnavailable as error:  # the path is for the operator, so only this message has it
            raise StoreUnavailable(f"{self._directory}/{FILE_NAME}: {error}") from error

    async def close(self) -> None:
        """See `MetadataStore.close`."""
        for session in self._sessions:
            await session.close()
        self._sessions.clear()
        self._feed.clear()
        await self._run(self._database.close)
        self._executor.close()

    async def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        """See `MetadataStore.read`."""
        return await self._run(lambda: self._database.read(prefix))

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        """See `MetadataStore.commit`."""
        check_commit(checks, writes)
        return await self._publish(lambda: self._database.commit(checks, writes))

    async def open_session(self, owner: str, *, lease_ms: int) -> OwnSession:
        """See `MetadataStore.open_session`. A session lasts as long as the store is open; it is never lost."""
        session = OwnSession(await self._run(lambda: self._database.open_session(owner)), self.end_session)
        self._sessions.append(session)
        return session

    async def end_session(self, session: OwnSession) -> None:
        """End a session and delete its keys (called by `OwnSession.close`)."""
        await self._publish(lambda: self._database.close_session(session.id) or (0, []))

    async def subscribe(self, listener: Listener) -> FeedSubscription:
        """See `MetadataStore.subscribe`."""
        # No event is missed or delivered twice: results come back in order, so the events of commits before this read
        # are published before the read's result arrives.
        revision, entries = await self._run(lambda: self._database.read(""))
        return self._feed.join(listener, entries, revision)

    async def _publish(self, function: Callable[[], tuple[int, list[Change]]]) -> int:
        future = self._executor.run(function)
        # A callback instead of code after the await: the feed must not miss a commit whose caller was cancelled.
        future.add_done_callback(self._committed)
        return (await self._result(future))[0]

    def _committed(self, future: asyncio.Future[tuple[int, list[Change]]]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        revision, changes = future.result()
        if revision:  # also without changes: a caller may wait for the revision
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
        """SQLite has a code for a full disk, but reports an I/O error for some files (shared memory)."""
        code = _primary_code(error)
        if code != sqlite3.SQLITE_IOERR:
            return code == sqlite3.SQLITE_FULL
        try:
            return self._files.disk_usage(self._directory)[1] < LEAST_FREE_BYTES
        except OSError:
            return False


def _primary_code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
