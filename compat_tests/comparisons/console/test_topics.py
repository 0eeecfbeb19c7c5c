"""Clusters and topics in the console."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.console.asgi_client import AsgiClient
from harness.console.in_process import statuses
from harness.observations import Observations


async def listed(console: AsgiClient, name: str) -> Any:
    answer = await console.get("/api/topics")
    assert answer.status == 200
    [row] = [each for each in answer.json() if each["name"] == name]
    return row


async def test_the_cluster_is_shown(console: AsgiClient, observe: Observations) -> None:
    [status] = await statuses(console)
    assert (status["status"], status["brokers"], status["error"]) == ("ok", 1, None)
    observe("what the broker lacks", status["lacks"])


async def test_topics_are_listed(console: AsgiClient, make_topic: Callable[..., str], observe: Observations) -> None:
    name = make_topic(3)
    observe("row", await listed(console, name) | {"name": "topic"})
