"""The metadata store in ZooKeeper when things go wrong: sessions end, servers stop, connections break."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

import pytest

from harness.processes.proxy import Proxy
from harness.processes.zookeeper import ZooKeeper
from harness.waiting import PATIENCE_S, until
from kwire.cluster.store.store import (
    ABSENT,
    Check,
    Conflict,
    Entry,
    Event,
    SessionLost,
    StoreFormatError,
    StoreUnavailable,
    Write,
)
from kwire.cluster.store.zookeeper.client import ZooKeeperSettings
from kwire.cluster.store.zookeeper.store import LOG_KEEP, PRUNE_EVERY, ZooKeeperStore

pytestmark = pytest.mark.java


class State:
    """The entries and the revision that a subscriber has received."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.revision = 0

    def __call__(self, event: Event) -> None:
        assert event.consistent
        assert event.revision >= self.revision
        self.revision = event.revision
        for key, entry in event.changes:
            if entry is None:
                del self.entries[key]
            else:
                assert key not in self.entries or entry.version > self.entries[key].version
                self.entries[key] = entry

    def values(self) -> dict[str, bytes]:
        """The values of all entries by key."""
        return {key: entry.value for key, entry in self.entries.items()}


CONNECTION_TIMEOUT_MS = 60_000
"""For the first connection, which otherwise has the time of a session: a busy machine may need longer."""


class MakeStore(Protocol):
    """``await make_store(connect, ...) -> (store, state received from its feed)``"""

    async def __call__(self, connect: str, timeout_ms: int = 9000) -> tuple[ZooKeeperStore, State]: ...


@pytest.fixture
async def make_store() -> AsyncIterator[MakeStore]:
    """`MakeStore`: opens a store and subscribes to it; every store is closed after the test."""
    made: list[ZooKeeperStore] = []

    async def make(connect: str, timeout_ms: int = 9000) -> tuple[ZooKeeperStore, State]:
        store = ZooKeeperStore(ZooKeeperSettings(connect, timeout_ms, CONNECTION_TIMEOUT_MS))
        await store.open()
        made.append(store)
        state = State()
        await store.subscribe(state)
        return store, state

    yield make
    for store in made:
        await store.close()


@pytest.fixture
def proxy(shared_zookeeper: ZooKeeper) -> Iterator[Proxy]:
    """A proxy in front of the shared server."""
    proxy = Proxy(shared_zookeeper.port)
    yield proxy
    proxy.answers_flow.set()
    proxy.refuse()


async def end_by_the_server(store: ZooKeeperStore, has_noticed: Callable[[], object]) -> None:
    """Make ZooKeeper end the session of a store: a second client with the same session id and password closes it.

    It is tried again until the store has noticed. The server moves the session to the second client's connection; a
    store that connects again before the second client closes it takes the session back, and nothing has ended.
    """
    from kazoo.client import KazooClient

    kazoo: Any = store._connection._client
    hosts, client_id = ",".join(f"{host}:{port}" for host, port in kazoo.hosts), kazoo.client_id

    def close_as_a_twin() -> None:
        twin = KazooClient(hosts=hosts, client_id=client_id)
        twin.start()
        twin.stop()
        twin.close()

    async with asyncio.timeout(PATIENCE_S):
        while not has_noticed():
            await asyncio.to_thread(close_as_a_twin)
            with suppress(TimeoutError):
                await until(has_noticed, PATIENCE_S / 6)


async def test_everybody_sees_every_commit(make_store: MakeStore, connect: str) -> None:
    one, seen_by_one = await make_store(connect)
    two, seen_by_two = await make_store(connect)
    await asyncio.gather(
        *(
            store.commit([], [Write(f"{name}/{n}", b"%d" % n)])
            for n in range(30)
            for name, store in (("a", one), ("b", two))
        )
    )
    revision, entries = await one.read("")
    assert len(entries) == 60
    await until(lambda: seen_by_one.revision >= revision <= seen_by_two.revision)
    assert seen_by_one.entries == seen_by_two.entries == entries


