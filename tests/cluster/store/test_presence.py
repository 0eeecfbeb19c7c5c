"""Brokers of one host that detect each other through the shared store's directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.waiting import until
from kwire.base.doors import Doors
from kwire.cluster.store.presence import Presence
from kwire.cluster.store.shared import SharedStore


async def test_a_broker_that_starts_watching_another_reads_its_earlier_commits(tmp_path: Path) -> None:
    """The other broker may have committed, and notified its connections, since the new one last read."""
    news: list[str] = []
    old = Presence(str(tmp_path), Doors(), lambda: news.append("old"), lambda _: None)
    new = Presence(str(tmp_path), Doors(), lambda: news.append("new"), lambda _: None)
    try:
        for number, presence in enumerate((old, new), 1):
            presence.claim(number)
            await presence.open(9000)
        old.watch([2])
        await until(lambda: "old" in news)
    finally:
        old.close()
        new.close()


async def test_a_session_is_not_visible_before_its_lock_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another broker that starts at the same time would regard it as the session of a dead process, and end it."""
    starting, other = SharedStore(str(tmp_path), Doors()), SharedStore(str(tmp_path), Doors())
    await starting.open()
    await other.open()
    seen: list[list[int]] = []
    claim = Presence.claim

    def watched(self: Presence, session: int) -> None:
        seen.append(other._database.sessions())
        claim(self, session)

    monkeypatch.setattr(Presence, "claim", watched)
    try:
        session = await starting.open_session("broker 1", lease_ms=9000)
        other._end_dead_sessions()
        assert (seen, other._database.sessions()) == ([[]], [session.id])
    finally:
        await starting.close()
        await other.close()


async def test_a_broker_that_was_paused_for_its_lease_is_not_sure_of_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other brokers may have ended it, so it asks the store before it relies on its session again."""
    store = SharedStore(str(tmp_path), Doors())
    await store.open()
    try:
        session = await store.open_session("broker 1", lease_ms=9000)
        alive = [session.alive]
        loop = asyncio.get_running_loop()
        now_s = loop.time
        monkeypatch.setattr(loop, "time", lambda: now_s() + 9.5)
        assert [*alive, session.alive] == [True, False]
        session.presence._on_beat()
        await until(lambda: session.alive)
    finally:
        monkeypatch.undo()
        await store.close()
