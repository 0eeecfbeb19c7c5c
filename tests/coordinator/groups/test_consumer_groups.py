"""Consumer groups (KIP-848), step by step on a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kwire.codec.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.coordinator.groups.consumer import records as consumer_records
from kwire.coordinator.runtime.java_hash import timeline_map_order
from tests.coordinator.bench import Bench, Settings
from tests.coordinator.consumer_bench import ConsumerBench


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


def sizes(bench: ConsumerBench) -> dict[str, int]:
    return {name: sum(map(len, member.assigned.values())) for name, member in bench.consumers.members.items()}


def owned(bench: ConsumerBench, name: str) -> dict[bytes, list[int]]:
    return {topic: sorted(part) for topic, part in bench.consumers.members[name].assigned.items()}


def test_partitions_move_only_after_their_owner_has_revoked_them(bench: ConsumerBench) -> None:
    a = bench.enter("a")
    assert sum(len(one.partitions) for one in a.assignment.topic_partitions) == 4
    b = bench.enter("b")
    assert b.assignment.topic_partitions == []
    revoked = bench.beat("a", a.member_epoch)
    assert revoked.member_epoch == a.member_epoch, "the epoch stays until the partitions are revoked"
    assert bench.beat("b", b.member_epoch).assignment is None
    kept = {one.topic_id: list(one.partitions) for one in revoked.assignment.topic_partitions}
    assert bench.beat("a", a.member_epoch, owned=kept).member_epoch == b.member_epoch
    got = bench.beat("b", b.member_epoch).assignment
    assert sum(len(one.partitions) for one in got.topic_partitions) == 2
    assert bench.consumers.state_name == "Stable"


def test_a_member_that_does_not_revoke_in_time_is_fenced(bench: ConsumerBench) -> None:
    epoch = bench.enter("a").member_epoch
    bench.enter("b")
    bench.beat("a", epoch)
    for _ in range(3):
        bench.advance(10_000)
        bench.beat("a", epoch, owned={bench.cluster.id("t"): [0, 1, 2, 3]})
    assert "a" not in bench.consumers.members
    assert bench.beat("a", epoch).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_without_heartbeats_is_fenced(bench: ConsumerBench) -> None:
    bench.enter("a")
    bench.advance(44_999)
    assert "a" in bench.consumers.members
    bench.advance(1)
    assert bench.consumers.state_name == "Empty"


def test_a_session_timeout_set_for_the_group_applies(bench: ConsumerBench) -> None:
    bench.cluster.group_configs["g"] = {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "77"}
    assert bench.enter("a").heartbeat_interval_ms == 77
    bench.advance(1_000)
    assert bench.consumers.is_empty


@pytest.mark.parametrize(
    ("behind", "reports", "allowed"), [(0, True, True), (1, True, True), (1, False, False), (2, True, False)]
)
def test_only_the_previous_epoch_is_accepted(bench: ConsumerBench, behind: int, reports: bool, allowed: bool) -> None:
    epoch = bench.enter("a").member_epoch
    for topics in (("t", "x"), ("t", "y"), ("t",)):
        epoch = bench.beat("a", epoch, subscribed_topic_names=list(topics)).member_epoch
    response = bench.beat("a", epoch - behind, owned=owned(bench, "a") if reports else None)
    assert response.error_code == (ErrorCode.NONE if allowed else ErrorCode.FENCED_MEMBER_EPOCH)


def test_a_stable_group_notices_new_partitions(bench: ConsumerBench) -> None:
    epoch = bench.enter("a").member_epoch
    bench.set_topics(u=3)
    assert bench.beat("a", epoch).member_epoch == epoch, "no member subscribes to it"
    bench.set_topics(t=6)
    response = bench.beat("a", epoch)
    assert response.member_epoch == epoch + 1
    assert sizes(bench) == {"a": 6}


def test_a_pattern_is_resolved_after_the_response_and_deleted_with_its_last_subscriber(bench: ConsumerBench) -> None:
    first = bench.enter("a", subscribed_topic_names=None, subscribed_topic_regex="[tu]")
    assert first.assignment.topic_partitions == []
    assert bench.consumers.resolved["[tu]"].topics == {"t"}
    second = bench.beat("a", first.member_epoch)
    assert sizes(bench) == {"a": 4}
    bench.set_topics(u=2, tu=1)
    bench.advance(10_001)
    second = bench.beat("a", second.member_epoch)
    bench.beat("a", second.member_epoch)
    assert sizes(bench) == {"a": 6}
    bench.beat("a", second.member_epoch + 1, subscribed_topic_regex="", subscribed_topic_names=["tu"])
    assert not bench.consumers.resolved


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", "(a)\\1", "[", "x{1001}"])
def test_an_expression_that_re2_rejects_is_refused_and_nothing_is_written(bench: ConsumerBench, pattern: str) -> None:
    response = bench.enter("a", subscribed_topic_regex=pattern)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert bench.log == []


def test_assignments_are_computed_no_more_often_than_the_interval() -> None:
    bench = ConsumerBench(Settings(group_consumer_assignment_interval_ms=1_000))
    bench.enter("a")
    bench.advance(999)
    epoch = bench.enter("b").member_epoch
    assert bench.consumers.state_name == "Assigning"
    bench.advance(1)
    assert bench.beat("b", epoch).member_epoch == epoch + 1


def test_a_static_member_replaces_its_predecessor(bench: ConsumerBench) -> None:
    bench.enter("a", instance_id="i")
    assert bench.enter("b", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert bench.beat("a", -2, instance_id="i").member_epoch == -2
    epoch = bench.consumers.epoch
    response = bench.enter("b", instance_id="i")
    assert sum(len(one.partitions) for one in response.assignment.topic_partitions) == 4
    assert bench.consumers.epoch == epoch and list(bench.consumers.members) == ["b"]
    assert bench.beat("a", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_full_group_refuses_new_members(bench: ConsumerBench) -> None:
    bench.settings.group_consumer_max_size = 1
    epoch = bench.enter("a").member_epoch
    assert bench.enter("b").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.beat("a", epoch).error_code == ErrorCode.NONE


def test_a_refused_append_changes_nothing(bench: ConsumerBench) -> None:
    bench.enter("a")
    before = dict(bench.consumers.members), bench.consumers.epoch
    bench.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.enter("b").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (dict(bench.consumers.members), bench.consumers.epoch) == before


def test_a_deleted_group_leaves_only_tombstones(bench: ConsumerBench) -> None:
    bench.enter("a", subscribed_topic_regex="t")
    bench.beat("a", -1)
    bench.run(bench.shard.delete_group("g"))
    assert bench.shard.groups.find("g") is None
    bench.reload()
    assert bench.shard.groups.find("g") is None
    last = {bytes(record.key): record.value for record in bench.log}
    assert set(last.values()) == {None}, "every key ends with a tombstone"


def test_partitions_without_assignment_epochs_have_the_member_epoch() -> None:
    """Kafka before 4.3 writes no assignment epochs."""
    written = ConsumerGroupCurrentMemberAssignmentValue(
        assigned_partitions=[TopicPartitions(topic_id=b"t" * 16, partitions=[1, 2], assignment_epochs=None)]
    )
    assert consumer_records.owned_partitions(written.assigned_partitions, 7) == {b"t" * 16: {1: 7, 2: 7}}


def test_the_order_of_members_is_that_of_kafkas_timeline_map() -> None:
    assert timeline_map_order(["a"]) == ["a"]
    assert sorted(timeline_map_order(f"m{n}" for n in range(50))) == sorted(f"m{n}" for n in range(50))


@pytest.mark.parametrize(("behind", "allowed"), [(0, True), (1, True), (2, False)])
def test_a_member_with_an_older_epoch_commits_what_it_has_owned_since(
    bench: ConsumerBench, behind: int, allowed: bool
) -> None:
    """KIP-1251, inside and outside transactions. The partitions were assigned in the epoch before the member's own."""
    bench.enter("a", topics=("x",))
    epoch = bench.beat("a", 2, subscribed_topic_names=["t"]).member_epoch
    epoch = bench.beat("a", epoch, subscribed_topic_names=["t", "x"]).member_epoch
    asked = TxnOffsetCommitRequestTopic(
        name="t", partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    )
    request = TxnOffsetCommitRequest(
        group_id="g", member_id="a", generation_id=epoch - behind, producer_id=1, topics=[asked]
    )
    shard = bench.shard
    for commit in (
        lambda: shard.commit_transactional_offsets(request, 5, bench.now),
        lambda: list(shard.commit_many_transactional_offsets(request, 5, (), bench.now)),
    ):
        if allowed:
            commit()
        else:
            with pytest.raises(KafkaError) as refused:
                commit()
            assert refused.value.code is ErrorCode.ILLEGAL_GENERATION


