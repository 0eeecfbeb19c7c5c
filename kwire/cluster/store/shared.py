"""`SharedStore`: the embedded metadata store, shared by several brokers of one host.

The database is that of `embedded`, in a directory that all brokers name (`kwire.metadata.dir`); every process opens it
by itself. What this needs beyond one process:

* A deleted key leaves a row with its revision, so that every process can read what changed since it last read. After a
  commit the other processes are notified (`presence`); the changes themselves are always read from the database, in one
  transaction, so they are complete and in order even if a notification is lost.
* The first process that finds the owner of a session dead, or silent for its lease, ends the session in one statement,
  which deletes its keys and counts the revision. The owner of that session learns of it with the next changes it reads,
  or when a commit of its own is refused, and is fenced.
* No process holds the database for longer than a statement. A process that is paused inside a statement blocks commits,
  but not reads, until it resumes.

For local file systems only, because it relies on the locks of SQLite and the operating system.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kwire.base.doors import Executor
from kwire.base.logging import get_logger
from kwire.cluster.store.embedded import FILE_NAME, Database
from kwire.cluster.store.feed import Feed, FeedSubscription, OwnSession
from kwire.cluster.store.presence import Presence, SessionFiles
from kwire.cluster.store.store import (
    Change,
    Check,
    Entry,
    Event,
    Listener,
    SessionLost,
    StoreUnavailable,
    Write,
    check_commit,
)

if TYPE_CHECKING:
    from kwire.base.doors import Doors, Files

T = TypeVar("T")

BUSY_S: Final = 5.0
"""How long a statement waits for a statement of another process."""

OPEN_ATTEMPTS: Final = 50
OPEN_AGAIN_S: Final = 0.1

_logger = get_logger("kwire.cluster.store")

_SHARED_SCHEMA = """
CREATE TABLE IF NOT EXISTS deletions (key TEXT PRIMARY KEY, revision INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entries_by_version ON entries (version);
CREATE INDEX IF NOT EXISTS deletions_by_revision ON deletions (revision);
"""

_SHARED_TEMPORARY = """
CREATE TEMP TABLE ends (session INTEGER PRIMARY KEY);
CREATE TEMP TRIGGER note_deleted BEFORE DELETE ON main.entries BEGIN
    INSERT OR REPLACE INTO deletions VALUES (old.key, (SELECT revision FROM counter));
END;
CREATE TEMP TRIGGER note_written BEFORE INSERT ON main.entries BEGIN
    DELETE FROM deletions WHERE key = new.key;
END;
CREATE TEMP TRIGGER do_end BEFORE INSERT ON ends BEGIN
    SELECT RAISE(IGNORE) WHERE new.session NOT IN (SELECT id FROM sessions);
    UPDATE counter SET revision = revision + 1;
    DELETE FROM sessions WHERE id = new.session;
    DELETE FROM entries WHERE session = new.session;
    SELECT RAISE(IGNORE);
END;
"""


class News(NamedTuple):
    """The changes since the last read, and the open sessions."""

    revision: int
    changes: list[Change]
    sessions: list[int]


class SharedDatabase(Database):
    """The blocking half of the store: everything here runs on the store's thread."""

    def __init__(self, path: str, files: Files) -> None:
        super().__init__(path, files)
        self.seen = 0
        """The revision up to which changes have been read."""

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Other processes use the database, too: wait for their statements."""
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")

    def opened(self, connection: sqlite3.Connection, *, new: bool) -> None:
        """Create the tables that only a shared store has; sessions may belong to live processes."""
        connection.executescript(_SHARED_SCHEMA)

    def temporary(self, connection: sqlite3.Connection) -> None:
        """Create the triggers that record deletions and end sessions."""
        connection.executescript(_SHARED_TEMPORARY)

    def news(self) -> News:
        """The changes since the last call, read in one transaction, so that they belong to the same state."""
        db = self._db
        db.execute("BEGIN")
        try:
            (revision,) = db.execute("SELECT revision FROM counter").fetchone()
            changes = [
                Change(key, None)
                for (key,) in db.execute("SELECT key FROM deletions WHERE revision > ?", (self.seen,)).fetchall()
            ]
            written = db.execute(
                "SELECT key, value, version, created, session FROM entries WHERE version > ?", (self.seen,)
            ).fetchall()
            sessions = [session for (session,) in db.execute("SELECT id FROM sessions ORDER BY id").fetchall()]
        finally:
            db.execute("COMMIT")
        self.seen = revision
        changes += [Change(key, Entry(*entry)) for key, *entry in written]
        return News(revision, changes, sessions)

    def write(self, checks: Sequence[Check], writes: Sequence[Write]) -> tuple[int, News]:
        """Commit, and return the revision with all changes up to it."""
        revision, _ = self.commit(checks, writes)
        return revision, self.news()

    def open_claimed_session(self, owner: str, claim: Callable[[int], None]) -> int:
        """A new session, which other processes see only after ``claim(session)``. OSError of ``claim``, StoreError."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            session = self.open_session(owner)
            claim(session)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk has ended it
                self._db.execute("ROLLBACK")
            raise
        return session

    def end(self, session: int) -> None:
        """End a session and delete its keys; no error if it has ended."""
        self._db.execute("INSERT INTO ends VALUES (?)", (session,))

    def sessions(self) -> list[int]:
        """The ids of all open sessions."""
        return [session for (session,) in self._db.execute("SELECT id FROM sessions").fetchall()]


class SharedSession(OwnSession):
    """A session of this process. Other processes may end it."""

    def __init__(self, store: SharedStore, session_id: int, presence: Presence) -> None:
        super().__init__(session_id, store.end_session)
        self.presence = presence

    @property
    def alive(self) -> bool:
        """Whether the other processes must still regard the session as open."""
        return self._alive and self.presence.proven

    def lost(self) -> None:
        """Another process has ended the session: give up its lock, too."""
        if self._alive:
            self.presence.close()
        super().lost()


class SharedStore:
    """`MetadataStore` on SQLite in ``directory``, which other processes of this host use, too."""

    def __init__(self, directory: str, doors: Doors) -> None:
        self._directory = directory
        self._doors = doors
        self._executor = Executor(1)
        self._database = SharedDatabase(f"{directory}/{FILE_NAME}", doors.files)
        self._session_files = SessionFiles(directory, doors.files)
        self._feed = Feed()
        self._sessions: dict[int, SharedSession] = {}
        self._reading = False
        self._read_again = False
        self._published = 0
        self._tasks: dict[asyncio.Future[None], None] = {}

    async def open(self) -> None:
        """See `MetadataStore.open`; also ends the sessions of dead processes."""
        self._doors.files.makedirs(self._directory)
        try:
            await self._open_database()
            await self._run(self._end_dead_sessions)
        except StoreUnavailable as error:  # the path is for the operator, so only this message has it
            raise StoreUnavailable(f"{self._directory}/{FILE_NAME}: {error}") from error

    async def _open_database(self) -> None:
        """If several processes create the database at the same time, SQLite refuses all but one: try again."""
        for attempt in range(OPEN_ATTEMPTS):
            try:
                await self._run(self._database.open)
            except StoreUnavailable as error:
                if "locked" not in str(error) or attempt == OPEN_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(OPEN_AGAIN_S)
            else:
                return

    def _end_dead_sessions(self) -> None:
        for session in self._database.sessions():
            if self._session_files.is_dead(session):
                self._database.end(session)
                self._session_files.forget(session)

    async def close(self) -> None:
        """See `MetadataStore.close`."""
        for session in list(self._sessions.values()):
            await session.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._feed.clear()
        await self._run(self._database.close)
        self._executor.close()

    async def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        """See `MetadataStore.read`."""
        return await self._run(lambda: self._database.read(prefix))

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        """See `MetadataStore.commit`."""
        check_commit(checks, writes)
        future = self._executor.run(self._database.write, checks, writes)
        future.add_done_callback(self._committed)  # also when the caller is cancelled
        try:
            return (await self._result(future))[0]
        except SessionLost:
            self._read_news()  # which finds that the session is missing
            raise

    def _committed(self, future: asyncio.Future[tuple[int, News]]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        self._publish(future.result()[1])
        self._notify_others()

    # -- the feed ------------------------------------------------------------------------------------------------------

    async def subscribe(self, listener: Listener) -> FeedSubscription:
        """See `MetadataStore.subscribe`."""
        revision, entries = await self._run(self._snapshot)
        return self._feed.join(listener, entries, revision)

    def _snapshot(self) -> tuple[int, dict[str, Entry]]:
        revision, entries = self._database.read("")
        if self._feed.is_empty:
            self._database.seen = revision
        return revision, entries

    def _read_news(self) -> None:
        """Read the changes; calls that arrive meanwhile cause one more read."""
        if self._reading:
            self._read_again = True
            return
        self._reading = True
        future = self._executor.run(self._database.news)
        future.add_done_callback(self._news_read)

    def _news_read(self, future: asyncio.Future[News]) -> None:
        self._reading = False
        if not future.cancelled():
            error = future.exception()
            if error is None:
                self._publish(future.result())
            elif not isinstance(error, sqlite3.ProgrammingError):  # that one means that the store is closed
                _logger.warning("changes in the metadata store cannot be read", error=str(error))
                asyncio.get_running_loop().call_later(0.2, self._read_news)
        if self._read_again:
            self._read_again = False
            self._read_news()

    def _publish(self, news: News) -> None:
        if news.revision > self._published:  # also without changes: a caller may wait for the revision
            self._published = news.revision
            self._feed.publish(Event(news.changes, news.revision, consistent=True))
        for session in list(self._sessions.values()):
            if session.id in news.sessions:
                session.presence.prove()
                session.presence.watch([each for each in news.sessions if each not in self._sessions])
            else:
                del self._sessions[session.id]
                session.lost()

    def _notify_others(self) -> None:
        for session in self._sessions.values():
            session.presence.notify()

    # -- sessions ------------------------------------------------------------------------------------------------------

    async def open_session(self, owner: str, *, lease_ms: int) -> SharedSession:
        """See `MetadataStore.open_session`."""
        presence = Presence(self._directory, self._doors, self._read_news, self._end_other)
        try:
            session_id = await self._run(lambda: self._database.open_claimed_session(owner, presence.claim))
            await presence.open(lease_ms)
        except OSError as error:
            presence.close()
            raise StoreUnavailable(f"{self._directory}: {error}") from error
        session = self._sessions[session_id] = SharedSession(self, session_id, presence)
        self._read_news()
        return session

    async def end_session(self, session: SharedSession) -> None:
        """End a session of this process (called by `SharedSession.close`)."""
        try:
            await self._run(lambda: self._database.end(session.id))
            self._sessions.pop(session.id, None)
            self._publish(await self._run(self._database.news))
            session.presence.notify()
            self._notify_others()
            await asyncio.sleep(0)  # so that the notifications are sent
        finally:
            session.presence.close()

    def _end_other(self, session_id: int) -> None:
        task = asyncio.ensure_future(self._end(session_id))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _end(self, session_id: int) -> None:
        try:
            await self._run(lambda: self._database.end(session_id))
        except StoreUnavailable as error:
            _logger.warning("a lost session cannot be ended", session=session_id, error=str(error))
            await asyncio.sleep(0.2)
            self._end_other(session_id)
            return
        self._read_news()
        if self._sessions and self._session_files.is_dead(session_id):
            self._session_files.forget(session_id)
        self._notify_others()

    # -- internals -----------------------------------------------------------------------------------------------------

    async def _run(self, function: Callable[[], T]) -> T:
        return await self._result(self._executor.run(function))

    async def _result(self, future: asyncio.Future[T]) -> T:
        try:
            return await asyncio.shield(future)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"{type(error).__name__}: {error}") from error
