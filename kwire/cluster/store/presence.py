"""`Presence`: how the brokers of one host detect each other's failures, over Unix sockets beside the shared store.

Every session has a lock file and a socket. The operating system holds the lock exactly as long as the process lives.
Every broker is connected to every other one and checks the lock when a connection ends, so a dead process is detected
within milliseconds. A paused process keeps its lock but sends no heartbeats, and when its lease expires the other
brokers regard its session as lost, too. A broker that was paused itself restarts the count, because heartbeats may be
waiting to be read.

The same connections carry notifications of changes in the store. What lives elsewhere: what follows from a lost
session (`store.shared`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kwire.base.logging import get_logger

if TYPE_CHECKING:
    from kwire.base.doors import Doors, Files

HEARTBEAT: Final = b"h"
NEWS: Final = b"n"
HEARTBEATS_PER_LEASE: Final = 6
RECONNECT_S: Final = 0.05
BACKLOG_BYTES_MAX: Final = 4096
PATH_BYTES_MAX: Final = 100

_logger = get_logger("kwire.cluster.presence")


class SessionFiles:
    """The lock and socket files of all sessions of one store's directory."""

    def __init__(self, directory: str, files: Files) -> None:
        self.directory = f"{directory}/sessions"
        self._files = files

    def path(self, session: int, kind: str) -> str:
        """A session's ``lock`` or ``sock`` file."""
        return f"{self.directory}/{session}.{kind}"

    def lock(self, session: int) -> int:
        """Take a session's lock; returns its descriptor. OSError, also if another process holds it."""
        self._files.makedirs(self.directory)
        path = self.path(session, "lock")
        lock = self._files.lock(path)
        if lock is None:
            raise OSError(f"{path} is held by another process")
        return lock

    def is_dead(self, session: int) -> bool:
        """Whether the process of a session is dead: its lock is free or missing."""
        path = self.path(session, "lock")
        if not self._files.exists(path):
            return True
        lock = self._files.lock(path)
        if lock is None:
            return False
        self._files.close(lock)
        return True

    def forget(self, session: int) -> None:
        """Remove the files of a session that has ended; no error if they are missing."""
        for kind in ("sock", "lock"):
            try:
                self._files.unlink(self.path(session, kind))
            except OSError:
                pass