# -- migration ---------------------------------------------------------------------------------------------------------

SUBSCRIPTION = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0"


def classic_group(bench: ConsumerBench) -> Any:
    """A stable classic group of one member that owns all partitions of t."""
    call = bench.join(protocols={"range": SUBSCRIPTION}, version=3, session_ms=10_000)
    joined = call.response
    assignment = b"\0\0\0\0\0\1\0\1t\0\0\0\4" + b"".join(n.to_bytes(4, "big") for n in range(4)) + b"\xff\xff\xff\xff"
    assert bench.sync(joined, {joined.member_id: assignment}).error is ErrorCode.NONE
    return joined


def test_an_upgraded_group_keeps_the_partitions_of_its_members(bench: ConsumerBench) -> None:
    joined = classic_group(bench)
    response = bench.enter("new")
    assert response.error_code == ErrorCode.NONE
    group = bench.consumers
    assert group.members[joined.member_id].uses_classic and sizes(bench)[joined.member_id] == 4
    assert bench.heartbeat(joined.member_id, joined.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    bench.reload()
    assert sizes(bench)[joined.member_id] == 4


def test_the_last_consumer_protocol_member_leaves_a_classic_group_behind(bench: ConsumerBench) -> None:
    joined = classic_group(bench)
    bench.enter("new")
    bench.beat("new", -1)
    assert isinstance(bench, Bench) and bench.classic.members.keys() == {joined.member_id}
    assert bench.state == "PreparingRebalance"
    bench.advance(10 * 60_000)
    assert bench.state == "Empty" and len(bench.shard.timers) == 0


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [("disabled", False, False), ("upgrade", True, False), ("DOWNGRADE", False, True), ("bidirectional", True, True)],
)
def test_the_policy_decides_whether_groups_migrate(bench: ConsumerBench, policy: str, up: bool, down: bool) -> None:
    classic_group(bench)
    bench.settings.group_consumer_migration_policy = policy
    response = bench.enter("new")
    assert response.error_code == (ErrorCode.NONE if up else ErrorCode.GROUP_ID_NOT_FOUND)
    if not up:
        bench.settings.group_consumer_migration_policy = "bidirectional"
        bench.enter("new")
        bench.settings.group_consumer_migration_policy = policy
    bench.beat("new", -1)
    found = bench.shard.groups.find("g")
    assert found is not None and found.type_name == ("classic" if down else "consumer")


def test_a_group_with_a_custom_assignor_stays_classic(bench: ConsumerBench) -> None:
    joined = bench.join(protocols={"mine": SUBSCRIPTION}, version=3).response
    bench.sync(joined, {joined.member_id: b"\0\0\0\0\0\0\0\0\0\1x"})
    refused = bench.enter("new")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message is not None and "switch to a default assignor" in refused.error_message
    assert bench.state == "Stable"
