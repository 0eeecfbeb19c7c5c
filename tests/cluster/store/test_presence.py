"""Brokers of one host that see each other through the shared store's directory."""

from __future__ import annotations

import pytest

from harness.waiting import until
from kwire.base.doors import Doors
from kwire.cluster.store.presence import Presence
from kwire.cluster.store.shared import SharedStore


async def test_who_begins_to_watch_a_broker_looks_for_what_it_has_written_before(tmp_path):
    """Its commit may have been made, and told to all who were connected, since the one who comes last looked."""
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


async def test_a_session_is_not_heard_of_before_its_lock_is_held(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A broker that starts at the same moment would take it for that of a dead one, and end it."""
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
        other._end_the_dead()
        assert (seen, other._database.sessions()) == ([[]], [session.id])
    finally:
        await starting.close()
        await other.close()
