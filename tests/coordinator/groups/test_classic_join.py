"""JoinGroup: new members, the leader, and the choice of the protocol."""

from __future__ import annotations

import pytest

from kwire.base.errors import ErrorCode
from tests.coordinator.bench import Bench, Settings


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_new_member_first_gets_its_id(bench: Bench) -> None:
    first = bench.join()
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.response.member_id.startswith("c-")
    assert bench.state == "Empty"
    second = bench.join(first.response.member_id)
    assert second.error is ErrorCode.NONE
    assert second.response.generation_id == 1
    assert second.response.leader == second.response.member_id == first.response.member_id
    assert [member.metadata for member in second.response.members] == [b"meta"]
    assert bench.state == "CompletingRebalance"


def test_before_version_4_a_new_member_joins_at_once(bench: Bench) -> None:
    assert bench.join(version=3).error is ErrorCode.NONE


def test_in_version_0_the_session_timeout_is_the_rebalance_timeout(bench: Bench) -> None:
    joined = bench.join(version=0, session_ms=7_000, rebalance_ms=-1)
    assert bench.classic.members[joined.response.member_id].rebalance_timeout_ms == 7_000


def test_a_pending_id_lasts_for_its_session(bench: Bench) -> None:
    member_id = bench.join(session_ms=10_000).response.member_id
    bench.advance(9_999)
    assert member_id in bench.classic.pending
    bench.advance(1)
    assert member_id not in bench.classic.pending
    assert bench.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_pending_ids(bench: Bench) -> None:
    [leader] = bench.stable_group()
    pending = bench.join().response.member_id
    parked = bench.join(leader.member_id)
    assert parked.parked, "the pending id may still join"
    newcomer = bench.join(pending)
    answered = [not call.parked for call in (parked, newcomer)]
    assert answered == [True, True]


def test_a_rebalance_does_not_wait_for_an_expired_id(bench: Bench) -> None:
    [leader] = bench.stable_group()
    bench.join(session_ms=10_000)
    bench.advance(9_000)
    assert bench.heartbeat(leader.member_id, 1) is ErrorCode.NONE
    parked = bench.join(leader.member_id)
    assert parked.parked
    bench.advance(1_000)
    assert parked.response.generation_id == 2


