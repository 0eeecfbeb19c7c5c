"""Scripts of ConsumerGroupHeartbeat and related requests, valid and invalid: the same responses and visible state."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from compat_tests.comparisons.configs.requests import GROUP, SET, Configs
from compat_tests.comparisons.consumer_groups.script import LONG_MS, ConsumerScript, owned_of
from compat_tests.comparisons.groups.script import commit, heartbeat, join, leave, sync
from compat_tests.names import Names
from harness.processes.brokers import wait_until
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

WRONG: list[dict[str, Any]] = [
    {"group": ""},
    {"group": " "},
    {"member": ""},
    {"member": " "},
    {"instance_id": ""},
    {"rack_id": ""},
    {"rebalance_timeout_ms": -1},
    {"owned": None},
    {"owned": {b"x" * 16: [0]}},
    {"subscribed_topic_names": None},
    {"subscribed_topic_names": []},
    {"subscribed_topic_names": [], "subscribed_topic_regex": ""},
    {"server_assignor": "nobody"},
    {"server_assignor": ""},
    {"subscribed_topic_regex": "(unfinished"},
    {"subscribed_topic_regex": "a(?=b)"},
    {"subscribed_topic_regex": "(a)\\1"},
    {"epoch": 1},
    {"epoch": -1},
    {"epoch": -2},
    {"epoch": -2, "instance_id": "i"},
    {"epoch": -3},
]


@pytest.mark.parametrize("version", [0, 1])
def test_wrong_requests_are_refused_in_the_same_way(script: ConsumerScript, new_name: Names, version: int) -> None:
    topic = new_name()
    script.topic(topic, 2)
    script.ready(new_name("g"))
    for number, wrong in enumerate(WRONG):
        if version == 0 and "subscribed_topic_regex" in wrong:
            continue
        group = wrong.get("group", new_name(f"g{number}"))
        fields = {
            "rebalance_timeout_ms": LONG_MS,
            "owned": {},
            "subscribed_topic_names": [topic],
            **{name: value for name, value in wrong.items() if name not in ("group", "member", "epoch")},
        }
        member = wrong.get("member", "m")
        script.beat(f"wrong {wrong}", group, member, wrong.get("epoch", 0), version, **fields)
        if group.strip():
            script.look(group)


def test_the_coordinator_makes_ids_for_members_of_version_0(script: ConsumerScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 4)
    first = script.enter("joins", group, "", 0, subscribed_topic_names=[topic])
    script.look(group, 0)
    script.beat("beats", group, first.member_id, first.member_epoch, 0)
    script.enter("joins again", group, first.member_id, 0, subscribed_topic_names=[topic])
    script.beat("leaves", group, first.member_id, -1, 0)
    script.look(group, 0)


def test_static_members(script: ConsumerScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 4)
    enter: dict[str, Any] = {"subscribed_topic_names": [topic]}
    first = script.enter("a joins", group, "a", instance_id="i", **enter)
    script.enter("b takes its instance id", group, "b", instance_id="i", **enter)
    script.enter("a joins again", group, "a", instance_id="i", **enter)
    script.beat("b beats", group, "b", first.member_epoch, instance_id="i")
    script.beat("a beats under another instance id", group, "a", first.member_epoch, instance_id="j")
    script.beat("b leaves", group, "b", -2, instance_id="i")
    script.beat("a leaves for a while", group, "a", -2, instance_id="i")
    script.look(group)
    script.beat("a beats nevertheless", group, "a", first.member_epoch, instance_id="i")
    script.enter("b joins now", group, "b", instance_id="i", **enter)
    script.look(group)
    script.beat("a beats", group, "a", first.member_epoch, instance_id="i")
    script.enter("c joins", group, "c", **enter)
    script.beat("b leaves for a while again", group, "b", -2, instance_id="i")
    script.enter("d joins with another topic", group, "d", instance_id="i", subscribed_topic_names=["none"])
    script.look(group)
    script.call("d is removed", leave(group, ("", "i")), 5)
    script.look(group)


def test_regular_expressions(script: ConsumerScript, new_name: Names) -> None:
    prefix, group = new_name("rx"), new_name("g")
    script.ready(group)
    script.topic(f"{prefix}-a", 2)
    pattern = f"{prefix}-[ab]"
    first = script.enter("joins", group, "m", subscribed_topic_regex=pattern)  # the pattern is resolved later
    describe = ConsumerGroupDescribeRequest(group_ids=[group])
    wait_until(lambda: script.client("watch").call(describe, 1).groups[0].group_epoch > 1, 20, "the pattern's topics")
    beat = script.beat("beats", group, "m", first.member_epoch)
    script.look(group)
    second = script.enter("another joins with the same", group, "n", subscribed_topic_regex=pattern)
    script.beat("beats", group, "m", beat.member_epoch, owned=owned_of(beat))
    script.beat(
        "goes over to names",
        group,
        "m",
        second.member_epoch,
        owned={},
        subscribed_topic_regex="",
        subscribed_topic_names=[f"{prefix}-a"],
    )
    script.look(group)
    script.beat("wants nonsense", group, "n", second.member_epoch, subscribed_topic_regex="[")
    script.beat("leaves", group, "n", -1)
    script.look(group)
    script.call("deletes", DeleteGroupsRequest(groups_names=[group]), 2)
    script.beat("leaves", group, "m", -1)
    script.call("deletes", DeleteGroupsRequest(groups_names=[group]), 2)
    script.look(group)


def test_topics_change(script: ConsumerScript, new_name: Names) -> None:
    topic, other, group = new_name(), new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 2)
    member = script.enter("joins", group, "m", subscribed_topic_names=[topic, other])
    more = CreatePartitionsTopic(name=topic, count=3, assignments=None)
    (created,) = script.client().call(CreatePartitionsRequest(topics=[more], timeout_ms=20_000), 3).results
    assert created.error_code == 0, created
    member = script.beat_until_assigned("sees more partitions", group, "m", member.member_epoch)
    script.topic(other, 1)
    member = script.beat_until_assigned("sees a new topic", group, "m", member.member_epoch)
    script.look(group)
    script.client().call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=20_000), 5)
    member = script.beat_until_assigned("sees a topic go", group, "m", member.member_epoch)
    script.look(group)
    script.beat("reports", group, "m", member.member_epoch, owned=owned_of(member) or {})
    script.look(group)


def test_offsets_with_member_epochs(script: ConsumerScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 2)
    where = {(topic, 0): 5, (topic, 1): 6}
    script.call("commits to nothing", commit(group, where, member_id="m", generation_id_or_member_epoch=1), 9)
    first = script.enter("joins", group, "m", subscribed_topic_names=[topic])
    for epoch in (first.member_epoch, first.member_epoch - 1, first.member_epoch + 1, -1):
        for version in (8, 9):
            fields: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": epoch}
            script.call(f"commits in {epoch}", commit(group, where, **fields), version)
    script.call("somebody commits", commit(group, where, member_id="x", generation_id_or_member_epoch=1), 9)
    script.call("an administrator commits", commit(group, where, generation_id_or_member_epoch=-1), 9)
    gone = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    script.call("deletes offsets", OffsetDeleteRequest(group_id=group, topics=[gone]), 0)
    script.beat("leaves", group, "m", -1)
    script.call("an administrator commits", commit(group, where, generation_id_or_member_epoch=-1), 9)
    script.call("deletes offsets", OffsetDeleteRequest(group_id=group, topics=[gone]), 0)


def test_groups_of_other_types(script: ConsumerScript, new_name: Names) -> None:
    topic, classic, consumer = new_name(), new_name("classic"), new_name("consumer")
    script.ready(classic)
    script.ready(consumer)
    script.topic(topic, 2)
    script.call("joins", join(classic, protocols={"custom": b"x"}, protocol_type="other"), 3)
    script.until(classic, "CompletingRebalance")
    script.enter("the new protocol", classic, "m", subscribed_topic_names=[topic])
    script.look(classic)
    script.enter("joins", consumer, "m", subscribed_topic_names=[topic])
    script.describe("as a classic group", consumer, 5)
    script.describe("as a classic group", consumer)
    for types in (["consumer"], ["CLASSIC"], ["share"], []):
        listed = script.client().call(ListGroupsRequest(types_filter=types), 5).groups
        mine = [one for one in listed if one.group_id in (classic, consumer)]
        script.see(f"listed {types}", sorted(mine, key=lambda one: one.group_id))
    script.call("another type", join(consumer, protocols={"custom": b"x"}, protocol_type="other"), 5)
    script.call("beats", heartbeat(consumer, "m", 2), 4)
    script.call("is deleted", DeleteGroupsRequest(groups_names=[consumer]), 2)
    script.beat("leaves", consumer, "m", -1)
    script.look(consumer)
    joined = script.call("the classic protocol takes it", join(consumer), 3)
    script.call("syncs", sync(consumer, joined), 5)
    script.describe("now", consumer)
    script.look(consumer)


def test_a_group_has_its_own_intervals(script: ConsumerScript, new_name: Names) -> None:
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 1)
    changes = [("consumer.heartbeat.interval.ms", SET, "6000"), ("consumer.session.timeout.ms", SET, "50000")]
    configs = Configs(script.client())
    for name in (group, new_name("g")):  # when Apache Kafka shows the second, it follows the first
        assert configs.change(GROUP, name, *changes) == "NONE"
        wait_until(partial(configs.values, GROUP, name, 8), 20, "the intervals")
    script.enter("joins", group, "m", subscribed_topic_names=[topic])


def test_a_static_group_moves_there_and_back(script: ConsumerScript, new_name: Names) -> None:
    """Static members and the range assignor, so that nothing depends on generated member ids."""
    topic, group = new_name(), new_name("g")
    script.ready(group)
    script.topic(topic, 4)
    subscription = b"\0\1\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\xff\xff\xff\xff\0\0\0\0"
    protocols = {"range": subscription}
    joined = script.call("joins", join(group, instance="a", protocols=protocols), 5)
    assignment = b"\0\0\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode()
    assignment += b"\0\0\0\4" + b"".join(index.to_bytes(4, "big") for index in range(4)) + b"\xff\xff\xff\xff"
    script.call("syncs", sync(group, joined, {joined.member_id: assignment}, group_instance_id="a"), 5)
    new = script.enter(
        "the new protocol", group, "n", instance_id="n", server_assignor="range", subscribed_topic_names=[topic]
    )
    script.look(group)
    script.call("the old one beats", heartbeat(group, joined.member_id, joined.generation_id, "a"), 4)
    held = subscription[:-4] + b"\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode()

    def holding(*partitions: int) -> dict[str, bytes]:
        indexes = b"".join(index.to_bytes(4, "big") for index in partitions)
        return {"range": held + len(partitions).to_bytes(4, "big") + indexes}

    fields: dict[str, Any] = {"instance": "a", "protocols": holding(0, 1, 2, 3)}
    joined = script.call("and joins again", join(group, joined.member_id, **fields), 5)
    script.look(group)
    script.call("syncs", sync(group, joined, group_instance_id="a"), 5)
    script.call("beats", heartbeat(group, joined.member_id, joined.generation_id, "a"), 4)
    joined = script.call("joins", join(group, joined.member_id, instance="a", protocols=holding(0, 1)), 5)
    script.call("syncs", sync(group, joined, group_instance_id="a"), 5)
    script.look(group)
    new = script.beat("the new one gets its part", group, "n", new.member_epoch, instance_id="n")
    script.look(group)
    where = {(topic, 0): 3}
    fields = {"member_id": joined.member_id, "group_instance_id": "a"}
    script.call(
        "the old one commits", commit(group, where, generation_id_or_member_epoch=joined.generation_id, **fields), 8
    )
    script.beat("the new one leaves", group, "n", -1, instance_id="n")
    script.until(group, "PreparingRebalance")
    script.look(group)
    script.describe("classic again", group)
    script.call("beats", heartbeat(group, joined.member_id, joined.generation_id, "a"), 4)
    again = script.call("joins", join(group, joined.member_id, instance="a", protocols=protocols), 5)
    script.call("syncs", sync(group, again, {again.member_id: assignment}, group_instance_id="a"), 5)
    script.describe("stable", group)
