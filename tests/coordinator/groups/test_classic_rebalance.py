"""SyncGroup, Heartbeat, LeaveGroup, static members, and the timers of a classic group."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from tests.coordinator.bench import Bench, Settings


@pytest.fixture
def bench() -> Bench:
    return Bench()


# -- SyncGroup ---------------------------------------------------------------------------------------------------------


def completing(bench: Bench, count: int = 2, **settings: Any) -> list[Any]:
    """The JoinGroup responses of a group in CompletingRebalance, the leader's first."""
    bench.settings.group_initial_rebalance_delay_ms = 1_000
    calls = [bench.join(version=3, **settings) for _ in range(count)]
    bench.advance(2_000)
    bench.settings.group_initial_rebalance_delay_ms = 0
    assert bench.state == "CompletingRebalance"
    return [call.response for call in calls]


def test_followers_wait_for_the_leaders_assignment(bench: Bench) -> None:
    leader, follower = completing(bench)
    waiting = bench.sync(follower)
    assert waiting.parked
    done = bench.sync(leader, {leader.member_id: b"L", follower.member_id: b"F"})
    assert (done.response.assignment, waiting.response.assignment) == (b"L", b"F")
    assert (done.response.protocol_type, done.response.protocol_name) == ("consumer", "range")
    assert bench.state == "Stable"


def test_in_a_stable_group_sync_group_returns_the_assignment_at_once(bench: Bench) -> None:
    leader, follower = completing(bench)
    bench.sync(leader, {follower.member_id: b"F"})
    assert bench.sync(follower).response.assignment == b"F"
    assert bench.sync(leader).response.assignment == b"", "the leader has no partitions"


def test_an_assignment_for_unknown_members_is_dropped(bench: Bench) -> None:
    [leader] = completing(bench, 1)
    bench.sync(leader, {"unknown": b"x", leader.member_id: b"y"})
    assert list(bench.classic.members) == [leader.member_id]