async def test_of_two_brokers_that_count_up_none_loses_a_step(make_store: MakeStore, connect: str) -> None:
    one, _ = await make_store(connect)
    two, _ = await make_store(connect)

    async def count(store: ZooKeeperStore) -> None:
        done = 0
        while done < 25:
            entry = (await store.read("n"))[1].get("n")
            value, version = (0, ABSENT) if entry is None else (int(entry.value), entry.version)
            try:
                await store.commit([Check("n", version)], [Write("n", b"%d" % (value + 1))])
                done += 1
            except Conflict:
                pass

    await asyncio.gather(count(one), count(two))
    assert (await one.read("n"))[1]["n"].value == b"50"


async def test_a_key_that_was_deleted_and_made_anew_is_another_for_a_commit_on_its_way(
    make_store: MakeStore, connect: str
) -> None:
    one, _ = await make_store(connect)
    two, seen = await make_store(connect)
    version = await one.commit([], [Write("a", b"1")])
    await until(lambda: "a" in seen.entries)
    await one.commit([], [Write("a", None)])
    await one.commit([], [Write("a", b"1")])
    with pytest.raises(Conflict):
        await two.commit([Check("a", version)], [Write("b", b"")])


async def test_keys_of_a_session_that_the_server_ends_vanish_for_all_and_the_owner_is_told_first(
    make_store: MakeStore, connect: str
) -> None:
    one, _ = await make_store(connect)
    _, seen = await make_store(connect)
    session = await one.open_session("one", lease_ms=9000)
    seen_on_loss: list[dict[str, Entry]] = []
    session.on_loss(lambda: seen_on_loss.append(dict(seen.entries)))
    await one.commit([], [Write("brokers/1", b"x", session.id), Write("controller", b"x", session.id), Write("p", b"")])
    controller = (await one.read("controller"))[1]["controller"].version
    await until(lambda: len(seen.entries) == 3)
    await end_by_the_server(one, lambda: seen_on_loss)
    assert not session.alive
    await until(lambda: list(seen.entries) == ["p"])
    with pytest.raises(SessionLost):
        await one.commit([], [Write("brokers/1", b"x", session.id)])
    with pytest.raises((Conflict, StoreUnavailable)):
        await one.commit([Check("controller", controller)], [Write("p", b"harm")])
    await until(lambda: one._connection.connected)
    again = await one.open_session("one", lease_ms=9000)
    assert again.id != session.id
    await one.commit([Check("brokers/1", ABSENT)], [Write("brokers/1", b"y", again.id)])
    await until(lambda: seen.values() == {"p": b"", "brokers/1": b"y"})


async def test_an_owner_that_does_not_know_yet_can_change_nothing(make_store: MakeStore, connect: str) -> None:
    """The session's node is gone, but no broker has noticed yet."""
    one, _ = await make_store(connect)
    session = await one.open_session("one", lease_ms=9000)
    await one.commit([], [Write("brokers/1", b"x", session.id)])
    version = (await one.read("brokers/1"))[1]["brokers/1"].version
    for task in list(one._tasks):
        task.cancel()  # the store follows no changes any more
    assert one._beat is not None
    one._beat.cancel()
    await one._connection.call("delete", one._session_path(session.id))
    with pytest.raises(Conflict) as caught:
        await one.commit([Check("brokers/1", version)], [Write("partitions/1", b"harm")])
    assert caught.value.key == "brokers/1"
    assert not session.alive
    assert (await one.read(""))[1] == {}


