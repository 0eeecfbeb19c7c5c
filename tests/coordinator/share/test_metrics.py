"""What the share coordinator measures."""

from __future__ import annotations

import asyncio
from typing import Any

from kwire.base.metrics import MetricsRegistry
from kwire.coordinator.share.metrics import ShareCoordinatorMetrics

PREFIX = "kafka.server:type=share-coordinator-metrics,name="


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def shown(measured: ShareCoordinatorMetrics, clock: Clock) -> dict[str, Any]:
    registry = MetricsRegistry(clock)
    measured.add(registry)
    return {name.removeprefix(PREFIX): value for name, value in registry.snapshot().items() if name.startswith(PREFIX)}


async def test_writes_are_counted_and_their_requests_timed() -> None:
    clock = Clock()
    measured = ShareCoordinatorMetrics(clock)
    assert set(shown(measured, clock).values()) == {0}
    assert measured.time_writes(lambda: ["at once"]) == ["at once"]
    measured.wrote()
    measured.wrote()
    pending: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
    answer = measured.time_writes(lambda: pending)
    clock.now_s += 0.5
    pending.set_result(["later"])
    assert await answer == ["later"]
    found = shown(measured, clock)
    assert (found["write-total"], found["write-latency-max"], found["write-latency-avg"]) == (2, 500, 250)
    assert found["write-rate"] > 0


def test_loading_and_pruning_are_shown() -> None:
    clock = Clock()
    measured = ShareCoordinatorMetrics(clock)
    clock.now_s += 0.25
    measured.loaded(clock.now_s - 0.25)
    measured.pruned[3] = 17
    found = shown(measured, clock)
    assert (found["partition-load-time-max"], found["partition-load-time-avg"]) == (250, 250)
    assert found["last-pruned-offset,topic=__share_group_state,partition=3"] == 17
