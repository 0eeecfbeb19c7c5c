"""The embedded metadata store when several brokers of one host share it: SQLite, with presence beside it.

The database is that of `embedded`, in a directory that all brokers name (`kwire.metadata.dir`), opened by every process
on its own. What that needs beyond one process:

* Deleted keys leave a note with their revision, so that everybody can read what changed since it last looked. After
  each commit the others are told that there is news (`presence`); the news itself is always read from the database, in
  one statement, so it is complete and in order whatever was told or not.
* A session ends in one statement, which takes its keys away and counts the revision, by whoever finds first that its
  process is dead or has been silent for its lease. The owner of a session that others ended finds out with the next
  news, or when a commit of its own is refused, and is fenced.
* Nobody holds the database for longer than a statement. A process that is paused inside one holds up changes, not
  reads, until it goes on.

Local file systems only: SQLite's and the operating system's locks are what all of it rests on.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kwire.base.doors import Executor
from kwire.base.logging import get_logger
from kwire.cluster.store.embedded import FILE_NAME, Database
from kwire.cluster.store.feed import Feed, OwnSession, Place
from kwire.cluster.store.presence import Presence
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
    from kwire.base.doors import Doors

T = TypeVar("T")

BUSY_S: Final = 5.0
"""How long a statement waits for another process's."""

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
    """What changed since the last look, and the sessions that there are."""

    revision: int
    changes: list[Change]
    sessions: list[int]


class SharedDatabase(Database):
    """The blocking half: everything here runs on the store's thread."""

    seen = 0

    def prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")

    def opened(self, connection: sqlite3.Connection, *, new: bool) -> None:
        connection.executescript(_SHARED_SCHEMA)

    def temporary(self, connection: sqlite3.Connection) -> None:
        connection.executescript(_SHARED_TEMPORARY)

    def look(self) -> News:
        """What is new. Reading in one transaction: all of it is of one state."""
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
        """A commit, and all that is new with it."""
        revision, _ = self.commit(checks, writes)
        return revision, self.look()

    def open_claimed_session(self, owner: str, claim: Callable[[int], None]) -> int:
        """A new session, which nobody hears of before ``claim`` was called with it. OSError of that, StoreError."""
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
        """End a session, if that has not been done; its keys vanish."""
        self._db.execute("INSERT INTO ends VALUES (?)", (session,))

    def sessions(self) -> list[int]:
        return [session for (session,) in self._db.execute("SELECT id FROM sessions").fetchall()]


class SharedSession(OwnSession):
    """This process's session. Others may end it."""

    def __init__(self, store: SharedStore, session_id: int, presence: Presence) -> None:
        super().__init__(session_id, store.end_session)
        self.presence = presence

    def lost(self) -> None:
        if self.alive:
            self.presence.close()
        super().lost()


