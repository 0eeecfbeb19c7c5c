"""OffsetCommit, OffsetFetch, OffsetDelete, DeleteGroups, and the retention of committed offsets."""

from __future__ import annotations

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.coordinator.groups.records import CommittedOffset, offset_commit
from kwire.coordinator.runtime.long_operations import EstimatedPace
from tests.coordinator.bench import Bench

DAY_MS = 24 * 3600 * 1000
WEEK_MS = 7 * DAY_MS
TT = {"range": b"\0\0\0\0\0\1\0\2tt\xff\xff\xff\xff"}


@pytest.fixture
def bench() -> Bench:
    return Bench()


def delete_offsets(bench: Bench, *partitions: tuple[str, int]) -> list[ErrorCode]:
    request = OffsetDeleteRequest(
        group_id=bench.group,
        topics=[
            OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
            for topic, index in partitions
        ],
    )
    response = bench.run(bench.shard.delete_offsets(request)).response
    return [ErrorCode(partition.error_code) for topic in response.topics for partition in topic.partitions]


def delete_group(bench: Bench) -> ErrorCode:
    response = bench.run(bench.shard.delete_group(bench.group)).response
    assert isinstance(response, ErrorCode)
    return response


def expire(bench: Bench, after_ms: int = 0) -> None:
    bench.advance(after_ms)
    bench.run(bench.shard.expire(bench.shard.groups.snapshot(), bench.now))


# -- OffsetCommit ------------------------------------------------------------------------------------------------------


def test_a_consumer_that_assigns_itself_commits_without_members(bench: Bench) -> None:
    assert bench.commit({("t", 0): 5, ("t", 1): 6}) is ErrorCode.NONE
    assert bench.committed() == {("t", 0): 5, ("t", 1): 6}
    assert bench.state == "Empty" and bench.classic.listed_protocol_type == ""


