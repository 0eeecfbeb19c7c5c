"""Health checks ask a broker for facts about itself, not for the rows of all its partitions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kwire.base.config import KafkaConfig
from kwire.metrics.brokers import ask_all
from kwire.server.metrics_endpoint.endpoint import MetricsEndpoint


class Snapshots:
    """A broker's snapshots; ``walks`` counts how often its rows were asked for."""

    def __init__(self) -> None:
        self.walks = 0

    def facts(self) -> dict[str, Any]:
        return {"broker": 1, "ready": True}

    def rows(self) -> list[list[Any]]:
        self.walks += 1
        return [["metric", "m", 1]]


class Ends:
    """No other broker leads anything."""

    async def rows(self, wanted: object) -> list[Any]:
        return []


async def test_facts_are_had_without_rows(tmp_path: Path) -> None:
    path, snapshots = str(tmp_path / "metrics.sock"), Snapshots()
    config = KafkaConfig({"log.dirs": str(tmp_path), "kwire.metrics.listen": f"unix:{path}"})
    endpoint = MetricsEndpoint(config, snapshots, Ends())  # type: ignore[arg-type]
    await endpoint.open()
    try:
        facts = await asyncio.to_thread(ask_all, {"": path}, facts_only=True)
        assert (facts, snapshots.walks) == ({"": ([], snapshots.facts())}, 0)
        whole = await asyncio.to_thread(ask_all, {"": path})
        assert (whole, snapshots.walks) == ({"": ([["metric", "m", 1]], snapshots.facts())}, 1)
    finally:
        await endpoint.close()
