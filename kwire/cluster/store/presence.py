"""Who is there: the brokers of one host see each other live and die, over Unix sockets beside the shared store.

Every session has a lock file and a socket. The lock is the operating system's: it is free when the process that held
it is gone, and not before. Every broker is connected to every other one; a connection that ends is looked into at
once, so a dead process is noticed within milliseconds. A process that lives but is paused keeps its lock; it sends no
heartbeats, and after its lease the others take it for lost as well. A broker that was paused itself does not judge:
what it has not heard may be waiting to be read.

The same connections say that the store has something new. What lives elsewhere: what follows from a lost session
(`shared_store`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kwire.base.logging import get_logger

if TYPE_CHECKING:
    from kwire.base.doors import Doors

HEARTBEAT: Final = b"h"
NEWS: Final = b"n"
HEARTBEATS_PER_LEASE: Final = 6
LOOK_AGAIN_S: Final = 0.05
BACKLOG_BYTES_MAX: Final = 4096
PATH_BYTES_MAX: Final = 100

_logger = get_logger("kwire.cluster.presence")


class Presence:
    """This process's session among those of one store's directory.

    ``on_news()``: another broker has written. ``on_lost(session id)``: a session is over, whoever finds out first.
    """

    def __init__(
        self, directory: str, doors: Doors, on_news: Callable[[], None], on_lost: Callable[[int], None]
    ) -> None:
        self._directory = f"{directory}/sessions"
        self._doors = doors
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
        self.session = 0

    def path(self, session: int, kind: str) -> str:
        """A session's ``lock`` or ``sock`` file."""
        return f"{self._directory}/{session}.{kind}"

    def claim(self, session: int) -> None:
        """Hold the lock of a session that is about to begin: whoever hears of it must not find the lock free. Blocks,
        on any thread. OSError."""
        self.session = session
        files = self._doors.files
        files.makedirs(self._directory)
        self._lock = files.lock(self.path(session, "lock"))
        if self._lock is None:
            raise OSError(f"{self.path(session, 'lock')} is held by another process")

    async def open(self, lease_ms: int) -> None:
        """Be there from now on, for the session that was claimed. OSError."""
        session, self._lease_s = self.session, lease_ms / 1000
        self._server = await asyncio.start_unix_server(self._watched_by, self._short(self.path(session, "sock")))
        self._last_beat_s = asyncio.get_running_loop().time()
        self._on_beat()

    def close(self) -> None:
        """Be gone. Whoever watches finds the lock free."""
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
            self._doors.files.close(self._lock)
            self._lock = None
            self.forget(self.session)
        if self._directory_fd is not None:
            self._doors.files.close(self._directory_fd)
            self._directory_fd = None

    def tell_news(self) -> None:
        """Tell all others that the store has something new."""
        for writer in list(self._watchers):
            self._send(writer, NEWS)

    def watch(self, sessions: list[int]) -> None:
        """Watch these sessions, and no others."""
        for session in sessions:
            if session != self.session and session not in self._watched:
                self._watched[session] = _Watched(
                    asyncio.get_running_loop().create_task(self._follow(session), name=f"watch session {session}")
                )
        for session in [each for each in self._watched if each not in sessions]:
            self._watched.pop(session).task.cancel()

    def is_dead(self, session: int) -> bool:
        """Whether the process of a session is gone: its lock is free, or was never there."""
        path = self.path(session, "lock")
        if not self._doors.files.exists(path):
            return True
        lock = self._doors.files.lock(path)
        if lock is None:
            return False
        self._doors.files.close(lock)
        return True

    def forget(self, session: int) -> None:
        """Remove the files of a session that is over; content if they are gone."""
        for kind in ("sock", "lock"):
            try:
                self._doors.files.unlink(self.path(session, kind))
            except OSError:
                pass

    # Being watched

    async def _watched_by(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._watchers[writer] = None
        self._send(writer, NEWS)  # of what was written before it could be told
        self._on_news()  # somebody new is there
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
        if now_s - self._last_beat_s < 2 * interval_s:
            self._judge(now_s)
        else:  # this process was held up: it begins to listen anew
            for watched in self._watched.values():
                watched.heard_s = now_s
        self._last_beat_s = now_s
        self._beat = loop.call_later(interval_s, self._on_beat)

    def _judge(self, now_s: float) -> None:
        for session, watched in list(self._watched.items()):
            if now_s - watched.heard_s > self._lease_s:
                _logger.warning("a broker has been silent for its lease", session=session)
                watched.heard_s = now_s
                self._on_lost(session)

    @staticmethod
    def _send(writer: asyncio.StreamWriter, message: bytes) -> None:
        transport = writer.transport
        if not transport.is_closing() and transport.get_write_buffer_size() < BACKLOG_BYTES_MAX:
            writer.write(message)  # whoever is paused has enough to read when it wakes

    # Watching

    async def _follow(self, session: int) -> None:
        """Stay connected to a session until it is over."""
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self._short(self.path(session, "sock")))
            except OSError:
                pass
            else:
                try:
                    await self._listen(session, reader)
                except OSError:
                    pass
                finally:
                    writer.close()
            if self.is_dead(session):
                self._on_lost(session)
                return
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _listen(self, session: int, reader: asyncio.StreamReader) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(BACKLOG_BYTES_MAX):
            watched = self._watched.get(session)
            if watched is not None:
                watched.heard_s = loop.time()
            if NEWS in data:
                self._on_news()

    def _short(self, path: str) -> str:
        """A socket's path has room for about a hundred bytes; a longer one is reached through its directory."""
        if len(os.fsencode(path)) <= PATH_BYTES_MAX:
            return path
        if self._directory_fd is None:
            self._directory_fd = self._doors.files.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._directory_fd}/{os.path.basename(path)}"


class _Watched:
    """Another session: the task that stays connected to it, and when it was last heard."""

    __slots__ = ("heard_s", "task")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.heard_s = asyncio.get_running_loop().time()
