"""The share coordinator: the same requests get the same responses from both brokers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.comparisons.configs.requests import wait_until
from compat_tests.comparisons.share_state.requests import UNKNOWN_TOPIC, Batch, ShareStates, plain
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker
from kwire.base.uuids import uuid_to_text
from kwire.codec.messages import delete_share_group_state_request as deletes
from kwire.codec.messages import initialize_share_group_state_request as initializes
from kwire.codec.messages import read_share_group_state_request as reads
from kwire.codec.messages import read_share_group_state_summary_request as summaries
from kwire.codec.messages import write_share_group_state_request as writes

STEPS = 150


@pytest.fixture
def states(broker: Broker, make_topic: Callable[..., str], new_name: Names) -> Iterator[ShareStates]:
    """A group of the test's own, whose coordinator is there, and a topic of one partition."""
    made = ShareStates(broker, new_name("group"), make_topic())
    try:
        wait_until(lambda: made.find(made.key()) == "NONE")
        wait_until(lambda: made.delete(0)["error"] == "NONE")
        yield made
    finally:
        made.client.close()


def test_the_life_of_a_share_partition(states: ShareStates, observe: Observations) -> None:
    observe("summary of nothing", states.summary(0))
    observe("read of nothing", states.read(0))
    observe("write of nothing", states.write(0, []))
    observe("initialize", states.initialize(0, 1, -1))
    observe("summary", states.summary(0))
    observe("old summary", states.summary(0, version=0))
    observe("read by a leader", states.read(0, 5))
    observe(
        "write by it", states.write(0, [(0, 9, 2, 1), (5, 14, 0, 1)], state_epoch=1, leader_epoch=5, start_offset=3)
    )
    observe("write by a former one", states.write(0, [], state_epoch=1, leader_epoch=4))
    observe("write of a former state", states.write(0, [], state_epoch=0, leader_epoch=5))
    observe("write by nobody", states.write(0, [(20, 20, 4, 2)], state_epoch=-1, leader_epoch=-1, complete=3))
    observe("old write", states.write(0, [(21, 21, 4, 2)], state_epoch=1, leader_epoch=9, version=0))
    observe("read by nobody", states.read(0))
    observe("read by a former leader", states.read(0, 4))
    observe("initialize with an old epoch", states.initialize(0, 0, 50))
    observe("initialize again", states.initialize(0, 2, 50))
    observe("summary after it", states.summary(0))
    observe("read by the leader after it", states.read(0, 5))
    observe("delete", states.delete(0))
    observe("delete again", states.delete(0))
    observe("read after it", states.read(0))
    observe("initialize after it", states.initialize(0, 0, 7))
    observe("summary at last", states.summary(0))


@pytest.mark.parametrize("where", ["no such partition", "a negative partition", "no such topic", "no topic"])
def test_what_does_not_exist(states: ShareStates, observe: Observations, where: str) -> None:
    partition = {"no such partition": 3, "a negative partition": -1}.get(where, 0)
    states.topic_id = {"no such topic": UNKNOWN_TOPIC, "no topic": bytes(16)}.get(where, states.topic_id)
    observe("initialize", states.initialize(partition, 0, 0))
    observe("write", states.write(partition, []))
    observe("read", states.read(partition))
    observe("summary", states.summary(partition))
    observe("delete", states.delete(partition))


@pytest.mark.parametrize("kind", ["group", "topics", "partitions"])
def test_requests_with_nothing_in_them(states: ShareStates, observe: Observations, kind: str) -> None:
    group = "" if kind == "group" else states.group
    kinds: list[tuple[str, int, type[Any], type[Any], type[Any]]] = [
        (
            "initialize",
            0,
            initializes.InitializeShareGroupStateRequest,
            initializes.InitializeStateData,
            initializes.PartitionData,
        ),
        ("read", 0, reads.ReadShareGroupStateRequest, reads.ReadStateData, reads.PartitionData),
        ("write", 1, writes.WriteShareGroupStateRequest, writes.WriteStateData, writes.PartitionData),
        (
            "summary",
            1,
            summaries.ReadShareGroupStateSummaryRequest,
            summaries.ReadStateSummaryData,
            summaries.PartitionData,
        ),
        ("delete", 0, deletes.DeleteShareGroupStateRequest, deletes.DeleteStateData, deletes.PartitionData),
    ]
    for name, version, request, topic, partition in kinds:
        whole = topic(topic_id=states.topic_id, partitions=[partition(partition=0)])
        empty = topic(topic_id=states.topic_id, partitions=[])
        topics = [] if kind == "topics" else [empty, whole] if kind == "partitions" else [whole]
        results = states.client.call(request(group_id=group, topics=topics), version).results
        observe(name, [[plain(each) for each in result.partitions] for result in results])


def test_coordinators(states: ShareStates, observe: Observations) -> None:
    topic_id = uuid_to_text(states.topic_id)
    for key in (
        f"g:{topic_id}:0",
        f"g:{topic_id}:99",
        f"g:with:colons:{topic_id}:1",
        f":{topic_id}:0",
        f"g:{topic_id}",
        f"g:{topic_id}:x",
        f"g:{topic_id}:-1",
        f"g:{topic_id}:+1",
        f"g:{topic_id}: 1",
        f"g:{topic_id}:2147483647",
        f"g:{topic_id}:2147483648",
        "g:not-an-id:0",
        f"g::{topic_id}:0",
        f"g:{uuid_to_text(bytes(16))}:0",
        "",
        "::",
    ):
        observe(key.replace(topic_id, "ID"), states.find(key))
    observe("old version", states.find(f"g:{topic_id}:0", 5))


@pytest.mark.parametrize("seed", range(4))
def test_random_requests(states: ShareStates, observe: Observations, seed: int) -> None:
    choose = random.Random(seed)
    seen = [_step(states, choose) for _ in range(STEPS)]
    for start in range(0, STEPS, 10):
        observe(f"steps from {start}", seen[start : start + 10])


def _step(states: ShareStates, choose: random.Random) -> dict[str, Any]:
    partition = choose.randrange(1)
    epochs = {"state_epoch": choose.choice((-1, 0, 1, 2)), "leader_epoch": choose.choice((-1, 0, 1, 2, 3))}
    what = choose.choice(("initialize", "read", "summary", "delete", *["write"] * 12, "read", "read"))
    present = states.summary(partition)["start_offset"]
    if what == "initialize":
        start = choose.choice((0, 5, 30))  # not -1: Kafka begins a state anew, kwire keeps it (COMPAT.md)
        return {what: states.initialize(partition, choose.choice((-1, 0, 1, 1, 2)), start)}
    if what == "delete" and choose.random() < 0.8:
        what = "summary"
    if what == "read":
        return {what: states.read(partition, epochs["leader_epoch"])}
    if what != "write":
        return {what: getattr(states, what)(partition)}
    batches = [_batch(choose) for _ in range(choose.randrange(5))]
    start, complete = choose.choice((-1, -1, 0, 5, 10, 20, 30)), choose.choice((-1, 0, 3))
    if start < present:
        start = -1  # Kafka goes back to it, kwire does not (COMPAT.md)
    return {what: states.write(partition, batches, start_offset=start, complete=complete, **epochs)}


def _batch(choose: random.Random) -> Batch:
    first = choose.randrange(40)
    return first, first + choose.choice((0, 0, 1, 3, 9)), choose.choice((0, 2, 4)), choose.choice((1, 1, 2, 3))
