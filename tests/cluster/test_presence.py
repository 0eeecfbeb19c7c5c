"""Brokers of one host that see each other through the shared store's directory."""

from __future__ import annotations

from kwire.base.doors import Doors
from kwire.cluster.presence import Presence
from tests.waiting import until


async def test_who_begins_to_watch_a_broker_looks_for_what_it_has_written_before(tmp_path):
    """Its commit may have been made, and told to all who were connected, since the one who comes last looked."""
    news: list[str] = []
    old = Presence(str(tmp_path), Doors(), lambda: news.append("old"), lambda _: None)
    new = Presence(str(tmp_path), Doors(), lambda: news.append("new"), lambda _: None)
    try:
        await old.open(1, 9000)
        await new.open(2, 9000)
        old.watch([2])
        await until(lambda: "old" in news)
    finally:
        old.close()
        new.close()
