"""The classic protocol, step by step: the same responses, states and records on both brokers."""

from __future__ import annotations

from typing import Any

import pytest

from compat_tests.comparisons.groups.script import SUBSCRIPTION, Script, heartbeat, join, leave, settle, sync
from compat_tests.names import Names
from harness.processes.brokers import wait_until
from harness.waiting import PATIENCE_S

OTHER = b"\0\0\0\0\0\1\0\2uu\xff\xff\xff\xff"
SESSION_MS = 4_000
"""Short enough to wait for its end, and longer than a busy machine holds up a script."""


@pytest.fixture
def group(script: Script, new_name: Names) -> str:
    name = new_name("group")
    script.ready(name)
    return name


def two_members(script: Script, group: str, **fields: Any) -> tuple[Any, Any]:
    """A stable group of the clients "a" (leader) and "b"; both joins are recorded."""
    first = script.call("a", join(group, **fields), 3, "a")
    second = script.send(join(group, **fields), 3, "b")
    script.until(group, "PreparingRebalance")
    first = script.call("a again", join(group, first.member_id, **fields), 3, "a")
    follower = script.receive("b joined", second)
    waiting = script.send(sync(group, follower), 3, "b")
    script.call("a syncs", sync(group, first, {first.member_id: b"A", follower.member_id: b"B"}), 3, "a")
    script.receive("b synced", waiting)
    return first, follower


@pytest.mark.parametrize("version", range(10))
def test_one_member_joins_works_and_leaves(script: Script, group: str, version: int) -> None:
    sync_version = min(version, 5) if version < 7 else 5
    member = script.call("join", join(group), version)
    if version >= 4:
        script.describe("pending", group)
        member = script.call("join with id", join(group, member.member_id), version)
    script.describe("completing", group)
    script.call("heartbeat", heartbeat(group, member.member_id, member.generation_id), min(version, 4))
    fields = {"protocol_type": "consumer", "protocol_name": member.protocol_name} if sync_version >= 5 else {}
    given = {member.member_id: b"mine", "stranger": b"x"}
    script.call("sync", sync(group, member, given, **fields), sync_version)
    script.describe("stable", group)
    script.call("sync again", sync(group, member, **fields), sync_version)
    script.call("heartbeat", heartbeat(group, member.member_id, member.generation_id), min(version, 4))
    if version >= 3:
        script.call("leave", leave(group, (member.member_id, None)), min(version, 5))
    else:
        request = leave(group)
        request.member_id = member.member_id
        script.call("leave", request, version)
    script.describe("empty", group)
    script.written(group)


def test_requests_that_do_not_fit(script: Script, group: str) -> None:
    script.call("no group id", join(""), 9)
    script.call("session too short", join(group, session_timeout_ms=499), 9)
    script.call("session too long", join(group, session_timeout_ms=1_800_001), 9)
    script.call("a member of nothing", join(group, "nobody"), 9)
    script.call("a static member of nothing", join(group, "nobody", instance="i"), 9)
    script.describe("still not there", group)
    script.call("no protocol", join(group, protocols={}), 9)
    script.describe("there", group)
    script.call("no protocol type", join(group, protocol_type=""), 9)
    script.call("no protocol in version 5", join(group, protocols={}), 5)
    script.call("a member of an empty group", join(group, "nobody"), 9)
    member = script.call("join", join(group), 3)
    changes: dict[str, dict[str, Any]] = {
        "wrong generation": {"generation_id": 9},
        "negative generation": {"generation_id": -1},
        "stranger": {"member_id": "stranger"},
        "no member": {"member_id": ""},
        "foreign instance": {"group_instance_id": "i"},
        "wrong type": {"protocol_type": "connect", "protocol_name": "range"},
        "wrong name": {"protocol_type": "consumer", "protocol_name": "sticky"},
        "no name": {"protocol_type": "consumer", "protocol_name": None},
        "no group": {"group_id": "no-such-group", "protocol_type": "consumer", "protocol_name": "range"},
        "empty group": {"group_id": "", "protocol_type": "consumer", "protocol_name": "range"},
    }
    for what, changed in changes.items():
        script.call(f"sync: {what}", sync(group, member, **changed), 5)
    script.call("heartbeat: wrong generation", heartbeat(group, member.member_id, 9), 4)
    script.call("heartbeat: stranger", heartbeat(group, "stranger", 1), 4)
    script.call("heartbeat: foreign instance", heartbeat(group, member.member_id, 1, "i"), 4)
    script.call("heartbeat: no group", heartbeat("no-such-group", member.member_id, 1), 4)
    script.call("heartbeat: empty group id", heartbeat("", member.member_id, 1), 4)
    script.call("join: other type", join(group, protocol_type="connect"), 9)
    script.call("join: other protocol", join(group, protocols={"sticky": b""}), 9)
    script.call("join: stranger", join(group, "stranger"), 9)
    script.call("join: foreign instance", join(group, member.member_id, instance="i"), 9)
    script.call("leave: nobody", leave(group), 5)
    script.call("leave: strangers", leave(group, ("stranger", None), ("", "i"), ("", None), (member.member_id, "i")), 5)
    script.call("leave: no group", leave("no-such-group", ("a", None), ("", "i")), 5)
    script.call("leave: empty group id", leave("", ("a", None)), 5)
    script.describe("at last", group)
    script.written(group)


