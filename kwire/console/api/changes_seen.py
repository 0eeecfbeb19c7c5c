"""What happens in a cluster while a page listens: whether it is there, leaders and in-sync replicas that change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kwire.cli.connection.errors import CommandError
from kwire.cli.connection.offsets import Partition
from kwire.console.calls import Call
from kwire.console.clusters import ClusterStatus, Connections
from kwire.console.events import Event
from kwire.console.failures import Refusal

INTERVAL_S: Final = 2.0
SHARE: Final = 20
"""A look at a large cluster costs its brokers time: the pause is at least so many times as long as the last one."""
CHANGES_MAX: Final = 2000
"""Partitions in one event."""


class PartitionState(NamedTuple):
    """A partition. ``leader``: None without one."""

    topic: str
    partition: int
    leader: int | None
    isr: list[int]


States = Mapping[Partition, PartitionState]


async def changes_seen(connections: Connections, call: Call) -> AsyncGenerator[Event]:
    """The events ``cluster`` (at the beginning, and when it changes) and ``partitions`` (those that have changed).
    ``topics`` of the query: only these, and at the beginning all of their partitions, because what the page has of them
    is older."""
    topics = [name for name in call.query.get("topics", "").split(",") if name] or None
    status: ClusterStatus | None = None
    known: States | None = {} if topics else None
    while True:
        began_s = asyncio.get_running_loop().time()
        now = await connections.status()
        if now != status:
            status = now
            yield Event("cluster", status)
        states = await _states(connections, topics) if now.status == "ok" else None
        if states is not None:
            if known is not None and (changed := _changed(known, states)):
                for first in range(0, len(changed), CHANGES_MAX):
                    yield Event("partitions", changed[first : first + CHANGES_MAX])
            known = states
        took_s = asyncio.get_running_loop().time() - began_s
        await asyncio.sleep(max(INTERVAL_S, SHARE * took_s if states is not None else 0))


async def _states(connections: Connections, topics: Iterable[str] | None) -> States | None:
    """The partitions as they are; None if the cluster does not say."""
    try:
        async with connections.open() as cluster:
            metadata = await cluster.metadata(topics)
    except (CommandError, Refusal):
        return None
    return {
        (topic.name, each.partition_index): _state(topic.name, each)
        for topic in metadata.topics
        if not topic.error_code
        for each in topic.partitions
    }


def _state(topic: str, partition: Any) -> PartitionState:
    leader = partition.leader_id if partition.leader_id >= 0 else None
    return PartitionState(topic, partition.partition_index, leader, sorted(partition.isr_nodes))


def _changed(known: States, states: States) -> list[PartitionState]:
    """New partitions, and those with another leader or other in-sync replicas."""
    return [state for each, state in states.items() if known.get(each) != state]