class SharedStore:
    """`MetadataStore` on SQLite in ``directory``, which other processes of this host have open, too."""

    def __init__(self, directory: str, doors: Doors, executor: Executor | None = None) -> None:
        self._directory = directory
        self._doors = doors
        self._executor = executor or Executor(1)
        self._database = SharedDatabase(f"{directory}/{FILE_NAME}", doors.files)
        self._feed = Feed()
        self._sessions: dict[int, SharedSession] = {}
        self._looking = False
        self._look_again = False
        self._published = 0
        self._tasks: dict[asyncio.Future[None], None] = {}

    async def open(self) -> None:
        self._doors.files.makedirs(self._directory)
        try:
            await self._open_database()
            await self._run(self._end_the_dead)
        except StoreUnavailable as error:  # the path is for whoever starts the broker, not for its clients
            raise StoreUnavailable(f"{self._directory}/{FILE_NAME}: {error}") from error

    async def _open_database(self) -> None:
        """Several processes may make the database at the same moment: SQLite lets one, and refuses the others."""
        for attempt in range(OPEN_ATTEMPTS):
            try:
                await self._run(self._database.open)
            except StoreUnavailable as error:
                if "locked" not in str(error) or attempt == OPEN_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(OPEN_AGAIN_S)
            else:
                return

    def _end_the_dead(self) -> None:
        presence = Presence(self._directory, self._doors, lambda: None, lambda _: None)
        for session in self._database.sessions():
            if presence.is_dead(session):
                self._database.end(session)
                presence.forget(session)

    async def close(self) -> None:
        for session in list(self._sessions.values()):
            await session.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._feed.clear()
        await self._run(self._database.close)
        self._executor.close()

    async def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        return await self._run(lambda: self._database.read(prefix))

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        check_commit(checks, writes)
        future = self._executor.run(self._database.write, checks, writes)
        future.add_done_callback(self._committed)  # also when the caller is cancelled
        try:
            return (await self._result(future))[0]
        except SessionLost:
            self._news()  # which finds it missing
            raise

    def _committed(self, future: asyncio.Future[tuple[int, News]]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        self._publish(future.result()[1])
        self._tell_news()

    # The feed

    async def subscribe(self, listener: Listener) -> Place:
        revision, entries = await self._run(self._snapshot)
        return self._feed.join(listener, entries, revision)

    def _snapshot(self) -> tuple[int, dict[str, Entry]]:
        revision, entries = self._database.read("")
        if self._feed.is_empty:
            self._database.seen = revision
        return revision, entries

    def _news(self) -> None:
        """Read what is new; calls that come while that is being done are one more."""
        if self._looking:
            self._look_again = True
            return
        self._looking = True
        future = self._executor.run(self._database.look)
        future.add_done_callback(self._looked)

    def _looked(self, future: asyncio.Future[News]) -> None:
        self._looking = False
        if not future.cancelled():
            error = future.exception()
            if error is None:
                self._publish(future.result())
            elif not isinstance(error, sqlite3.ProgrammingError):  # the store is not just closing
                _logger.warning("news of the metadata store cannot be read now", error=str(error))
                asyncio.get_running_loop().call_later(0.2, self._news)
        if self._look_again:
            self._look_again = False
            self._news()

    def _publish(self, news: News) -> None:
        if news.revision > self._published:  # also without changes: somebody may wait for the revision
            self._published = news.revision
            self._feed.publish(Event(news.changes, news.revision, consistent=True))
        for session in list(self._sessions.values()):
            if session.id in news.sessions:
                session.presence.watch([each for each in news.sessions if each not in self._sessions])
            else:
                del self._sessions[session.id]
                session.lost()

    def _tell_news(self) -> None:
        for session in self._sessions.values():
            session.presence.tell_news()

    # Sessions

    async def open_session(self, owner: str, *, lease_ms: int) -> SharedSession:
        presence = Presence(self._directory, self._doors, self._news, self._end_other)
        try:
            session_id = await self._run(lambda: self._database.open_claimed_session(owner, presence.claim))
            await presence.open(lease_ms)
        except OSError as error:
            presence.close()
            raise StoreUnavailable(f"{self._directory}: {error}") from error
        session = self._sessions[session_id] = SharedSession(self, session_id, presence)
        self._news()
        return session

    async def end_session(self, session: SharedSession) -> None:
        """Take this process's own session away (called by `SharedSession.close`)."""
        try:
            await self._run(lambda: self._database.end(session.id))
            self._sessions.pop(session.id, None)
            self._publish(await self._run(self._database.look))
            session.presence.tell_news()
            self._tell_news()
            await asyncio.sleep(0)  # the last words leave
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
            _logger.warning("a lost session cannot be ended now", session=session_id, error=str(error))
            await asyncio.sleep(0.2)
            self._end_other(session_id)
            return
        self._news()
        for session in self._sessions.values():
            if session.presence.is_dead(session_id):
                session.presence.forget(session_id)
        self._tell_news()

    # Inside

    async def _run(self, function: Callable[[], T]) -> T:
        return await self._result(self._executor.run(function))

    async def _result(self, future: asyncio.Future[T]) -> T:
        try:
            return await asyncio.shield(future)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"{type(error).__name__}: {error}") from error