def test_an_id_that_was_given_out_cannot_become_static(script: Script, group: str) -> None:
    pending = script.call("join", join(group), 9)
    script.call("static", join(group, pending.member_id, instance="i"), 9)
    script.call("leave", leave(group, (pending.member_id, None)), 5)
    script.call("too late", join(group, pending.member_id), 9)


def test_two_members(script: Script, group: str) -> None:
    leader, follower = two_members(script, group)
    script.describe("stable", group)
    script.call("follower, nothing new", join(group, follower.member_id), 9, "b")
    parked = script.send(join(group, leader.member_id), 9, "a")
    script.until(group, "PreparingRebalance")
    script.describe("preparing", group)
    script.call("follower, heartbeat", heartbeat(group, follower.member_id, leader.generation_id), 4, "b")
    script.call("follower, sync", sync(group, follower), 3, "b")
    follower = script.call("follower joins", join(group, follower.member_id), 9, "b")
    leader = script.receive("leader joined", parked)
    script.describe("completing", group)
    script.call("old generation", heartbeat(group, follower.member_id, 1), 4, "b")
    script.call("leader asks again", join(group, leader.member_id), 9, "a")
    script.call("follower asks again", join(group, follower.member_id), 9, "b")
    script.call("leader assigns to one", sync(group, leader, {follower.member_id: b"all"}), 5, "a")
    script.call("follower syncs late", sync(group, follower), 5, "b")
    script.call("leader leaves", leave(group, (leader.member_id, None)), 5, "a")
    script.describe("one left", group)
    script.call("the other is told", heartbeat(group, follower.member_id, follower.generation_id), 4, "b")
    script.call("and joins alone", join(group, follower.member_id), 9, "b")
    script.written(group)


def test_new_metadata_starts_a_rebalance(script: Script, group: str) -> None:
    leader, follower = two_members(script, group)
    parked = script.send(join(group, follower.member_id, protocols={"range": OTHER}), 9, "b")
    script.until(group, "PreparingRebalance")
    script.call("leader joins", join(group, leader.member_id), 9, "a")
    script.receive("follower joined", parked)
    changed = script.send(join(group, follower.member_id, protocols={"range": SUBSCRIPTION}), 9, "b")
    script.until(group, "PreparingRebalance")
    script.call("leader: sync", sync(group, leader, generation_id=3), 3, "a")
    script.call("leader joins again", join(group, leader.member_id), 9, "a")
    script.receive("follower joined again", changed)


def test_a_member_that_waits_for_its_part_is_told_of_a_rebalance(script: Script, group: str) -> None:
    leader, follower = two_members(script, group)
    parked = script.send(join(group, leader.member_id), 9, "a")
    script.until(group, "PreparingRebalance")
    follower = script.call("follower joins", join(group, follower.member_id), 9, "b")
    leader = script.receive("leader joined", parked)
    waiting = script.send(sync(group, follower), 5, "b")
    assert script.is_parked(waiting)
    parked = script.send(join(group, leader.member_id, protocols={"range": OTHER}), 9, "a")
    script.receive("follower: sync", waiting)
    script.call("follower joins again", join(group, follower.member_id), 9, "b")
    script.receive("leader joined again", parked)