class Presence:
    """One session of this process, and the sessions of other processes in the same directory.

    ``on_news()``: another broker has committed. ``on_lost(session id)``: the session of another process is lost.
    """

    def __init__(
        self, directory: str, doors: Doors, on_news: Callable[[], None], on_lost: Callable[[int], None]
    ) -> None:
        self._session_files = SessionFiles(directory, doors.files)
        self._files = doors.files
        self._on_news = on_news
        self._on_lost = on_lost
        self._lock: int | None = None
        self._directory_fd: int | None = None
        self._server: asyncio.Server | None = None
        self._watchers: dict[asyncio.StreamWriter, None] = {}
        self._watched: dict[int, _Watched] = {}
        self._beat: asyncio.TimerHandle | None = None
        self._lease_s = 0.0
        self._last_beat_s = 0.0
        self._proven_s = 0.0
        self.session = 0

    @property
    def proven(self) -> bool:
        """Whether heartbeats were sent within the lease without a pause that may have ended the session."""
        return asyncio.get_running_loop().time() < self._proven_s + self._lease_s

    def prove(self) -> None:
        """The store still has the session."""
        self._proven_s = asyncio.get_running_loop().time()

    def claim(self, session: int) -> None:
        """Take a session's lock before other processes can see the session, because they must not find the lock free.
        Blocks; runs on any thread. OSError."""
        self.session = session
        self._lock = self._session_files.lock(session)

    async def open(self, lease_ms: int) -> None:
        """Listen and send heartbeats for the session that was claimed. OSError."""
        session, self._lease_s = self.session, lease_ms / 1000
        self._server = await asyncio.start_unix_server(
            self._watched_by, self._short(self._session_files.path(session, "sock"))
        )
        self._last_beat_s = self._proven_s = asyncio.get_running_loop().time()
        self._on_beat()

    def close(self) -> None:
        """Stop, and release the lock."""
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        for watched in self._watched.values():
            watched.task.cancel()
        self._watched.clear()
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._watchers):
            writer.close()
        self._watchers.clear()
        if self._lock is not None:
            self._files.close(self._lock)
            self._lock = None
            self._session_files.forget(self.session)
        if self._directory_fd is not None:
            self._files.close(self._directory_fd)
            self._directory_fd = None

    def notify(self) -> None:
        """Notify the other processes of changes in the store."""
        for writer in list(self._watchers):
            self._send(writer, NEWS)

    def watch(self, sessions: list[int]) -> None:
        """Watch exactly these sessions."""
        for session in sessions:
            if session != self.session and session not in self._watched:
                self._watched[session] = _Watched(
                    asyncio.get_running_loop().create_task(self._follow(session), name=f"watch session {session}")
                )
        for session in [each for each in self._watched if each not in sessions]:
            self._watched.pop(session).task.cancel()

    # -- watched by others ---------------------------------------------------------------------------------------------

    async def _watched_by(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._watchers[writer] = None
        self._send(writer, NEWS)  # for commits before this connection
        self._on_news()  # there is a new session
        try:
            while await reader.read(64):
                pass
        except OSError:
            pass
        finally:
            self._watchers.pop(writer, None)
            writer.close()

    def _on_beat(self) -> None:
        loop = asyncio.get_running_loop()
        interval_s = self._lease_s / HEARTBEATS_PER_LEASE
        for writer in list(self._watchers):
            self._send(writer, HEARTBEAT)
        now_s = loop.time()
        if self.proven:
            self._proven_s = now_s
        else:  # this process was paused: ask whether the session still exists
            self._on_news()
        if now_s - self._last_beat_s < 2 * interval_s:
            self._check_leases(now_s)
        else:  # this process was paused: restart the count
            for watched in self._watched.values():
                watched.heard_s = now_s
        self._last_beat_s = now_s
        self._beat = loop.call_later(interval_s, self._on_beat)

    def _check_leases(self, now_s: float) -> None:
        for session, watched in list(self._watched.items()):
            if now_s - watched.heard_s > self._lease_s:
                _logger.warning("a broker sent no heartbeat within its lease", session=session)
                watched.heard_s = now_s
                self._on_lost(session)

    @staticmethod
    def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
        transport = writer.transport
        if not transport.is_closing() and transport.get_write_buffer_size() < BACKLOG_BYTES_MAX:
            writer.write(message)  # a paused process has unread messages enough

    # -- watching others -----------------------------------------------------------------------------------------------

    async def _follow(self, session: int) -> None:
        """Stay connected to a session until its process is dead."""
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(
                    self._short(self._session_files.path(session, "sock"))
                )
            except OSError:
                pass
            else:
                try:
                    await self._listen(session, reader)
                except OSError:
                    pass
                finally:
                    writer.close()
            if self._session_files.is_dead(session):
                self._on_lost(session)
                return
            await asyncio.sleep(RECONNECT_S)

    async def _listen(self, session: int, reader: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(BACKLOG_BYTES_MAX):
            watched = self._watched.get(session)
            if watched is not None:
                watched.heard_s = loop.time()
            if NEWS in data:
                self._on_news()

    def _short(self, path: str) -> str:
        """A path for a socket address, limited to about 100 bytes; a longer path goes through /proc/self/fd."""
        if len(os.fsencode(path)) <= PATH_BYTES_MAX:
            return path
        if self._directory_fd is None:
            self._directory_fd = self._files.open(self._session_files.directory, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._directory_fd}/{os.path.basename(path)}"


class _Watched:
    """Another session: the task that stays connected to it, and the time of its last heartbeat."""

    __slots__ = ("heard_s", "task")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.heard_s = asyncio.get_running_loop().time()
