"""The ends of partitions that others lead are asked of their leaders, seldom, and never for longer than a while."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kwire.cluster.metadata.image import BrokerImage, ClusterImage, MetadataCache, TopicImage
from kwire.cluster.replication.peers import Peers, PeerUnavailable
from kwire.cluster.store.keys import PartitionState
from kwire.codec.messages.list_offsets_request import ListOffsetsRequest
from kwire.codec.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.server.metrics_endpoint import ends
from kwire.server.metrics_endpoint.ends import BATCH, FRESH_S, KEPT_S, LeaderEnds

HERE, LEADER, OTHER, GONE = 1, 2, 3, 4


class Leaders:
    """Brokers that respond to ListOffsets: each end is the partition's number and a hundred. ``mute``: those that do
    not respond; ``gone``: those that cannot be reached."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []  # broker, partitions
        self.mute: set[int] = set()
        self.gone: set[int] = set()
        self.grown = 0

    async def call(self, broker_id: int, request: ListOffsetsRequest, version: int, *, timeout_s: float) -> Any:
        self.asked.append((broker_id, sum(len(topic.partitions) for topic in request.topics)))
        if broker_id in self.mute:
            await asyncio.Event().wait()
        if broker_id in self.gone:
            raise PeerUnavailable("gone")
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, offset=each.partition_index + 100 + self.grown
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


class Time:
    """The clock of the ends, set by hand."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def _image(partitions: int) -> ClusterImage:
    """Partitions whose leaders are in turn this broker, two others, and one that does not run."""
    states = tuple(
        PartitionState((leader,), (leader,), leader, 0, 0)
        for leader, _ in zip([HERE, LEADER, OTHER, GONE] * partitions, range(partitions), strict=False)
    )
    brokers = {each: cast(BrokerImage, object()) for each in (HERE, LEADER, OTHER)}
    return ClusterImage(brokers=brokers, topics={"t": TopicImage("t", bytes(16), states)})


def _ends(leaders: Leaders, partitions: int = 8) -> tuple[LeaderEnds, Time]:
    clock = Time()
    metadata = cast(MetadataCache, SimpleNamespace(image=_image(partitions)))
    return LeaderEnds(cast(Peers, leaders), metadata, HERE, clock), clock


ALL = [("t", index) for index in range(8)]


async def test_other_brokers_are_asked_for_what_they_lead() -> None:
    leaders = Leaders()
    made, _ = _ends(leaders)
    assert await made.rows([*ALL, ("t", 99), ("unknown", 0)]) == [
        ["end", "t", [[1, 101], [2, 102], [5, 105], [6, 106]]]
    ]
    assert sorted(leaders.asked) == [(LEADER, 2), (OTHER, 2)]


async def test_without_such_partitions_nobody_is_asked() -> None:
    leaders = Leaders()
    made, _ = _ends(leaders)
    assert await made.rows([("t", 0), ("t", 4)]) == []
    assert leaders.asked == []


async def test_scrapes_shortly_after_one_another_share_what_was_found() -> None:
    leaders = Leaders()
    made, clock = _ends(leaders)
    first, second = await asyncio.gather(made.rows(ALL), made.rows(ALL))
    assert first == second and len(leaders.asked) == 2
    leaders.grown = 7
    clock.now_s += FRESH_S + 0.1
    assert await made.rows([("t", 1)]) == [["end", "t", [[1, 108]]]]


async def test_many_partitions_are_asked_in_parts() -> None:
    leaders = Leaders()
    made, _ = _ends(leaders, 4 * BATCH + 8)
    [row] = await made.rows(("t", index) for index in range(4 * BATCH + 8))
    assert len(row[2]) == 2 * BATCH + 4
    assert sorted(leaders.asked) == [(LEADER, 2), (LEADER, BATCH), (OTHER, 2), (OTHER, BATCH)]


@pytest.mark.parametrize("trouble", ["mute", "gone"])
async def test_what_a_leader_said_last_serves_for_a_while(trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "ASK_S", 0.01)
    leaders = Leaders()
    made, clock = _ends(leaders)
    before = await made.rows(ALL)
    getattr(leaders, trouble).add(LEADER)
    clock.now_s += FRESH_S + 0.1
    assert await made.rows(ALL) == before
    asked = leaders.asked.count((LEADER, 2))
    await made.rows(ALL)
    assert leaders.asked.count((LEADER, 2)) == asked  # not again at once
    clock.now_s += KEPT_S
    assert await made.rows(ALL) == [["end", "t", [[2, 102], [6, 106]]]]