def test_members_leave_during_a_rebalance(script: Script, group: str) -> None:
    leader, follower = two_members(script, group)
    third = script.call("c", join(group), 9, "c")
    parked = script.send(join(group, leader.member_id), 9, "a")
    script.until(group, "PreparingRebalance")
    script.call("c will not come", leave(group, (third.member_id, None)), 5, "c")
    assert script.is_parked(parked)
    script.call("a is removed", leave(group, (leader.member_id, None)), 5, "c")
    script.receive("a is told", parked)
    script.call("b joins", join(group, follower.member_id), 9, "b")
    script.describe("at last", group)
    script.written(group)


def test_a_rebalance_waits_for_an_id_that_was_given_out(script: Script, group: str) -> None:
    leader = script.call("a", join(group), 3, "a")
    script.call("a syncs", sync(group, leader, {leader.member_id: b"A"}), 3, "a")
    pending = script.call("b", join(group), 9, "b")
    parked = script.send(join(group, leader.member_id), 9, "a")
    assert script.is_parked(parked)
    script.call("b joins", join(group, pending.member_id), 9, "b")
    script.receive("a joined", parked)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (["range", "sticky"], ["sticky", "range"]),
        (["sticky", "range"], ["range", "sticky"]),
        (["range", "roundrobin", "sticky"], ["cooperative-sticky", "roundrobin", "range"]),
        (["a", "b", "c", "d"], ["d", "c", "b", "a"]),
        (["q", "z"], ["z", "q"]),
        (["only"], ["other", "only"]),
    ],
)
def test_votes_and_ties(script: Script, group: str, one: list[str], two: list[str]) -> None:
    first = script.call("a", join(group, protocols=dict.fromkeys(one, b"")), 3, "a")
    parked = script.send(join(group, protocols=dict.fromkeys(two, b"")), 3, "b")
    script.until(group, "PreparingRebalance")
    script.call("a again", join(group, first.member_id, protocols=dict.fromkeys(one, b"")), 3, "a")
    script.receive("b joined", parked)


def test_static_members(script: Script, group: str) -> None:
    first = script.call("a", join(group, instance="i1"), 9, "a")
    script.call("a syncs", sync(group, first, {first.member_id: b"A"}, group_instance_id="i1"), 5, "a")
    again = script.call("a is back", join(group, instance="i1", session_timeout_ms=700_000), 9, "other")
    script.describe("with its old client id", group)
    script.call("the old one", heartbeat(group, first.member_id, 1, "i1"), 4, "a")
    script.call("the old one, unnamed", heartbeat(group, first.member_id, 1), 4, "a")
    script.call("the old one joins", join(group, first.member_id, instance="i1"), 9, "a")
    script.call("the old one syncs", sync(group, first, group_instance_id="i1"), 5, "a")
    script.call("the old one leaves", leave(group, (first.member_id, "i1")), 5, "a")
    script.call("the new one syncs", sync(group, again, group_instance_id="i1"), 5, "a")
    script.call("back in version 8", join(group, instance="i1"), 8, "a")
    script.call("back in version 5", join(group, instance="i1"), 5, "a")
    script.call("other metadata", join(group, instance="i1", protocols={"range": OTHER}), 9, "a")
    script.describe("other metadata", group)
    script.call("an unknown name", join(group, "nobody", instance="i2"), 9, "a")
    script.call("other protocol", join(group, instance="i1", protocols={"sticky": OTHER}), 9, "a")
    script.call("removed by name", leave(group, ("", "i1"), ("", "i2")), 5, "b")
    script.describe("empty", group)
    script.written(group)


def test_a_static_member_changes_the_protocol(script: Script, group: str) -> None:
    first = script.call("a", join(group, instance="i1", protocols={"range": b"", "sticky": b""}), 9, "a")
    script.call("a syncs", sync(group, first, group_instance_id="i1"), 5, "a")
    script.call("turned round", join(group, instance="i1", protocols={"sticky": b"", "range": b""}), 9, "a")
    script.describe("rebalanced", group)


