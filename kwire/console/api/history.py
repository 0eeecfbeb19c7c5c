"""The lag of groups over time: sampled while a page looks at a group, and kept for a while.

Memory is bounded by numbers: `GROUPS_MAX` groups, `TOPICS_MAX` topics each, `SAMPLES_MAX` samples.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from typing import Final, NamedTuple

from kwire.cli.connection.errors import CommandError
from kwire.cli.groups.description import describe_group
from kwire.console.api.groups import lag_rows
from kwire.console.calls import Call
from kwire.console.clusters import Connections
from kwire.console.failures import Refusal, unknown

INTERVAL_S: Final = 5.0
WATCHED_S: Final = 60.0
"""For how long a group is sampled after a page has asked for it."""
GROUPS_MAX: Final = 50
TOPICS_MAX: Final = 50
SAMPLES_MAX: Final = 720
MINUTES_MAX: Final = 60

Sample = tuple[int, dict[str, int]]
"""Milliseconds since 1970, and the lag by topic."""


class History(NamedTuple):
    """Samples of a group: times in milliseconds since 1970, and for each topic the lag at these times."""

    times: list[int]
    topics: dict[str, list[int | None]]


class _Watched:
    """A group that is sampled."""

    def __init__(self, connections: Connections, group: str) -> None:
        self._connections = connections
        self._group = group
        self.samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self.wanted_s = 0.0
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Sample until nobody has asked for a while. A cluster that does not answer leaves a gap."""
        loop = asyncio.get_running_loop()
        while loop.time() - self.wanted_s < WATCHED_S:
            await asyncio.sleep(INTERVAL_S)
            try:
                await self.sample()
            except (CommandError, Refusal, TimeoutError):
                continue

    async def sample(self) -> None:
        """Take a sample. `CommandError`, `Refusal`."""
        async with self._connections.open() as cluster:
            described = await describe_group(cluster, self._group)
            rows = await lag_rows(cluster, self._group, described, {})
        if described is None and not rows:
            raise unknown("group", f"group {self._group}: there is no such group")
        lags: dict[str, int] = {}
        for row in rows:
            if row.lag is not None and (row.topic in lags or len(lags) < TOPICS_MAX):
                lags[row.topic] = lags.get(row.topic, 0) + row.lag
        self.samples.append((time.time_ns() // 1_000_000, lags))


class Histories:
    """The histories of all groups that pages have looked at lately."""

    def __init__(self) -> None:
        self._watched: OrderedDict[tuple[str, str], _Watched] = OrderedDict()

    async def history(self, connections: Connections, call: Call) -> History:
        """The samples of the last ``minutes``; the first request takes one. `CommandError`, `Refusal`."""
        minutes = call.number("minutes", MINUTES_MAX, 1, MINUTES_MAX)
        watched = await self._watch(connections, call.path["group"])
        since_ms = time.time_ns() // 1_000_000 - minutes * 60_000
        samples = [each for each in watched.samples if each[0] >= since_ms]
        topics = sorted({topic for _, lags in samples for topic in lags})
        return History([ms for ms, _ in samples], {each: [lags.get(each) for _, lags in samples] for each in topics})

    async def _watch(self, connections: Connections, group: str) -> _Watched:
        key = (connections.target.name, group)
        watched = self._watched.get(key)
        if watched is None:
            watched = _Watched(connections, group)
            await watched.sample()
            watched = self._watched.setdefault(key, watched)
            self._forget_oldest()
        self._watched.move_to_end(key)
        watched.wanted_s = asyncio.get_running_loop().time()
        if watched.task is None or watched.task.done():
            watched.task = asyncio.create_task(watched.run())
        return watched

    def _forget_oldest(self) -> None:
        while len(self._watched) > GROUPS_MAX:
            _, oldest = self._watched.popitem(last=False)
            if oldest.task is not None:
                oldest.task.cancel()

    def close(self) -> None:
        """Take no more samples."""
        for each in self._watched.values():
            if each.task is not None:
                each.task.cancel()