def test_a_missing_group_has_no_members(bench: Bench) -> None:
    refused = bench.join("somebody")
    assert refused.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert refused.response.member_id == "somebody"
    assert bench.state == "Dead" and bench.log == []


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_session_timeouts_have_bounds(bench: Bench, session_ms: int) -> None:
    assert bench.join(session_ms=session_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert bench.state == "Dead"


def test_a_member_must_support_a_protocol(bench: Bench) -> None:
    refused = bench.join(protocols={})
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused.response.protocol_name is None
    assert bench.join(protocol_type="").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.state == "Empty", "the group exists nevertheless, as in Kafka"


def test_a_member_must_share_a_protocol_with_all_others(bench: Bench) -> None:
    bench.stable_group(protocols={"range": b"", "sticky": b""})
    assert bench.join(protocols={"roundrobin": b""}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join(protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join(protocols={"sticky": b""}).error is ErrorCode.MEMBER_ID_REQUIRED


def test_the_protocol_that_most_members_prefer_is_chosen(bench: Bench) -> None:
    bench.settings.group_initial_rebalance_delay_ms = 3_000
    calls = [
        bench.join(version=3, protocols={"a": b"", "b": b""}),
        bench.join(version=3, protocols={"b": b"", "a": b"", "c": b""}),
        bench.join(version=3, protocols={"b": b"", "a": b""}),
    ]
    bench.advance(10_000)
    assert {call.response.protocol_name for call in calls} == {"b"}


def test_only_a_protocol_that_all_members_support_is_chosen(bench: Bench) -> None:
    bench.settings.group_initial_rebalance_delay_ms = 3_000
    first = bench.join(version=3, protocols={"a": b"", "b": b""})
    bench.join(version=3, protocols={"b": b""})
    bench.advance(10_000)
    assert first.response.protocol_name == "b"


def test_the_first_rebalance_of_a_group_waits_for_more_members() -> None:
    bench = Bench(Settings(group_initial_rebalance_delay_ms=3_000))
    first = bench.join(version=3, rebalance_ms=8_000)
    bench.advance(2_999)
    assert first.parked
    second = bench.join(version=3, rebalance_ms=8_000)  # a new member: three seconds more
    bench.advance(3_000)
    assert first.parked and second.parked
    bench.advance(1)
    assert first.response.generation_id == second.response.generation_id == 1
    assert len(first.response.members) == 2 and second.response.members == []


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() -> None:
    bench = Bench(Settings(group_initial_rebalance_delay_ms=3_000))
    first = bench.join(version=3, rebalance_ms=7_000)
    for _ in range(7):
        assert first.parked
        bench.join(version=3, rebalance_ms=7_000)
        bench.advance(1_000)
    assert len(first.response.members) == 8


def test_without_new_members_the_initial_delay_is_not_extended() -> None:
    bench = Bench(Settings(group_initial_rebalance_delay_ms=3_000))
    first = bench.join(version=3)
    bench.advance(3_000)
    assert not first.parked


def test_a_leader_that_joins_again_starts_a_rebalance(bench: Bench) -> None:
    leader, follower = bench.stable_group(2)
    again = bench.join(leader.member_id)
    assert again.parked and bench.state == "PreparingRebalance"
    assert bench.heartbeat(follower.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(follower.member_id)
    assert again.response.generation_id == 2


def test_a_follower_with_unchanged_protocols_gets_the_present_generation(bench: Bench) -> None:
    _, follower = bench.stable_group(2)
    again = bench.join(follower.member_id)
    assert again.response.generation_id == 1 and again.response.members == []
    assert bench.state == "Stable"


@pytest.mark.parametrize("protocols", [{"range": b"other"}, {"range": b"meta", "sticky": b""}, {"sticky": b"meta"}])
def test_a_follower_with_new_metadata_starts_a_rebalance(bench: Bench, protocols: dict[str, bytes]) -> None:
    both = {"range": b"meta", "sticky": b"meta"}
    _, follower = bench.stable_group(2, protocols=both)
    assert bench.join(follower.member_id, protocols=protocols).parked
    assert bench.state == "PreparingRebalance"


def test_a_member_that_lost_its_response_gets_it_again_while_the_leader_assigns(bench: Bench) -> None:
    bench.settings.group_initial_rebalance_delay_ms = 1_000
    first, second = bench.join(version=3), bench.join(version=3)
    bench.advance(2_000)
    assert bench.state == "CompletingRebalance"
    again = bench.join(second.response.member_id, version=3)
    assert again.response.generation_id == 1 and again.response.members == []
    leader = bench.join(first.response.member_id, version=3)
    assert len(leader.response.members) == 2
    assert bench.state == "CompletingRebalance"


def test_a_request_repeated_over_a_new_connection_gets_the_same_response(bench: Bench) -> None:
    leader, follower = bench.stable_group(2)
    calls = [bench.join(leader.member_id), bench.join(leader.member_id)]
    bench.join(follower.member_id)
    assert [call.response.generation_id for call in calls] == [2, 2]


def test_a_new_member_does_not_become_the_leader(bench: Bench) -> None:
    [leader] = bench.stable_group()
    parked = bench.join_dynamic()
    assert bench.join(leader.member_id).response.leader == leader.member_id
    assert parked.response.leader == leader.member_id and parked.response.members == []


def test_a_leader_that_does_not_join_again_is_replaced(bench: Bench) -> None:
    leader, follower = bench.stable_group(2, session_ms=30_000, rebalance_ms=8_000)
    parked = bench.join(follower.member_id, protocols={"range": b"new"}, session_ms=30_000, rebalance_ms=8_000)
    bench.advance(8_000)
    assert parked.response.leader == follower.member_id
    assert bench.heartbeat(leader.member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_refuses_new_members() -> None:
    bench = Bench(Settings(group_max_size=2))
    members = bench.stable_group(2)
    refused = bench.join(version=3)
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED and refused.response.member_id == ""
    assert bench.leave(members[1].member_id) == [ErrorCode.NONE]
    assert bench.join(version=3).parked


def test_during_a_rebalance_only_members_that_have_joined_count_for_the_size() -> None:
    bench = Bench(Settings(group_max_size=2))
    first, second = bench.stable_group(2)
    parked = bench.join(first.member_id)
    newcomer = bench.join(version=3)
    assert newcomer.parked, "the second member has not joined again yet"
    late = bench.join(second.member_id)
    assert late.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    bench.advance(60_000)
    assert len(parked.response.members) == 2 and newcomer.response.generation_id == 2


def test_a_pending_id_cannot_become_static(bench: Bench) -> None:
    member_id = bench.join().response.member_id
    assert bench.join(member_id, instance="i").error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_group_whose_record_cannot_be_written_does_not_exist(bench: Bench) -> None:
    bench.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.join().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.state == "Dead"
    bench.refuse = None
    assert bench.join().error is ErrorCode.MEMBER_ID_REQUIRED


def test_a_client_that_repeats_its_request_has_few_parked_requests(bench: Bench) -> None:
    leader, follower = bench.stable_group(2)
    calls = [bench.join(leader.member_id) for _ in range(20)]
    assert [call.error for call in calls if not call.parked] == [ErrorCode.REBALANCE_IN_PROGRESS] * 12
    bench.join(follower.member_id)
    assert {call.response.generation_id for call in calls[12:]} == {2}


def test_the_number_of_pending_ids_is_limited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.coordinator.groups.classic.join.PENDING_MAX", 3)
    ids = [bench.join().response.member_id for _ in range(5)]
    assert list(bench.classic.pending) == ids[2:]
    assert bench.join(ids[0]).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(bench.shard.timers) == 3
