"""Committed offsets and administration of groups: every version, valid and invalid, on both brokers."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.comparisons.groups.script import LONG_MS, Script, commit, fetch, heartbeat, join, leave, sync
from compat_tests.names import Names
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

STRANGE_ID = b"no topic has it!"


@pytest.fixture
def group(script: Script, new_name: Names) -> str:
    name = new_name("group")
    script.ready(name)
    script.topic("tt")
    return name


def member_of(script: Script, group: str) -> Any:
    member = script.call("join", join(group), 3)
    script.call("sync", sync(group, member, {member.member_id: b"A"}), 3)
    return member


def delete_offsets(group: str, partitions: dict[str, list[int]]) -> OffsetDeleteRequest:
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in partitions.items()
    ]
    return OffsetDeleteRequest(group_id=group, topics=topics)


@pytest.mark.parametrize("version", range(2, 11))
def test_a_member_commits(script: Script, group: str, version: int) -> None:
    ids = {"tt": script.topic("tt"), "none": STRANGE_ID}
    member = member_of(script, group)
    me: dict[str, Any] = {"member_id": member.member_id, "generation_id_or_member_epoch": 1, "ids": ids}
    epoch: dict[str, Any] = {"leader_epoch": 0} if version >= 6 else {}
    script.call("commit", commit(group, {("tt", 0): 5, ("tt", 1): 6}, **me, **epoch), version)
    script.call("again", commit(group, {("tt", 0): 7}, metadata=None, **me), version)
    script.call("back", commit(group, {("tt", 1): -3}, metadata="", **me), version)
    mixed = {("none", 0): 1, ("tt", 9): 1, ("tt", 0): 8, ("tt", -1): 1}
    script.call("what is not there", commit(group, mixed, **me), version)
    many = {(name, index): 12 for name in ("none", "tt") for index in range(400)}
    script.call("very many", commit(group, many, **me), version)
    script.call("nothing there", commit(group, {("none", 0): 1}, **me), version)
    script.call("nothing", commit(group, {}, **me), version)
    script.call("metadata", commit(group, {("tt", 0): 9}, metadata="x" * 4096, **me), version)
    script.call("too much", commit(group, {("tt", 0): 10}, metadata="x" * 4097, **me), version)
    changes: dict[str, dict[str, Any]] = {
        "wrong generation": {"generation_id_or_member_epoch": 2},
        "no generation": {"generation_id_or_member_epoch": -1},
        "stranger": {"member_id": "stranger"},
        "nobody": {"member_id": "", "generation_id_or_member_epoch": -1},
        "nobody in a generation": {"member_id": ""},
    }
    for what, changed in changes.items():
        script.call(what, commit(group, {("tt", 0): 99}, **(me | changed)), version)
    if version >= 7:
        script.call("instance", commit(group, {("tt", 0): 99}, group_instance_id="i", **me), version)
    if version <= 4:
        script.call("retention", commit(group, {("tt", 0): 11}, retention_time_ms=LONG_MS, **me), version)
    script.call(
        "stranger and what is not there",
        commit(group, {("none", 0): 1, ("tt", 0): 1}, ids=ids, member_id="stranger", generation_id_or_member_epoch=1),
        version,
    )
    script.call("missing group", commit(group + "-not", {("tt", 0): 1}, **me), version)
    script.call("empty group id", commit("", {("tt", 0): 1}, **me), version)
    script.call("all", fetch(7, group, None), 7)
    script.written(group)


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_read(script: Script, group: str, version: int) -> None:
    ids = {"tt": script.topic("tt"), "none": STRANGE_ID}
    script.call("commit", commit(group, {("tt", 0): 5, ("tt", 1): 6}, leader_epoch=3), 8)
    script.call("some", fetch(version, group, {"tt": [1, 0, 7, -1], "none": [0]}, ids), version)
    script.call("twice", fetch(version, group, {"tt": [1, 1]}, ids), version)
    script.call("none", fetch(version, group, {}, ids), version)
    script.call("missing group", fetch(version, group + "-not", {"tt": [0]}, ids), version)
    if version >= 2:
        script.call("all", fetch(version, group, None), version)
        script.call("all of a missing group", fetch(version, group + "-not", None), version)
    if version >= 7:
        request = fetch(version, group, {"tt": [0]}, ids)
        request.require_stable = True
        script.call("stable", request, version)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offsets_of_many_groups_are_read(script: Script, group: str, version: int) -> None:
    topic_id = script.topic("tt")
    script.call("commit", commit(group, {("tt", 0): 5}), 8)
    script.call("commit", commit(group + "-2", {("tt", 1): 6}), 8)
    some = [OffsetFetchRequestTopics(name="tt", topic_id=topic_id, partition_indexes=[0, 1])]
    groups = [
        OffsetFetchRequestGroup(group_id=group, topics=some),
        OffsetFetchRequestGroup(group_id=group + "-2", topics=None),
        OffsetFetchRequestGroup(group_id=group + "-not", topics=None),
        OffsetFetchRequestGroup(group_id=group, topics=None),
    ]
    if version >= 9:
        groups.append(OffsetFetchRequestGroup(group_id=group, member_id="m", member_epoch=4, topics=some))
    script.call("many", OffsetFetchRequest(groups=groups), version)
    script.call("none", OffsetFetchRequest(groups=[]), version)


def test_a_simple_group(script: Script, group: str) -> None:
    script.call("commit", commit(group, {("tt", 0): 5}), 8)
    script.describe("simple", group)
    script.call("with a member id", commit(group, {("tt", 0): 6}, member_id="m"), 8)
    script.call("with a generation", commit(group, {("tt", 0): 7}, generation_id_or_member_epoch=0), 8)
    script.call("refused", commit(group + "-2", {("tt", 0): 7}, metadata="x" * 5000), 8)
    script.describe_absent("refused, so not there", group + "-2")
    script.call("nobody", commit(group + "-3", {}), 8)
    script.describe_absent("not there", group + "-3")
    script.call("not known", commit(group + "-4", {("none", 0): 1}), 8)
    script.describe_absent("not there", group + "-4")
    member = member_of(script, group)
    script.call("not simple any more", commit(group, {("tt", 0): 8}), 8)
    script.call("left", leave(group, (member.member_id, None)), 5)
    script.call("simple again", commit(group, {("tt", 0): 9}), 8)
    script.call("all", fetch(8, group, None), 8)
    script.written(group)


def test_commits_around_a_rebalance(script: Script, group: str) -> None:
    member = script.call("join", join(group), 3, "a")
    me = {"member_id": member.member_id, "generation_id_or_member_epoch": 1}
    script.call("while the leader assigns", commit(group, {("tt", 0): 1}, **me), 8)
    script.call("sync", sync(group, member, {}), 3, "a")
    parked = script.send(join(group), 3, "b")
    script.until(group, "PreparingRebalance")
    script.call("while members join", commit(group, {("tt", 0): 2}, **me), 8)
    script.call("join", join(group, member.member_id), 3, "a")
    script.receive("b joined", parked)
    script.call("old generation", commit(group, {("tt", 0): 3}, **me), 8)
    script.call("all", fetch(8, group, None), 8)


def test_a_fenced_member_cannot_commit(script: Script, group: str) -> None:
    old = script.call("join", join(group, instance="i"), 9)
    script.call("sync", sync(group, old, {}, group_instance_id="i"), 5)
    new = script.call("join", join(group, instance="i"), 9)
    epoch: dict[str, Any] = {"generation_id_or_member_epoch": 1, "group_instance_id": "i"}
    script.call("old", commit(group, {("tt", 0): 1}, member_id=old.member_id, **epoch), 9)
    script.call("new", commit(group, {("tt", 0): 1}, member_id=new.member_id, **epoch), 9)
    script.call("nameless", commit(group, {("tt", 0): 1}, member_id="", **epoch), 9)
    script.call(
        "other",
        commit(group, {("tt", 0): 1}, member_id=new.member_id, generation_id_or_member_epoch=1, group_instance_id="j"),
        9,
    )


def test_offsets_are_deleted(script: Script, group: str) -> None:
    script.topic("other")
    script.call("no group", delete_offsets(group, {"tt": [0]}), 0)
    script.call("no group, no topic", delete_offsets(group, {"none": [0]}), 0)
    script.call("empty group id", delete_offsets("", {"tt": [0]}), 0)
    member = member_of(script, group)
    me = {"member_id": member.member_id, "generation_id_or_member_epoch": 1}
    script.call("commit", commit(group, {("tt", 0): 1, ("tt", 1): 2, ("other", 0): 3}, **me), 8)
    script.call("subscribed", delete_offsets(group, {"tt": [0, 9], "other": [0, 1], "none": [0]}), 0)
    script.call("left", leave(group, (member.member_id, None)), 5)
    script.call("not subscribed", delete_offsets(group, {"tt": [0, 1, 9]}), 0)
    script.call("again", delete_offsets(group, {"tt": [0]}), 0)
    script.call("nothing", delete_offsets(group, {}), 0)
    script.call("all", fetch(8, group, None), 8)
    script.written(group)


def test_subscriptions_that_cannot_be_read(script: Script, group: str) -> None:
    member = script.call("join", join(group, protocols={"range": b"?"}), 3)
    script.call("sync", sync(group, member, {}), 3)
    script.call("delete", delete_offsets(group, {"tt": [0]}), 0)


def test_a_group_of_others_than_consumers(script: Script, group: str) -> None:
    member = script.call("join", join(group, protocol_type="connect"), 3)
    script.call("sync", sync(group, member, {}), 3)
    script.call("delete offsets", delete_offsets(group, {"tt": [0]}), 0)
    script.describe("stable", group)
    script.call("left", leave(group, (member.member_id, None)), 5)
    script.call("delete offsets", delete_offsets(group, {"tt": [0]}), 0)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted(script: Script, group: str, version: int) -> None:
    member = member_of(script, group)
    script.call("commit", commit(group + "-2", {("tt", 0): 1}), 8)
    script.call("pending", join(group + "-3"), 9)
    names = [group, group + "-2", group + "-3", group + "-not", group + "-2"]
    script.call("delete", DeleteGroupsRequest(groups_names=names), version)
    script.call("left", leave(group, (member.member_id, None)), 5)
    script.call("delete again", DeleteGroupsRequest(groups_names=names), version)
    script.call("nothing", DeleteGroupsRequest(groups_names=[]), version)
    script.describe("gone", group)
    for name in (group, group + "-2", group + "-3"):
        script.written(name)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(script: Script, group: str, version: int) -> None:
    member = member_of(script, group)
    script.call("commit", commit(group + "-2", {("tt", 0): 1}), 8)
    script.call("assigning", join(group + "-3", protocol_type="connect"), 3)

    def see(what: str, **filters: Any) -> None:
        listed = script.client().call(ListGroupsRequest(**filters), version)
        listed.groups = [found for found in listed.groups if found.group_id.startswith(group)]
        script.see(what, listed)

    see("all")
    if version >= 4:
        see("stable", states_filter=["Stable"])
        see("in any case", states_filter=["sTABLE", "empty", "Nonsense"])
        see("nonsense", states_filter=["Nonsense"])
        see("assigning", states_filter=["CompletingRebalance"])
    if version >= 5:
        see("classic", types_filter=["Classic"])
        see("consumer", types_filter=["consumer"])
        see("both", types_filter=["consumer", "classic"], states_filter=["Empty"])
    script.call("left", leave(group, (member.member_id, None)), 5)
    see("empty")


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described(script: Script, group: str, version: int) -> None:
    member_of(script, group)
    script.call("commit", commit(group + "-2", {("tt", 0): 1}), 8)
    names = [group, group + "-2", group + "-not", group]
    script.call("described", DescribeGroupsRequest(groups=names), version)
    if version >= 3:
        requested = DescribeGroupsRequest(groups=names, include_authorized_operations=True)
        script.call("with operations", requested, version)
    script.call("nothing", DescribeGroupsRequest(groups=[]), version)


def test_a_deleted_topic_takes_its_offsets_along(script: Script, group: str, new_name: Names) -> None:
    from harness.processes.brokers import wait_until

    name = new_name("topic")
    script.topic(name)
    script.call("commit", commit(group, {(name, 0): 1, ("tt", 0): 2}), 8)
    script.client().call(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 3)

    def forgotten() -> bool:
        found = script.client().call(fetch(8, group, None), 8).groups[0].topics
        return [topic.name for topic in found] == ["tt"]

    wait_until(forgotten, 20, "the offsets forgotten")
    script.written(group)


def test_state_survives_a_restart(script: Script, group: str) -> None:
    member = member_of(script, group)
    me = {"member_id": member.member_id, "generation_id_or_member_epoch": 1}
    script.call("commit", commit(group, {("tt", 0): 5, ("tt", 1): 6}, **me), 8)
    static = script.call("static", join(group + "-s", instance="i"), 9)
    script.call("sync", sync(group + "-s", static, {static.member_id: b"S"}, group_instance_id="i"), 5)
    static = script.call("back", join(group + "-s", instance="i"), 9)
    script.call("simple", commit(group + "-simple", {("tt", 0): 7}, retention_time_ms=LONG_MS), 4)
    script.call("deleted", DeleteGroupsRequest(groups_names=[group + "-gone"]), 2)
    script.call("pending", join(group + "-p"), 9)
    assigning = script.call("assigning", join(group + "-a"), 3)
    script.close()
    script.broker.restart()
    script.ready(group)
    for suffix in ("", "-s", "-simple", "-p", "-a"):
        script.ready(group + suffix)
        script.describe(f"after the restart {suffix}", group + suffix)
        script.call("all", fetch(8, group + suffix, None), 8)
    script.call("heartbeat", heartbeat(group, member.member_id, 1), 4)
    script.call("assigning: sync", sync(group + "-a", assigning, {}), 3)
    script.call("commit", commit(group, {("tt", 0): 8}, **me), 8)
    script.call("sync", sync(group, member), 3)
    script.call("static: heartbeat", heartbeat(group + "-s", static.member_id, 1, "i"), 4)
    script.call("static: back again", join(group + "-s", instance="i"), 9)
    script.call("join again", join(group, member.member_id), 9)


def test_members_that_wait_are_told_of_a_shutdown(script: Script, group: str) -> None:
    member = member_of(script, group)
    parked = script.send(join(group), 3, "b")
    script.until(group, "PreparingRebalance")
    script.broker.stop()
    try:
        response = script.client("b").receive(parked[1], parked[2], parked[3])
        error = response.error_code
    except ConnectionError:
        error = None  # the broker closed the connection, which is equivalent
    script.close()
    script.broker.start()
    assert error == 16 or (error is None and script.broker.kind == "kafka"), "NOT_COORDINATOR"
    assert member.generation_id == 1