def test_the_error_for_a_missing_group_depends_on_the_version(bench: Bench) -> None:
    assert bench.commit({("t", 0): 5}, "m", 1, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert bench.commit({("t", 0): 5}, "m", 1, version=9) is ErrorCode.GROUP_ID_NOT_FOUND


def test_only_members_of_the_generation_commit_to_a_group_with_members(bench: Bench) -> None:
    leader, _ = bench.stable_group(2)
    assert bench.commit({("t", 0): 5}, leader.member_id, 1) is ErrorCode.NONE
    assert bench.commit({("t", 0): 5}, leader.member_id, 2) is ErrorCode.ILLEGAL_GENERATION
    assert bench.commit({("t", 0): 5}, leader.member_id, -1) is ErrorCode.ILLEGAL_GENERATION
    assert bench.commit({("t", 0): 5}, "unknown", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.commit({("t", 0): 5}, "", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.commit({("t", 0): 5}) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.commit({("t", 0): 5}, leader.member_id, 1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_fenced_static_member_cannot_commit(bench: Bench) -> None:
    old = bench.stable(bench.join(instance="i"))[0]
    new = bench.join(instance="i").response
    assert bench.commit({("t", 0): 5}, old.member_id, 1, instance="i") is ErrorCode.FENCED_INSTANCE_ID
    assert bench.commit({("t", 0): 5}, new.member_id, 1, instance="i") is ErrorCode.NONE


def test_members_commit_while_others_join_but_not_while_the_leader_assigns(bench: Bench) -> None:
    leader, follower = bench.stable_group(2)
    bench.join(leader.member_id)
    assert bench.commit({("t", 0): 5}, follower.member_id, 1) is ErrorCode.NONE
    bench.join(follower.member_id)
    assert bench.state == "CompletingRebalance"
    assert bench.commit({("t", 0): 5}, follower.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_restarts_the_session(bench: Bench) -> None:
    [leader] = bench.stable_group(session_ms=10_000)
    for _ in range(5):
        bench.advance(9_000)
        assert bench.commit({("t", 0): 5}, leader.member_id, 1) is ErrorCode.NONE


def test_the_metadata_limit_counts_java_characters(bench: Bench) -> None:
    assert bench.commit({("t", 0): 5}, metadata="x" * 4096) is ErrorCode.NONE
    assert bench.commit({("t", 0): 6}, metadata="x" * 4097) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert bench.commit({("t", 0): 6}, metadata="\U0001f600" * 2048 + "x") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert bench.committed() == {("t", 0): 5}


def test_null_metadata_is_stored_as_empty(bench: Bench) -> None:
    bench.commit({("t", 0): 5}, metadata=None)
    assert bench.fetch("t", 0).metadata == ""


def test_a_commit_that_cannot_be_written_changes_nothing(bench: Bench) -> None:
    bench.commit({("t", 0): 5})
    bench.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        bench.commit({("t", 0): 6})
    assert bench.committed() == {("t", 0): 5}


# -- OffsetFetch -------------------------------------------------------------------------------------------------------


def test_without_a_commit_the_offset_is_minus_one_without_error(bench: Bench) -> None:
    position = bench.fetch("t", 0)
    assert (position.committed_offset, position.error_code) == (-1, ErrorCode.NONE)
    bench.commit({("t", 0): 5})
    assert bench.fetch("t", 1).committed_offset == -1
    assert bench.fetch("t", 0).committed_offset == 5


def test_an_offset_of_an_earlier_topic_of_the_same_name_is_not_returned(bench: Bench) -> None:
    one, two = b"1" * 16, b"2" * 16
    bench.commit({("t", 0): 5}, topic_id=one)
    assert bench.fetch("t", 0, topic_id=one).committed_offset == 5
    assert bench.fetch("t", 0, topic_id=two).committed_offset == -1
    assert bench.fetch("t", 0).committed_offset == 5


def pending_commit(bench: Bench, offset: int, producer_id: int = 7) -> None:
    key, value = offset_commit(bench.group, "t", 0, CommittedOffset(offset, commit_ms=bench.now.wall_ms))
    bench.shard.apply(key, value, len(bench.log), wall_ms=0, producer_id=producer_id)
    bench.log.append((key, value))  # type: ignore[arg-type]


def test_offsets_in_a_transaction_take_effect_when_it_commits(bench: Bench) -> None:
    bench.commit({("t", 0): 5})
    pending_commit(bench, 9)
    assert bench.committed() == {("t", 0): 5}
    assert bench.fetch("t", 0, require_stable=True).error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert bench.committed(require_stable=True) == {("t", 0): -1}
    bench.shard.end_transaction(7, committed=True)
    assert bench.committed(require_stable=True) == {("t", 0): 9}


def test_offsets_of_an_aborted_transaction_are_dropped(bench: Bench) -> None:
    pending_commit(bench, 9)
    bench.shard.end_transaction(7, committed=False)
    assert bench.committed() == {}


def test_a_later_commit_outside_prevails_over_a_transaction(bench: Bench) -> None:
    pending_commit(bench, 9)
    bench.commit({("t", 0): 11})
    bench.shard.end_transaction(7, committed=True)
    assert bench.committed() == {("t", 0): 11}


@pytest.mark.parametrize("how", ["group", "offsets", "topic"])
def test_a_deleted_offset_does_not_return_when_a_transaction_commits(bench: Bench, how: str) -> None:
    pending_commit(bench, 9)
    pending_commit(bench, 10, producer_id=8)
    if how == "group":
        assert delete_group(bench) is ErrorCode.NONE
    elif how == "offsets":
        delete_offsets(bench, ("t", 0))
    else:
        bench.run(bench.shard.forget_partitions({"t": {0}}, (), EstimatedPace()))
    assert bench.log[-1 if how != "group" else -2][1] is None
    bench.shard.end_transaction(7, committed=True)
    bench.shard.end_transaction(8, committed=True)
    assert list(bench.shard.offsets.walk(bench.group)) == []


# -- OffsetDelete ------------------------------------------------------------------------------------------------------


def test_offsets_of_a_simple_group_are_deleted(bench: Bench) -> None:
    bench.commit({("t", 0): 5, ("t", 1): 6})
    assert delete_offsets(bench, ("t", 0), ("t", 7)) == [ErrorCode.NONE, ErrorCode.NONE]
    assert bench.committed() == {("t", 1): 6}


def test_offsets_of_a_subscribed_topic_cannot_be_deleted(bench: Bench) -> None:
    [leader] = bench.stable_group(protocols=TT)
    bench.commit({("tt", 0): 5, ("other", 0): 6}, leader.member_id, 1)
    assert delete_offsets(bench, ("tt", 0), ("other", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert bench.committed() == {("tt", 0): 5}
    bench.leave(leader.member_id)
    assert delete_offsets(bench, ("tt", 0)) == [ErrorCode.NONE]


def test_consumers_with_unreadable_metadata_count_as_subscribed_to_all_topics(bench: Bench) -> None:
    bench.stable_group(protocols={"range": b"?"})
    assert delete_offsets(bench, ("any", 0)) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_in_a_group_of_other_clients_offsets_can_be_deleted_only_if_it_is_empty(bench: Bench) -> None:
    bench.stable_group(protocol_type="connect")
    with pytest.raises(KafkaError) as refused:
        delete_offsets(bench, ("t", 0))
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP


def test_offsets_of_a_missing_group_cannot_be_deleted(bench: Bench) -> None:
    with pytest.raises(KafkaError) as refused:
        delete_offsets(bench, ("t", 0))
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


# -- DeleteGroups ------------------------------------------------------------------------------------------------------


def test_only_an_empty_group_is_deleted(bench: Bench) -> None:
    assert delete_group(bench) is ErrorCode.GROUP_ID_NOT_FOUND
    [leader] = bench.stable_group()
    bench.commit({("t", 0): 5}, leader.member_id, 1)
    assert delete_group(bench) is ErrorCode.NON_EMPTY_GROUP
    bench.leave(leader.member_id)
    assert delete_group(bench) is ErrorCode.NONE
    assert bench.state == "Dead" and bench.committed() == {}
    bench.reload()
    assert bench.state == "Dead" and bench.committed() == {}


def test_a_deleted_group_leaves_no_timers(bench: Bench) -> None:
    bench.join()
    assert delete_group(bench) is ErrorCode.NONE
    assert len(bench.shard.timers) == 0


def test_the_offsets_of_deleted_topics_are_deleted(bench: Bench) -> None:
    bench.commit({("t", 0): 5, ("t", 1): 6, ("u", 0): 7})
    bench.run(bench.shard.forget_partitions({"t": {0, 1}, "x": {0}}, (), EstimatedPace()))
    assert bench.committed() == {("u", 0): 7}


# -- retention ---------------------------------------------------------------------------------------------------------


def test_offsets_of_a_simple_group_expire_by_their_age(bench: Bench) -> None:
    bench.commit({("t", 0): 5})
    bench.advance(DAY_MS)
    bench.commit({("t", 1): 6})
    expire(bench, 6 * DAY_MS - 1)
    assert len(bench.committed()) == 2
    expire(bench, 1)
    assert bench.committed() == {("t", 1): 6}
    expire(bench, DAY_MS)
    assert bench.state == "Dead"


def test_offsets_of_a_group_expire_by_the_time_it_is_empty(bench: Bench) -> None:
    [leader] = bench.stable_group(protocols=TT, session_ms=1_000_000)
    bench.commit({("tt", 0): 5}, leader.member_id, 1)
    bench.leave(leader.member_id)
    expire(bench, WEEK_MS - 1)
    assert bench.committed() == {("tt", 0): 5}
    bench.reload()
    expire(bench, 1)
    assert bench.state == "Dead"


def test_in_a_group_with_members_only_unsubscribed_topics_expire() -> None:
    bench = Bench()
    [leader] = bench.stable_group(protocols=TT, session_ms=1_800_000)
    bench.commit({("tt", 0): 5, ("other", 0): 6}, leader.member_id, 1)
    for _ in range(7 * 48):
        bench.advance(1_799_999)
        bench.heartbeat(leader.member_id, 1)
    expire(bench, 7 * 48)
    assert bench.committed() == {("tt", 0): 5}


def test_during_a_rebalance_no_offset_expires(bench: Bench) -> None:
    leader, follower = bench.stable_group(2, protocols=TT, session_ms=1_800_000, rebalance_ms=2**31 - 1)
    bench.commit({("other", 0): 6}, leader.member_id, 1)
    bench.join(leader.member_id, protocols=TT, session_ms=1_800_000, rebalance_ms=2**31 - 1)
    for _ in range(8 * 48):
        bench.advance(1_799_999)
        bench.heartbeat(follower.member_id, 1)
    assert bench.state == "PreparingRebalance"
    expire(bench)
    assert bench.committed() == {("other", 0): 6}


def test_a_retention_time_in_the_request_prevails(bench: Bench) -> None:
    bench.commit({("t", 0): 5}, version=3, retention_ms=1_000)
    bench.commit({("t", 1): 5}, version=3, retention_ms=30 * DAY_MS)
    expire(bench, 999)
    assert len(bench.committed()) == 2
    expire(bench, 1)
    assert list(bench.committed()) == [("t", 1)]
    expire(bench, 29 * DAY_MS)
    assert list(bench.committed()) == [("t", 1)]


def test_an_empty_group_without_offsets_is_deleted_at_once(bench: Bench) -> None:
    [leader] = bench.stable_group()
    expire(bench)
    assert bench.state == "Stable"
    bench.leave(leader.member_id)
    expire(bench)
    assert bench.state == "Dead"


def test_a_pending_offset_does_not_expire(bench: Bench) -> None:
    bench.commit({("t", 0): 5})
    pending_commit(bench, 9)
    expire(bench, WEEK_MS)
    assert bench.committed() == {("t", 0): 5}


# -- reload ------------------------------------------------------------------------------------------------------------


def test_a_reload_restores_the_state(bench: Bench) -> None:
    members = bench.stable_group(3, protocols=TT)
    bench.commit({("tt", 0): 5, ("u", 3): 8}, members[0].member_id, 1)
    bench.group = "static"
    bench.stable(bench.join(instance="i", protocols=TT))
    bench.join(instance="i", protocols=TT)
    bench.group = "simple"
    bench.commit({("x", 0): 1}, metadata="m", topic_id=b"7" * 16)
    bench.group = "left"
    bench.leave(bench.stable_group()[0].member_id)
    before = bench.picture()
    bench.reload()
    assert bench.picture() == before