def test_sync_errors(bench: Bench) -> None:
    leader, follower = completing(bench)
    assert bench.sync(leader, generation_id=7).error is ErrorCode.ILLEGAL_GENERATION
    assert bench.sync(leader, member_id="unknown").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.sync(leader, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.sync(leader, protocol_name="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.sync(follower, group_instance_id="i").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.sync(leader, group_id="elsewhere").error is ErrorCode.UNKNOWN_MEMBER_ID
    bench.join(leader.member_id, protocols={"range": b"new"})
    assert bench.sync(follower).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_parked_sync_groups_fail_when_a_new_rebalance_starts(bench: Bench) -> None:
    leader, follower = completing(bench)
    waiting = bench.sync(follower)
    bench.join(leader.member_id, protocols={"range": b"new"})
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_never_send_sync_group_are_removed(bench: Bench) -> None:
    _leader, follower = completing(bench, session_ms=60_000, rebalance_ms=20_000)
    waiting = bench.sync(follower)
    bench.advance(20_000)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(bench.classic.members) == [follower.member_id]
    again = bench.join(follower.member_id, version=3)
    assert again.response.generation_id == 2 and again.response.leader == follower.member_id


def test_in_a_stable_group_a_member_that_never_sent_sync_group_is_removed_too(bench: Bench) -> None:
    leader, follower = completing(bench, session_ms=60_000, rebalance_ms=20_000)
    bench.sync(leader)
    bench.advance(20_000)
    assert bench.state == "PreparingRebalance"
    assert follower.member_id not in bench.classic.members


def test_after_the_last_sync_group_the_sync_timer_stops(bench: Bench) -> None:
    leader, follower = completing(bench, rebalance_ms=5_000)
    bench.sync(leader)
    bench.sync(follower)
    assert ("sync", "g") not in bench.shard.timers


def test_if_the_assignment_cannot_be_written_all_members_join_again(bench: Bench) -> None:
    leader, follower = completing(bench)
    waiting = bench.sync(follower)
    bench.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = bench.sync(leader, {follower.member_id: b"F"})
    assert refused.error is waiting.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.state == "PreparingRebalance"
    bench.refuse = None
    calls = [bench.join(member.member_id, version=3) for member in (leader, follower)]
    assert {call.response.generation_id for call in calls} == {2}


# -- Heartbeat and sessions --------------------------------------------------------------------------------------------


def test_heartbeat_errors(bench: Bench) -> None:
    leader, follower = bench.stable_group(2)
    assert bench.heartbeat(leader.member_id, 1) is ErrorCode.NONE
    assert bench.heartbeat(leader.member_id, 2) is ErrorCode.ILLEGAL_GENERATION
    assert bench.heartbeat("unknown", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(leader.member_id, 1, "instance") is ErrorCode.UNKNOWN_MEMBER_ID
    bench.join(leader.member_id)
    assert bench.heartbeat(follower.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_without_heartbeats_is_removed_after_its_session_timeout(bench: Bench) -> None:
    leader, follower = bench.stable_group(2, session_ms=10_000)
    for _ in range(5):
        bench.advance(1_999)
        bench.heartbeat(leader.member_id, 1)
    assert len(bench.classic.members) == 2
    bench.advance(5)
    assert list(bench.classic.members) == [leader.member_id]
    assert bench.heartbeat(leader.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.heartbeat(follower.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_session_alive_during_a_rebalance(bench: Bench) -> None:
    leader, follower = bench.stable_group(2, session_ms=10_000, rebalance_ms=60_000)
    bench.join(leader.member_id, rebalance_ms=60_000)
    for _ in range(7):
        bench.advance(8_000)
        assert bench.heartbeat(follower.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(bench.classic.members) == 2
    bench.advance(4_000)
    assert list(bench.classic.members) == [leader.member_id], "the rebalance timeout is over"


def test_a_member_with_a_parked_request_does_not_expire(bench: Bench) -> None:
    leader, follower = bench.stable_group(2, session_ms=10_000, rebalance_ms=60_000)
    parked = bench.join(leader.member_id, session_ms=10_000, rebalance_ms=60_000)
    for _ in range(4):
        bench.advance(9_000)
        bench.heartbeat(follower.member_id, 1)
    assert parked.parked and leader.member_id in bench.classic.members


def test_a_new_member_whose_client_has_disconnected_is_removed_in_the_end() -> None:
    bench = Bench()
    [leader] = bench.stable_group(session_ms=1_000_000, rebalance_ms=1_000_000)
    lost = bench.join(version=3, session_ms=10_000, rebalance_ms=1_000_000)
    for _ in range(3):
        bench.advance(100_000)
    assert lost.error is ErrorCode.UNKNOWN_MEMBER_ID, "five minutes without a response"
    assert list(bench.classic.members) == [leader.member_id]


def test_after_the_rebalance_timeout_the_members_that_joined_form_the_generation(bench: Bench) -> None:
    leader, _ = bench.stable_group(2, session_ms=100_000, rebalance_ms=20_000)
    parked = bench.join(leader.member_id, rebalance_ms=20_000)
    bench.advance(19_999)
    assert parked.parked
    bench.advance(1)
    assert [member.member_id for member in parked.response.members] == [leader.member_id]


def test_the_rebalance_timeout_is_the_longest_of_the_members(bench: Bench) -> None:
    leader = bench.stable_group(1, session_ms=100_000, rebalance_ms=20_000)[0]
    bench.join_dynamic(session_ms=100_000, rebalance_ms=50_000)
    bench.advance(20_000)
    assert leader.member_id in bench.classic.members, "the rebalance began with the shorter timeout"


def test_the_last_member_that_leaves_makes_the_group_empty(bench: Bench) -> None:
    [leader] = bench.stable_group()
    assert bench.leave(leader.member_id) == [ErrorCode.NONE]
    assert bench.state == "Empty" and bench.classic.generation == 2
    assert bench.classic.protocol_type == "consumer"
    again = bench.join_dynamic()
    assert again.response.generation_id == 3


def test_the_expiry_of_the_last_member_makes_the_group_empty(bench: Bench) -> None:
    bench.stable_group(session_ms=10_000)
    bench.advance(10_000)
    assert bench.state == "Empty" and bench.shard.timers.next_wake_ms() is None


def test_a_group_becomes_empty_even_if_the_record_cannot_be_written(bench: Bench) -> None:
    bench.stable_group(session_ms=10_000)
    bench.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.advance(10_000)
    assert bench.state == "Empty" and bench.classic.generation == 2


# -- LeaveGroup --------------------------------------------------------------------------------------------------------


def test_members_leave_in_one_request_each_with_its_own_error(bench: Bench) -> None:
    members = [response.member_id for response in bench.stable_group(3)]
    pending = bench.join().response.member_id
    assert bench.leave(members[0], "unknown", pending, members[0], ("", "unknown"), "") == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert bench.state == "PreparingRebalance"


def test_members_of_a_missing_group_cannot_leave(bench: Bench) -> None:
    assert bench.leave("a", ("", "i")) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_a_parked_request_of_a_member_that_is_removed_is_answered(bench: Bench) -> None:
    leader, follower = bench.stable_group(2)
    parked = bench.join(leader.member_id)
    bench.leave(leader.member_id)
    assert parked.error is ErrorCode.UNKNOWN_MEMBER_ID
    again = bench.join(follower.member_id)
    assert again.response.generation_id == 2


def test_a_departure_completes_the_rebalance(bench: Bench) -> None:
    leader, follower = bench.stable_group(2)
    parked = bench.join(leader.member_id)
    bench.leave(follower.member_id)
    assert parked.response.generation_id == 2


def test_a_pending_id_that_leaves_completes_the_rebalance(bench: Bench) -> None:
    [leader] = bench.stable_group()
    pending = bench.join().response.member_id
    parked = bench.join(leader.member_id)
    assert parked.parked
    bench.leave(pending)
    assert parked.response.generation_id == 2


def test_a_departure_while_the_leader_assigns_causes_a_rebalance(bench: Bench) -> None:
    leader, follower = completing(bench)
    waiting = bench.sync(follower)
    bench.leave(leader.member_id)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.state == "PreparingRebalance"


# -- static members ----------------------------------------------------------------------------------------------------


def static_group(bench: Bench, count: int = 2, **settings: Any) -> list[Any]:
    bench.settings.group_initial_rebalance_delay_ms = 1_000
    calls = [bench.join(instance=f"i{n}", **settings) for n in range(count)]
    bench.advance(2_000)
    bench.settings.group_initial_rebalance_delay_ms = 0
    joined = [call.response for call in calls]
    for n in range(count - 1, -1, -1):
        bench.sync(joined[n], {m.member_id: f"a{i}".encode() for i, m in enumerate(joined)}, instance=f"i{n}")
    assert bench.state == "Stable"
    return joined


def test_static_members_join_at_once_and_their_id_contains_the_instance_id(bench: Bench) -> None:
    joined = bench.join(instance="i0")
    assert joined.error is ErrorCode.NONE
    assert joined.response.member_id.startswith("i0-")
    assert joined.response.members[0].group_instance_id == "i0"


def test_a_static_follower_that_returns_keeps_its_assignment(bench: Bench) -> None:
    leader, follower = static_group(bench)
    again = bench.join(instance="i1").response
    assert again.member_id != follower.member_id
    assert (again.generation_id, again.leader, again.members) == (1, leader.member_id, [])
    assert not again.skip_assignment
    assert bench.state == "Stable"
    assert bench.sync(again, instance="i1").response.assignment == b"a1"
    assert bench.heartbeat(follower.member_id, 1, "i1") is ErrorCode.FENCED_INSTANCE_ID
    assert bench.heartbeat(follower.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(again.member_id, 1, "i1") is ErrorCode.NONE


def test_a_static_leader_that_returns_skips_the_assignment(bench: Bench) -> None:
    static_group(bench)
    again = bench.join(instance="i0", version=9).response
    assert again.leader == again.member_id and again.skip_assignment
    assert [member.group_instance_id for member in again.members] == ["i0", "i1"]


def test_before_version_9_the_response_to_a_static_leader_names_its_predecessor(bench: Bench) -> None:
    leader, _ = static_group(bench)
    again = bench.join(instance="i0", version=8).response
    assert again.leader == leader.member_id and again.members == [] and not again.skip_assignment
    assert bench.classic.leader == again.member_id


def test_a_static_member_that_returns_with_another_preferred_protocol_causes_a_rebalance(bench: Bench) -> None:
    both = {"range": b"", "sticky": b""}
    static_group(bench, 1, protocols=both)
    again = bench.join(instance="i0", protocols={"sticky": b"", "range": b""})
    assert again.response.generation_id == 2 and again.response.protocol_name == "sticky"


def test_a_static_member_with_new_metadata_keeps_the_group_stable(bench: Bench) -> None:
    static_group(bench)
    again = bench.join(instance="i1", protocols={"range": b"new"})
    assert bench.state == "Stable"
    assert bench.classic.members[again.response.member_id].protocols == {"range": b"new"}


def test_a_static_member_that_returns_while_the_leader_assigns_causes_a_rebalance(bench: Bench) -> None:
    bench.settings.group_initial_rebalance_delay_ms = 1_000
    calls = [bench.join(instance=f"i{n}") for n in range(2)]
    bench.advance(2_000)
    waiting = bench.sync(calls[1].response, instance="i1")
    again = bench.join(instance="i1")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert again.parked and bench.state == "PreparingRebalance"
    assert bench.join(calls[0].response.member_id, instance="i0").response.generation_id == 2
    assert again.response.generation_id == 2


def test_a_static_member_that_returns_during_a_rebalance_fences_its_predecessor(bench: Bench) -> None:
    leader, follower = static_group(bench)
    parked = bench.join(leader.member_id, instance="i0")
    again = bench.join(instance="i0")
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID and parked.response.member_id == leader.member_id
    bench.join(follower.member_id, instance="i1")
    assert again.response.leader == again.response.member_id


def test_a_member_id_with_another_instance_id_is_fenced(bench: Bench) -> None:
    leader, _follower = static_group(bench)
    assert bench.join(leader.member_id, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.join(leader.member_id, instance="other").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.leave((leader.member_id, "i1")) == [ErrorCode.FENCED_INSTANCE_ID]


def test_static_members_are_removed_by_instance_id(bench: Bench) -> None:
    static_group(bench)
    assert bench.leave(("", "i1")) == [ErrorCode.NONE]
    assert list(bench.classic.static_ids) == ["i0"]


def test_a_static_member_that_is_late_stays_until_its_session_expires(bench: Bench) -> None:
    leader, _late = static_group(bench, session_ms=50_000, rebalance_ms=10_000)
    parked = bench.join(leader.member_id, instance="i0", session_ms=50_000, rebalance_ms=10_000)
    bench.advance(10_000)
    assert len(parked.response.members) == 2, "the late member is still in the group"
    bench.sync(parked.response, instance="i0")
    for _ in range(5):
        bench.heartbeat(leader.member_id, 2, "i0")
        bench.advance(8_100)
    assert list(bench.classic.static_ids) == ["i0"]


def test_a_group_of_static_members_that_do_not_join_lasts_until_their_sessions_expire(bench: Bench) -> None:
    _leader, _follower = static_group(bench, session_ms=50_000, rebalance_ms=10_000)
    bench.leave(("", "i1"))
    bench.advance(20_000)
    assert bench.state == "PreparingRebalance" and list(bench.classic.static_ids) == ["i0"]
    bench.advance(50_000)
    assert bench.state == "Empty"


def test_a_static_member_whose_replacement_cannot_be_written_stays(bench: Bench) -> None:
    _leader, follower = static_group(bench)
    bench.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.join(instance="i1").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.heartbeat(follower.member_id, 1, "i1") is ErrorCode.NONE


# -- leadership --------------------------------------------------------------------------------------------------------


def test_parked_join_groups_fail_when_the_leadership_is_lost(bench: Bench) -> None:
    leader, _follower = bench.stable_group(2)
    parked = bench.join(leader.member_id)
    bench.run(bench.shard.unload())
    assert parked.error is ErrorCode.NOT_COORDINATOR
    assert len(bench.shard.timers) == 0


def test_parked_sync_groups_fail_when_the_leadership_is_lost(bench: Bench) -> None:
    _, follower = completing(bench)
    waiting = bench.sync(follower)
    bench.run(bench.shard.unload())
    assert waiting.error is ErrorCode.NOT_COORDINATOR


def test_a_loaded_group_is_stable_and_has_sessions(bench: Bench) -> None:
    leader, follower = bench.stable_group(2, session_ms=10_000)
    bench.reload()
    assert bench.state == "Stable"
    assert bench.heartbeat(leader.member_id, 1) is ErrorCode.NONE
    assert bench.sync(follower).response.assignment == b"1"
    bench.advance(5_000)
    bench.heartbeat(leader.member_id, 1)
    bench.advance(5_000)
    assert list(bench.classic.members) == [leader.member_id], "sessions were restarted"


def test_a_loaded_group_that_is_too_large_rebalances() -> None:
    bench = Bench()
    bench.stable_group(3)
    bench.settings = Settings(group_max_size=2)
    bench.reload()
    assert bench.state == "PreparingRebalance"
