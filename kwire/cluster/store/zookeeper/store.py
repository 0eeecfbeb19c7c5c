"""`ZooKeeperStore`: the metadata store for brokers on several hosts, through kazoo.

Under ``<chroot>/kwire`` there are:

| node | holds |
| --- | --- |
| ``changes`` | nothing; its ``version`` is the number of the newest commit |
| ``log/<number>`` | the writes of that commit; at least the newest `LOG_KEEP` are kept |
| ``keys/<key>`` | every key's value, and the session it belongs to |
| ``sessions/s-<id>`` | one ephemeral node for each session |

**One log orders all commits.** Each broker has a mirror of all keys as of some commit N and compares the checks with
that mirror. A commit is one transaction: set ``changes`` if its version is still N, create ``log/N+1``, write the keys.
If another broker has made commit N+1, ZooKeeper refuses the whole transaction; the broker reads the log and starts
again. So all commits have one order, all brokers see the same order, and the checks still hold when the commit is made.
ZooKeeper's versions of the keys' nodes are not used, because they start again when a node is deleted and created again.
A version here is the transaction's id (zxid), which ZooKeeper never uses twice; it is also the revision. A log entry
repeats the values, so a reader goes from one state that the store really had to the next; a reader that is too far
behind reads all keys, and then the log entries that were written meanwhile.

**Sessions end in the log, too.** A key with a session is an ordinary node; only the session's own node is ephemeral.
When that node is gone, the first broker that sees it makes a commit that deletes the session's keys; the same
transaction proves that the session's node does not exist. Until then the keys exist, but are of no use to their owner:
a commit that checks or writes a key with a session also checks in its transaction that the session's node exists. So
an owner whose session has ended can change nothing from that moment on, even if it has not noticed yet.

**The owner gives up first.** ZooKeeper ends a session no sooner than its timeout after it last received something from
the client. A response proves that ZooKeeper received the call, and no earlier than the call was made. So a broker
regards its session as lost when the timeout has passed since it made the newest call that got a response, by its own
clock; this is never later than ZooKeeper ends the session. If a broker gives up a session that ZooKeeper still has, it
ends the session in the log before it opens another one.

**Dead processes.** ZooKeeper also waits for the timeout if a process is killed. A broker ends the session of another
one by itself if that one's host is up and refuses the connection (`presume_dead`). If it is wrong, the other broker
finds its session ended, is fenced, and registers again.

**Unknown outcomes.** If the connection is lost during a commit, or there is no response, the commit may or may not
happen, even later (kazoo may send it again on its next connection); then commit N must still be the newest one.

What lives elsewhere: the connection and its threads (`zookeeper.client`), entries and mirror (`zookeeper.log`),
subscriptions to the feed (`feed`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from kwire.base import futures
from kwire.base.doors import Executor
from kwire.base.logging import get_logger
from kwire.cluster.store.feed import Feed, FeedSubscription, OwnSession
from kwire.cluster.store.store import (
    Change,
    Check,
    Conflict,
    Entry,
    Event,
    Listener,
    SessionLost,
    StoreError,
    StoreFormatError,
    StoreUnavailable,
    Write,
    check_commit,
)
from kwire.cluster.store.zookeeper.client import Connection, ZooKeeperSettings
from kwire.cluster.store.zookeeper.commits import OtherCommit, SessionGone, SessionThere, check_size, raise_failure
from kwire.cluster.store.zookeeper.log import (
    FORMAT,
    LogEntry,
    Mirror,
    key_of,
    node_name,
    pack_entry,
    pack_value,
    unpack_entry,
    unpack_value,
)
from kwire.cluster.store.zookeeper.protection import is_open_to_everybody, protect

T = TypeVar("T")

LOG_KEEP: Final = 256
PRUNE_EVERY: Final = 64
READS_AT_ONCE: Final = 512
ATTEMPTS_MAX: Final = 200
RETRY_S: Final = 0.2
HEARTBEATS_PER_TIMEOUT: Final = 6

_logger = get_logger("kwire.cluster.zookeeper")


class ZooKeeperSession(OwnSession):
    """A session of this process: a node in ``sessions``. It is alive only as long as ZooKeeper must still have it."""

    def __init__(self, store: ZooKeeperStore, session_id: int, owner: str) -> None:
        super().__init__(session_id, store.end_session)
        self.owner = owner
        self._store = store

    @property
    def alive(self) -> bool:
        """Whether ZooKeeper must still have the session."""
        return self._alive and self._store.proven


class ZooKeeperStore:
    """`MetadataStore` in ZooKeeper."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._connect = settings.connect
        self._base = f"{settings.chroot}/kwire"
        self._sets_acl = settings.set_acl
        self._executor = Executor(1)
        self._connection = Connection(
            settings,
            self._executor,
            on_connected=self._on_connected,
            on_suspended=self._on_suspended,
            on_expired=self._on_expired,
        )
        self._mirror = Mirror(-1, 0, 0, {})
        self._feed = Feed()
        self._sessions: dict[int, ZooKeeperSession] = {}
        self._given_up: dict[int, None] = {}
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._news = asyncio.Event()
        self._sessions_changed = True
        self._cut_off = False
        self._reading = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._beat: asyncio.TimerHandle | None = None

    # -- open and close ------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """See `MetadataStore.open`."""
        try:
            await self._connection.start()
            await self._open_connected()
        except BaseException:
            await self._connection.stop()
            self._executor.close()
            raise
        self._spawn(self._follow(), "zookeeper feed")
        self._on_beat()

    async def _open_connected(self) -> None:
        try:
            await self._make_nodes()
            await self._catch_up()
            await self._end_expired()
            if self._sets_acl and await is_open_to_everybody(self._connection, self._base):
                _logger.warning(
                    "nodes from before zookeeper.set.acl are open to everybody: run kwire zookeeper protect"
                )
        except StoreUnavailable as error:  # the address is for the operator, so only this message has it
            raise StoreUnavailable(f"zookeeper.connect={self._connect}: {error}") from error

    async def _make_nodes(self) -> None:
        import kazoo.exceptions

        segments = self._base.split("/")[1:]
        paths = ["/" + "/".join(segments[: count + 1]) for count in range(len(segments))]
        names = ["log", "keys", "sessions", "changes"]
        for path in [*paths, *(self._path(name) for name in names)]:
            try:
                await self._connection.call("create", path, b'{"v":%d}' % FORMAT if path == self._base else b"")
            except kazoo.exceptions.NodeExistsError:
                pass
        data, _ = await self._connection.call("get", self._base)
        version = data.removeprefix(b'{"v":').removesuffix(b"}")
        if not version.isdigit():
            raise StoreFormatError(f"ZooKeeper's node {self._base} is not kwire's")
        if int(version) > FORMAT:
            raise StoreFormatError(
                f"ZooKeeper's node {self._base} has format {int(version)}, this kwire supports up to {FORMAT}: "
                "it was written by a newer kwire"
            )

    async def close(self) -> None:
        """See `MetadataStore.close`."""
        if self._beat is not None:
            self._beat.cancel()
        for session in list(self._sessions.values()):
            try:
                await session.close()
            except StoreError as error:
                _logger.info("a session is left to its timeout", owner=session.owner, error=str(error))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._feed.clear()
        await self._connection.stop()
        self._executor.close()

    async def protect(self) -> int:
        """Give every node the ACL that `zookeeper.set.acl` gives new ones; how many there are. `StoreUnavailable`."""
        return await protect(self._connection, self._base)

    def _path(self, *names: str) -> str:
        return "/".join((self._base, *names))

    def _log_path(self, number: int) -> str:
        return self._path("log", f"{number:010d}")

    def _session_path(self, session: int) -> str:
        return self._path("sessions", f"s-{session:010d}")

    def _spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._task_over)
        return task

    def _task_over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        futures.ignore_failure(task)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read(self, prefix: str) -> tuple[int, dict[str, Entry]]:
        """See `MetadataStore.read`."""
        await self._catch_up(sync=True)
        entries = self._mirror.entries
        return self._mirror.revision, {key: entries[key] for key in sorted(entries) if key.startswith(prefix)}

    async def subscribe(self, listener: Listener) -> FeedSubscription:
        """See `MetadataStore.subscribe`."""
        revision, entries = await self.read("")
        return self._feed.join(listener, entries, revision)

    def _publish(self, changes: Sequence[Change]) -> None:
        self._feed.publish(Event(changes, self._mirror.revision, consistent=True))

    async def _follow(self) -> None:
        """Read new commits when a watch fires, and end the sessions whose nodes are gone."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._catch_up()
                if self._sessions_changed:
                    self._sessions_changed = False
                    await self._end_expired()
            except StoreError as error:
                self._sessions_changed = True
                if self._connection.connected:  # otherwise the next connection sets `_news`
                    _logger.warning("changes in the metadata store cannot be read", error=str(error))
                    await asyncio.sleep(RETRY_S)
                    self._news.set()
            except Exception as error:
                _logger.error("the metadata store cannot be followed", exc_info=error)
                self._sessions_changed = True
                await asyncio.sleep(RETRY_S)
                self._news.set()

    async def _catch_up(self, *, sync: bool = False) -> None:
        """Apply all new commits to the mirror. ``sync``: those that any server has, not only the connected one."""
        async with self._reading:
            if sync:  # responses come in order, so there is no need to wait for this one
                self._connection.call("sync", self._path("changes")).add_done_callback(futures.ignore_failure)
            watch = self._connection.watcher(self._news.set)
            _, stat = await self._connection.call("get", self._path("changes"), watch=watch)
            if stat.czxid != self._mirror.created_zxid:
                await self._read_all()
            elif stat.version > self._mirror.count:
                entries = await self._log_entries(self._mirror.count + 1, stat.version)
                if entries is None:
                    await self._read_all()
                else:
                    self._apply_log(entries)

    async def _log_entries(self, first: int, last: int) -> list[tuple[int, int, LogEntry]] | None:
        """(number, revision, entry) of commits; None if the log does not have them all (any more)."""
        if last - first >= LOG_KEEP + PRUNE_EVERY:
            return None
        nodes = await self._get_all([self._log_path(number) for number in range(first, last + 1)])
        entries = []
        for number, node in zip(range(first, last + 1), nodes, strict=True):
            if node is None:
                return None
            entry = unpack_entry(node[0])
            if entry.writes is None:
                return None
            entries.append((number, node[1].czxid, entry))
        return entries

    async def _get_all(self, paths: Sequence[str]) -> list[Any]:
        """kazoo's (data, stat) of each node, None for a node that does not exist."""
        import kazoo.exceptions

        found: list[Any] = []
        for start in range(0, len(paths), READS_AT_ONCE):
            calls = [self._connection.call("get", path) for path in paths[start : start + READS_AT_ONCE]]
            for node in await asyncio.gather(*calls, return_exceptions=True):
                if isinstance(node, BaseException) and not isinstance(node, kazoo.exceptions.NoNodeError):
                    raise node
                found.append(None if isinstance(node, BaseException) else node)
        return found

    def _apply_log(self, entries: Sequence[tuple[int, int, LogEntry]]) -> None:
        """Apply commits to the mirror, except own ones that are applied already, and publish one event for all."""
        changed: dict[str, Change] = {}
        ended: list[int] = []
        for number, revision, entry in entries:
            if number == self._mirror.count + 1:
                assert entry.writes is not None
                changed.update((change.key, change) for change in self._mirror.apply(revision, entry.writes))
                ended += entry.ended
        if entries:
            self._publish(list(changed.values()))
            self._sessions_ended(ended)

    async def _read_all(self) -> None:
        """Read the whole mirror: all keys, then the log entries that were written meanwhile."""
        for _ in range(ATTEMPTS_MAX):
            _, before = await self._connection.call("get", self._path("changes"))
            names = await self._connection.call("get_children", self._path("keys"))
            nodes = await self._get_all([self._path("keys", name) for name in names])
            watch = self._connection.watcher(self._news.set)
            _, after = await self._connection.call("get", self._path("changes"), watch=watch)
            log = await self._log_entries(before.version + 1, after.version) if after.version > before.version else []
            if log is None or before.czxid != after.czxid:
                continue
            entries = {}
            for name, node in zip(names, nodes, strict=True):
                if node is not None:
                    value, session = unpack_value(node[0])
                    entries[key_of(name)] = Entry(value, node[1].mzxid, node[1].czxid, session)
            mirror = Mirror(before.version, before.mzxid, after.czxid, entries)
            for _, revision, entry in log:
                mirror.apply(revision, entry.writes or ())
            if mirror.created_zxid == self._mirror.created_zxid and mirror.count < self._mirror.count:
                continue  # a commit of this broker was faster
            changes = self._mirror.changes_to(mirror)
            self._mirror = mirror
            self._publish(changes)
            return
        raise StoreUnavailable("the metadata store in ZooKeeper changes faster than it can be read")

    # -- committing ----------------------------------------------------------------------------------------------------

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        """See `MetadataStore.commit`."""
        check_commit(checks, writes)
        # A task of its own: a commit must reach the mirror even if its caller is cancelled.
        return await asyncio.shield(self._spawn(self._commit(checks, writes), "zookeeper commit"))

    async def _commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        async with self._writing:
            for _ in range(ATTEMPTS_MAX):
                needed = self._sessions_needed(checks, writes)
                entries = self._mirror.entries
                effective = [write for write in writes if write.value is not None or write.key in entries]
                proofs = [(self._session_path(session), session) for session in needed]
                try:
                    return await self._transact(effective, proofs=proofs)
                except OtherCommit:
                    await self._catch_up()
                except SessionGone as gone:
                    await self._session_is_gone(gone.session)
            raise StoreUnavailable("other commits kept getting in between")

    def _sessions_needed(self, checks: Sequence[Check], writes: Sequence[Write]) -> list[int]:
        """The sessions that must exist for a commit. `Conflict`, `SessionLost`."""
        for key, version in checks:
            if self._mirror.version(key) != version:
                raise Conflict(key)
        needed: dict[int, None] = {}
        for write in writes:
            if write.session is not None:
                session = self._sessions.get(write.session)
                if session is None or not session.alive:
                    raise SessionLost
                needed[write.session] = None
        for key, _ in checks:
            entry = self._mirror.entries.get(key)
            if entry is not None and entry.session is not None:
                needed[entry.session] = None
        return list(needed)

    async def _transact(
        self,
        writes: Sequence[Write],
        *,
        proofs: Sequence[tuple[str, int]] = (),
        ends: int | None = None,
        node_exists: bool = False,
    ) -> int:
        """Try to make the commit that follows the mirror; returns its revision. ``ends``: the session that it ends.
        `OtherCommit`, `SessionGone`, `SessionThere`."""
        mirror, number = self._mirror, self._mirror.count + 1
        ended = [] if ends is None else [ends]
        entry = pack_entry(writes, ended)
        transaction = self._connection.transaction()
        transaction.set_data(self._path("changes"), b"", mirror.count)
        for path, _ in proofs:
            transaction.check(path, -1)
        if ends is not None and not node_exists:
            transaction.create(self._session_path(ends))  # succeeds only if the node does not exist
        if ends is not None:
            transaction.delete(self._session_path(ends))
        transaction.create(self._log_path(number), entry)
        self._add_writes(transaction, writes)
        check_size(transaction.operations)
        results = await self._connection.commit(transaction)
        if isinstance(results[0], Exception):
            raise_failure(results, proofs, ends)
        revision: int = results[0].mzxid
        if self._mirror is mirror and mirror.count == number - 1:
            self._apply_log([(number, revision, LogEntry(list(writes), ended))])
        if number % PRUNE_EVERY == 0:
            self._spawn(self._prune(number - LOG_KEEP), "prune zookeeper log")
        return revision

    def _add_writes(self, transaction: Any, writes: Sequence[Write]) -> None:
        for key, value, session in writes:
            path = self._path("keys", node_name(key))
            if value is None:
                transaction.delete(path)
            elif key in self._mirror.entries:
                transaction.set_data(path, pack_value(value, session))
            else:
                transaction.create(path, pack_value(value, session))

    async def _prune(self, last: int) -> None:
        """Delete old log entries; a broker that still needs one reads all keys instead."""
        names = await self._connection.call("get_children", self._path("log"))
        old = [name for name in names if name.isdigit() and int(name) <= last]
        await asyncio.gather(
            *(self._connection.call("delete", self._path("log", name)) for name in old), return_exceptions=True
        )

    # -- sessions ------------------------------------------------------------------------------------------------------

    @property
    def proven(self) -> bool:
        """Whether ZooKeeper must still have the session of this connection."""
        return asyncio.get_running_loop().time() < self._connection.proven_s + self._connection.timeout_s

    async def open_session(self, owner: str, *, lease_ms: int) -> ZooKeeperSession:
        """See `MetadataStore.open_session`; the lease is the connection's timeout (`zookeeper.session.timeout.ms`),
        not ``lease_ms``."""
        await self._end_given_up()
        path = await self._connection.call(
            "create", self._path("sessions", "s-"), owner.encode(), ephemeral=True, sequence=True
        )
        session = ZooKeeperSession(self, int(path[-10:]), owner)
        self._sessions[session.id] = session
        return session

    async def end_session(self, session: ZooKeeperSession) -> None:
        """End a session of this process (called by `ZooKeeperSession.close`)."""
        self._sessions.pop(session.id, None)
        self._given_up[session.id] = None
        await asyncio.shield(self._spawn(self._end_given_up(), "end zookeeper session"))

    async def _end_given_up(self) -> None:
        async with self._writing:
            for session in list(self._given_up):
                await self._end(session, node_exists=True, delete_node=True)
                self._given_up.pop(session, None)

    async def _end_expired(self) -> None:
        """End all sessions whose nodes are gone, and those that this broker gave up."""
        await self._end_given_up()
        watch = self._connection.watcher(self._on_sessions_changed)
        names = await self._connection.call("get_children", self._path("sessions"), watch=watch)
        existing = {int(name[-10:]) for name in names}
        async with self._writing:
            for session in self._mirror.owners():
                if session not in existing:
                    await self._end(session)

    async def _end(self, session: int, *, node_exists: bool = False, delete_node: bool = False) -> None:
        """Delete a session's keys, and its node if ``delete_node``; otherwise, do nothing if its node exists."""
        for _ in range(ATTEMPTS_MAX):
            keys = self._mirror.keys_of(session)
            if not keys and not node_exists:
                return
            try:
                await self._transact([Write(key, None) for key in keys], ends=session, node_exists=node_exists)
                return
            except OtherCommit:
                await self._catch_up()
            except SessionGone:
                node_exists = False
            except SessionThere:
                if not delete_node:
                    return
                node_exists = True

    def presume_dead(self, key: str, created: int) -> None:
        """End the session of a key with this `Entry.created`, because its owner's process seems to be dead."""
        entry = self._mirror.entries.get(key)
        if entry is not None and entry.created == created and entry.session is not None and self._connection.connected:
            self._spawn(self._end_presumed_dead(key, entry.session), "end dead session")

    async def _end_presumed_dead(self, key: str, session: int) -> None:
        _logger.warning("broker refuses connections: its session is ended", owner=key)
        async with self._writing:
            await self._end(session, node_exists=True, delete_node=True)

    async def _session_is_gone(self, session: int) -> None:
        """A commit found that a session's node is gone although the log has not ended the session yet."""
        if session in self._sessions:
            self._lose(session, "ZooKeeper has ended it")
        await self._catch_up()
        await self._end(session)

    def _sessions_ended(self, sessions: Sequence[int]) -> None:
        for session in sessions:
            self._lose(session, "another broker has ended it")
            self._given_up.pop(session, None)

    def _lose(self, session_id: int, reason: str) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._given_up[session_id] = None
            session.lost()
            self._on_sessions_changed()  # its keys must be deleted if ZooKeeper has not ended it
            _logger.warning("session lost", owner=session.owner, reason=reason)

    def _lose_all(self, reason: str) -> None:
        for session in list(self._sessions):
            self._lose(session, reason)

    # -- connection events ---------------------------------------------------------------------------------------------

    def _on_connected(self) -> None:
        if self._cut_off:
            self._cut_off = False
            _logger.info("ZooKeeper is reachable again")
        self._on_sessions_changed()

    def _on_suspended(self) -> None:
        self._cut_off = True
        _logger.warning("ZooKeeper cannot be reached: no metadata can change until it can")

    def _on_expired(self) -> None:
        self._lose_all("ZooKeeper has ended it")

    def _on_sessions_changed(self) -> None:
        self._sessions_changed = True
        self._news.set()

    def _on_beat(self) -> None:
        """Send heartbeats; give up the sessions if the newest response is older than the timeout."""
        if self._sessions and not self.proven:
            self._lose_all("no response from ZooKeeper within the session timeout")
        for session in list(self._sessions) if self._connection.connected else ():
            self._spawn(self._verify(session), "zookeeper heartbeat")
        loop = asyncio.get_running_loop()
        until_s = self._connection.proven_s + self._connection.timeout_s
        beat_s = loop.time() + self._connection.timeout_s / HEARTBEATS_PER_TIMEOUT
        self._beat = loop.call_at(min(beat_s, until_s) if until_s > loop.time() else beat_s, self._on_beat)

    async def _verify(self, session: int) -> None:
        if await self._connection.call("exists", self._session_path(session)) is None:
            self._lose(session, "ZooKeeper has ended it")
            self._on_sessions_changed()
