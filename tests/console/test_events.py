"""What a page that listens is told: a cluster that goes, a topic that comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from harness.console.asgi_client import AsgiClient, Event
from harness.console.in_process import broker, console
from kwire.console import clusters
from kwire.console.api import changes_seen


async def test_changes_of_a_cluster_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_seen, "INTERVAL_S", 0.02)
    monkeypatch.setattr(changes_seen, "SHARE", 0)
    monkeypatch.setattr(clusters, "FRESH_S", 0.0)
    async with console("127.0.0.1:1", allow_changes=True) as client, client.events("/api/events") as events:
        await until_status(events, "unreachable")
    async with (
        broker(tmp_path) as bootstrap,
        console(bootstrap, allow_changes=True) as client,
        client.events("/api/events") as events,
    ):
        await until_status(events, "ok")
        making = asyncio.create_task(_make_topics(client))
        async for event in events:
            if event.name == "partitions":
                assert event.data[0]["topic"].startswith("t")
                assert (event.data[0]["leader"], event.data[0]["isr"]) == (1, [1])
                break
        making.cancel()


async def until_status(events: AsyncGenerator[Event], status: str) -> None:
    """Wait until the cluster is told to have a status; at first it may be ``connecting``."""
    while (event := await anext(events)).data["status"] != status:
        assert (event.name, event.data["status"]) == ("cluster", "connecting")


async def _make_topics(client: AsgiClient) -> None:
    """Go on making topics: which of them comes after the first look is chance."""
    for number in range(1000):
        await client.ask("POST", "/api/topics", {"name": f"t{number}"})
        await asyncio.sleep(0.05)