async def test_a_dead_process_loses_its_keys_after_the_timeout(make_store: MakeStore, connect: str) -> None:
    _, seen = await make_store(connect)
    code = f"""
import asyncio
from kwire.cluster.store.store import Write
from kwire.cluster.store.zookeeper.store import ZooKeeperStore
from kwire.cluster.store.zookeeper.client import ZooKeeperSettings

async def main():
    store = ZooKeeperStore(ZooKeeperSettings({connect!r}, 9000, {CONNECTION_TIMEOUT_MS}))
    await store.open()
    session = await store.open_session("other", lease_ms=9000)
    await store.commit([], [Write("brokers/2", b"x", session.id)])
    await asyncio.sleep(600)

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    await until(lambda: "brokers/2" in seen.entries)
    killed_s = time.monotonic()
    process.kill()
    await process.wait()
    await until(lambda: not seen.entries)
    assert time.monotonic() - killed_s > 0.5, "before its session was over"


async def test_a_broker_that_is_wrongly_taken_for_dead_is_fenced_and_comes_back(
    make_store: MakeStore, connect: str
) -> None:
    one, _ = await make_store(connect)
    two, seen = await make_store(connect)
    session = await one.open_session("one", lease_ms=9000)
    lost = asyncio.Event()
    session.on_loss(lost.set)
    await one.commit([], [Write("brokers/1", b"x", session.id)])
    await until(lambda: "brokers/1" in seen.entries)
    two.presume_dead("brokers/1", seen.entries["brokers/1"].created - 1)  # an earlier registration
    two.presume_dead("brokers/1", seen.entries["brokers/1"].created)
    async with asyncio.timeout(PATIENCE_S):
        await lost.wait()
    await until(lambda: not seen.entries)  # the owner may learn of it first
    again = await one.open_session("one", lease_ms=9000)
    await one.commit([Check("brokers/1", ABSENT)], [Write("brokers/1", b"y", again.id)])
    await until(lambda: seen.values() == {"brokers/1": b"y"})


async def test_keys_left_by_the_dead_are_gone_when_the_store_is_opened(make_store: MakeStore, connect: str) -> None:
    one, _ = await make_store(connect)
    session = await one.open_session("one", lease_ms=9000)
    await one.commit([], [Write("brokers/1", b"x", session.id), Write("p", b"")])
    await one._connection.stop()  # ZooKeeper removes the node with the connection; no store is left to end the session
    _, seen = await make_store(connect)
    assert seen.values() == {"p": b""}


async def test_a_broker_that_is_cut_off_gives_up_no_later_than_zookeeper(
    make_store: MakeStore, connect: str, proxy: Proxy, chroot: str
) -> None:
    one, _ = await make_store(proxy.address + chroot, 2000)
    _, seen = await make_store(connect)
    session = await one.open_session("one", lease_ms=2000)
    await one.commit([], [Write("brokers/1", b"x", session.id)])
    lost_s: list[float] = []
    session.on_loss(lambda: lost_s.append(time.monotonic()))
    await until(lambda: "brokers/1" in seen.entries)
    proxy.refuse()
    await until(lambda: not seen.entries)
    gone_s = time.monotonic()
    assert lost_s
    assert lost_s[0] <= gone_s
    assert not session.alive
    with pytest.raises(StoreUnavailable):
        await one.commit([], [Write("a", b"")])
    proxy.accept()
    await until(lambda: one._connection.connected)
    again = await one.open_session("one", lease_ms=2000)
    await one.commit([Check("brokers/1", ABSENT)], [Write("brokers/1", b"y", again.id)])
    await until(lambda: seen.values() == {"brokers/1": b"y"})


async def test_a_broker_whose_answers_do_not_arrive_gives_up_too(
    make_store: MakeStore, proxy: Proxy, chroot: str
) -> None:
    one, _ = await make_store(proxy.address + chroot, 2000)
    session = await one.open_session("one", lease_ms=2000)
    await one.commit([], [Write("brokers/1", b"x", session.id)])
    lost = asyncio.Event()
    session.on_loss(lost.set)
    proxy.answers_flow.clear()
    async with asyncio.timeout(PATIENCE_S):
        await lost.wait()
    proxy.answers_flow.set()


async def test_a_session_given_up_here_is_over_before_there_is_another(
    make_store: MakeStore, own_zookeeper: ZooKeeper
) -> None:
    """ZooKeeper is paused for longer than the session timeout, then continues: only the client has given the session
    up."""
    one, seen = await make_store(own_zookeeper.address, 1000)
    session = await one.open_session("one", lease_ms=1000)
    await one.commit([], [Write("brokers/1", b"x", session.id)])
    lost = asyncio.Event()
    session.on_loss(lost.set)
    os.kill(own_zookeeper.pid, signal.SIGSTOP)
    async with asyncio.timeout(PATIENCE_S):
        await lost.wait()
    os.kill(own_zookeeper.pid, signal.SIGCONT)
    await until(lambda: not seen.entries)
    again = await one.open_session("one", lease_ms=1000)
    await one.commit([Check("brokers/1", ABSENT)], [Write("brokers/1", b"y", again.id)])


async def test_a_short_cut_is_no_loss(make_store: MakeStore, proxy: Proxy, chroot: str) -> None:
    one, seen = await make_store(proxy.address + chroot)
    session = await one.open_session("one", lease_ms=9000)
    lost: list[int] = []
    session.on_loss(lambda: lost.append(1))
    await one.commit([], [Write("brokers/1", b"x", session.id)])
    noticed = asyncio.Event()  # a cut may be over in 40 ms, before anybody has looked
    on_suspended = one._connection._on_suspended

    def note() -> None:
        noticed.set()
        on_suspended()

    one._connection._on_suspended = note
    for n in range(3):
        noticed.clear()
        proxy.cut()
        await until(lambda: noticed.is_set() and one._connection.connected)
        await one.commit([], [Write("a", b"%d" % n)])
    assert seen.values() == {"brokers/1": b"x", "a": b"2"}
    assert session.alive
    assert not lost


async def test_the_feed_goes_on_with_what_was_missed(
    make_store: MakeStore, connect: str, proxy: Proxy, chroot: str
) -> None:
    one, seen = await make_store(proxy.address + chroot)
    two, _ = await make_store(connect)
    await two.commit([], [Write(f"k{n}", b"0") for n in range(10)])
    await until(lambda: len(seen.entries) == 10)
    proxy.refuse()
    await until(lambda: not one._connection.connected)
    await two.commit([], [Write("k3", None), Write("k4", b"1"), Write("new", b"1")])
    proxy.accept()
    revision, entries = await two.read("")
    await until(lambda: seen.revision >= revision)
    assert seen.entries == entries


async def test_the_feed_goes_on_where_the_log_has_been_pruned(
    make_store: MakeStore, connect: str, proxy: Proxy, chroot: str
) -> None:
    one, seen = await make_store(proxy.address + chroot, 30000)
    two, _ = await make_store(connect)
    await two.commit([], [Write("old", b"0"), Write("n", b"0")])
    await until(lambda: seen.entries)
    proxy.refuse()
    await until(lambda: not one._connection.connected)
    await two.commit([], [Write("old", None)])
    for n in range(LOG_KEEP + 2 * PRUNE_EVERY):
        await two.commit([], [Write("n", b"%d" % n)])
    names = await two._connection.call("get_children", two._path("log"))
    assert len(names) <= LOG_KEEP + 2 * PRUNE_EVERY
    proxy.accept()
    revision, entries = await two.read("")
    await until(lambda: seen.revision >= revision)
    assert seen.entries == entries


async def test_a_commit_whose_connection_is_cut_happens_or_not_but_not_half(
    make_store: MakeStore, connect: str, proxy: Proxy, chroot: str
) -> None:
    one, seen = await make_store(proxy.address + chroot)
    two, _ = await make_store(connect)
    outcomes = []
    for n in range(25):
        await until(lambda: one._connection.connected)
        if n % 2:
            proxy.answers_flow.clear()  # the commit arrives, its response does not
        task = asyncio.create_task(one.commit([], [Write("a", b"%d" % n), Write("b", b"%d" % n)]))
        await asyncio.sleep(0.002 * (n % 5))
        proxy.cut()
        proxy.answers_flow.set()
        try:
            await task
            outcomes.append("ok")
            assert (await two.read("a"))[1]["a"].value == b"%d" % n
        except StoreUnavailable:
            outcomes.append("unknown")
        values = {entry.value for entry in (await two.read(""))[1].values()}
        assert len(values) <= 1
    assert "unknown" in outcomes
    await until(lambda: one._connection.connected)
    await one.commit([], [Write("end", b"")])
    assert seen.entries == (await two.read(""))[1]


async def test_a_server_that_is_restarted_has_everything(make_store: MakeStore, own_zookeeper: ZooKeeper) -> None:
    one, seen = await make_store(own_zookeeper.address, 40000)
    session = await one.open_session("one", lease_ms=40000)
    await one.commit([], [Write("brokers/1", b"x", session.id), Write("a", b"1")])
    own_zookeeper.stop()
    await until(lambda: not one._connection.connected)
    with pytest.raises(StoreUnavailable):
        await one.commit([], [Write("a", b"2")])
    with pytest.raises(StoreUnavailable):
        await one.read("a")
    await asyncio.to_thread(own_zookeeper.start)
    await until(lambda: one._connection.connected)
    assert session.alive
    await one.commit([], [Write("a", b"3")])
    assert seen.values() == {"brokers/1": b"x", "a": b"3"}


async def test_a_large_commit_is_read_by_others_and_a_larger_one_is_refused(
    make_store: MakeStore, connect: str
) -> None:
    one, _ = await make_store(connect)
    _, seen = await make_store(connect)
    noise = random.Random(1).randbytes(400 * 1024)  # more than a log entry takes
    revision = await one.commit([], [Write("large", noise), Write("small", b"1")])
    await until(lambda: seen.revision >= revision)
    assert seen.values() == {"large": noise, "small": b"1"}
    with pytest.raises(Exception, match="ZooKeeper accepts at most"):
        await one.commit([], [Write(f"k{n}", noise) for n in range(3)])
    await one.commit([], [Write("small", b"2")])
    await until(lambda: seen.entries["small"].value == b"2")


async def test_two_chroots_are_two_clusters(make_store: MakeStore, connect: str) -> None:
    one, _ = await make_store(connect + "/a")
    two, _ = await make_store(connect + "/b/c")
    await one.commit([], [Write("k", b"1")])
    assert (await two.read(""))[1] == {}


async def test_a_newer_format_is_refused_by_name(make_store: MakeStore, connect: str, chroot: str) -> None:
    one, _ = await make_store(connect)
    await one._connection.call("set", one._base, b'{"v":2}')
    with pytest.raises(StoreFormatError, match="newer kwire"):
        await make_store(connect)


async def test_a_wrong_address_is_one_clear_line() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        await ZooKeeperStore(ZooKeeperSettings("127.0.0.1:1", connection_timeout_ms=500)).open()
    text = str(caught.value)
    assert text.startswith("zookeeper.connect=127.0.0.1:1: no connection within 500 ms")
    assert "refused" in text
    assert "\n" not in text


async def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(StoreUnavailable, match=r"no connection within 500 ms: .*no-such-host.invalid"):
        await ZooKeeperStore(ZooKeeperSettings("no-such-host.invalid:2181", connection_timeout_ms=500)).open()


async def test_odd_keys_come_back_as_they_were(make_store: MakeStore, connect: str) -> None:
    one, _ = await make_store(connect)
    keys = sorted([".", "..", "a/b", "a:b", "a%2fb", "a//b", "/", "Grüße/☃", "x" * 200, "\x00\x1f\ud7ff"])
    await one.commit([], [Write(key, key.encode()) for key in keys])
    _, seen = await make_store(connect)
    assert seen.values() == {key: key.encode() for key in keys}