def test_a_static_follower_comes_back(script: Script, group: str) -> None:
    first = script.call("a", join(group, instance="i1"), 9, "a")
    parked = script.send(join(group, instance="i2"), 9, "b")
    script.until(group, "PreparingRebalance")
    first = script.call("a again", join(group, first.member_id, instance="i1"), 9, "a")
    second = script.receive("b joined", parked)
    waiting = script.send(sync(group, second, group_instance_id="i2"), 5, "b")
    assert script.is_parked(waiting)
    back = script.send(join(group, instance="i2"), 9, "c")  # while the leader assigns
    script.receive("b is fenced", waiting)
    first = script.call("a joins", join(group, first.member_id, instance="i1"), 9, "a")
    second = script.receive("c joined", back)
    script.call("a syncs", sync(group, first, {second.member_id: b"B"}, group_instance_id="i1"), 5, "a")
    script.call("c syncs", sync(group, second, group_instance_id="i2"), 5, "c")
    parked = script.send(join(group, first.member_id, instance="i1"), 9, "a")
    script.until(group, "PreparingRebalance")
    back = script.send(join(group, instance="i1"), 9, "b")  # while members join
    script.receive("a is fenced", parked)
    script.call("c joins", join(group, second.member_id, instance="i2"), 9, "c")
    script.receive("b joined", back)
    script.describe("at last", group)
    script.written(group)


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_silent_member_is_out(script: Script, group: str) -> None:
    leader, follower = two_members(script, group, session_timeout_ms=SESSION_MS)

    def is_out() -> bool:
        script.client("a").call(heartbeat(group, leader.member_id, leader.generation_id), 4)
        return script.state(group) != "Stable"

    wait_until(is_out, PATIENCE_S, "the silent member is out", 0.1)
    script.see("the group", script.state(group))
    script.call("the silent one", heartbeat(group, follower.member_id, follower.generation_id), 4, "b")
    script.call("the other", heartbeat(group, leader.member_id, leader.generation_id), 4, "a")


def test_the_last_silent_member_leaves_an_empty_group(script: Script, group: str) -> None:
    member = script.call("a", join(group, session_timeout_ms=SESSION_MS), 3, "a")
    script.call("a syncs", sync(group, member, {}), 3, "a")
    script.until(group, "Empty")
    script.describe("empty", group)
    script.written(group)


def test_an_id_that_was_given_out_lasts_for_its_session(script: Script, group: str) -> None:
    pending = script.call("a", join(group, session_timeout_ms=500), 9, "a")
    settle(3.0)
    script.call("too late", join(group, pending.member_id), 9, "a")


def test_a_rebalance_does_not_wait_for_ever(script: Script, group: str) -> None:
    leader, follower = two_members(script, group, rebalance_timeout_ms=SESSION_MS)
    parked = script.send(join(group, leader.member_id, rebalance_timeout_ms=SESSION_MS), 9, "a")
    script.receive("a joined", parked)
    script.call("b is out", heartbeat(group, follower.member_id, 2), 4, "b")
    script.describe("one left", group)


def test_members_that_do_not_ask_for_their_part_are_out(script: Script, group: str) -> None:
    leader, follower = two_members(script, group, rebalance_timeout_ms=SESSION_MS)
    parked = script.send(join(group, leader.member_id, rebalance_timeout_ms=SESSION_MS), 9, "a")
    script.until(group, "PreparingRebalance")
    follower = script.call("b joins", join(group, follower.member_id, rebalance_timeout_ms=SESSION_MS), 9, "b")
    leader = script.receive("a joined", parked)
    waiting = script.send(sync(group, follower), 5, "b")
    script.receive("b is told", waiting)
    script.describe("a is out", group)
    script.call("a", heartbeat(group, leader.member_id, leader.generation_id), 4, "a")
    script.call("b joins alone", join(group, follower.member_id, rebalance_timeout_ms=SESSION_MS), 9, "b")


def test_a_member_cut_off_while_it_joins_comes_back(script: Script, group: str) -> None:
    leader, follower = two_members(script, group)
    script.send(join(group, leader.member_id), 9, "a")
    script.until(group, "PreparingRebalance")
    script.drop("a")
    parked = script.send(join(group, leader.member_id), 9, "a")
    assert script.is_parked(parked)
    script.call("b joins", join(group, follower.member_id), 9, "b")
    script.receive("a joined", parked)
