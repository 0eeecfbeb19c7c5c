"""Selecting the replica that a consumer fetches from."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.cluster.metadata.image import BrokerImage, ClusterImage, Endpoint
from kwire.cluster.replication.partition import Partition
from kwire.cluster.replication.selector import closest
from kwire.cluster.store.keys import PartitionState
from tests.cluster.helpers import FakeLog, partition_on

ME = 1
RACKS = {1: "a", 2: "b", 3: "b", 4: "c", 5: None}
END = 10


def image(**changes: Any) -> ClusterImage:
    endpoints = {"PLAINTEXT": Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT")}
    brokers = {each: BrokerImage(each, 1, endpoints, rack) for each, rack in RACKS.items()}
    return ClusterImage(brokers={**brokers, **changes.get("brokers", {})})


def partition(*ends: tuple[int, int], isr: tuple[int, ...] = (1, 2, 3, 4, 5)) -> Partition:
    """Led by broker 1 and ending at 10; ``ends``: (broker, its log end offset)."""
    log = FakeLog()
    log.log_end_offset = END
    made = partition_on(ME, log)
    made.update(PartitionState((1, 2, 3, 4, 5), isr, ME, 0, 0))
    for replica, end in ends:
        made.follower_at(replica, end, start_offset=2)
    return made


async def test_the_follower_in_the_consumers_rack_is_selected() -> None:
    assert closest(partition((4, END)), 5, "c", "PLAINTEXT", image()) == 4


@pytest.mark.parametrize("rack", ["", None, "a", "elsewhere"])
async def test_the_leader_serves_its_own_rack_and_racks_without_replicas(rack: str | None) -> None:
    assert closest(partition((2, END), (4, END)), 5, rack, "PLAINTEXT", image()) is None


async def test_the_follower_with_the_highest_log_end_offset_is_selected() -> None:
    assert closest(partition((2, 9), (3, 8)), 5, "b", "PLAINTEXT", image()) == 2
    assert closest(partition((2, 8), (3, 9)), 5, "b", "PLAINTEXT", image()) == 3
    assert closest(partition((2, 9), (3, 9)), 5, "b", "PLAINTEXT", image()) == 3


@pytest.mark.parametrize(("offset", "found"), [(1, None), (2, 4), (7, 4), (8, None)])
async def test_a_follower_must_have_the_offset(offset: int, found: int | None) -> None:
    assert closest(partition((4, 7)), offset, "c", "PLAINTEXT", image()) == found


async def test_a_follower_that_has_not_fetched_yet_is_not_selected() -> None:
    assert closest(partition(), 0, "c", "PLAINTEXT", image()) is None


async def test_a_follower_that_is_not_in_sync_is_not_selected() -> None:
    assert closest(partition((4, END), isr=(1, 2)), 5, "c", "PLAINTEXT", image()) is None


async def test_a_follower_that_the_consumer_cannot_reach_is_not_selected() -> None:
    assert closest(partition((4, END)), 5, "c", "OUTSIDE", image()) is None
    gone = image()
    del gone.brokers[4]
    assert closest(partition((4, END)), 5, "c", "PLAINTEXT", gone) is None
