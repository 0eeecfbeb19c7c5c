"""Defects that the schedules of `campaigns/schedules` have found, one test each."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from harness.waiting import PATIENCE_S
from kwire.base.errors import ErrorCode
from kwire.codec.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kwire.codec.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.codec.messages.consumer_protocol_subscription import TopicPartition as OwnedPartition
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.heartbeat_response import HeartbeatResponse
from kwire.codec.protocol import encode
from kwire.coordinator.assignors import GroupSpec, MemberSpec
from kwire.coordinator.assignors.uniform import assign_uniform
from kwire.coordinator.groups.consumer.group import ConsumerGroup
from kwire.coordinator.groups.records import NO_TIMESTAMP
from kwire.coordinator.runtime.runtime import Phase
from kwire.handlers.groups import heartbeat
from tests.coordinator.bench import Bench
from tests.coordinator.consumer_bench import ConsumerBench, settings
from tests.coordinator.fakes import FakePartition
from tests.coordinator.groups.test_group_coordinator import Config, Service

SUBSCRIPTION = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["t"]), 0)


def owning(*partitions: int, generation: int) -> bytes:
    """The subscription of a cooperative member."""
    owned = [OwnedPartition(topic="t", partitions=list(partitions))]
    message = ConsumerProtocolSubscription(topics=["t"], owned_partitions=owned, generation_id=generation)
    return b"\0\2" + encode(message, 2)


def assigned(*partitions: int) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic="t", partitions=list(partitions))] if partitions else []
    )
    return b"\0\0" + encode(message, 0)


async def test_a_timer_whose_records_were_refused_fires_again() -> None:
    partition = FakePartition()
    service = Service(partition, config=Config(group_min_session_timeout_ms=10))
    await service.groups.start()
    shard = service.groups._runtimes[0].shard
    calls = []
    again = asyncio.Event()

    def due(out: Any, now: Any) -> None:
        calls.append(now)
        if len(calls) == 2:
            again.set()
        bench = Bench()
        bench.stable_group()
        out.records.extend(bench.log)

    partition.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    shard.timers.schedule("due", 0, due)
    service.groups._runtimes[0]._on_alarm()
    assert len(calls) == 1 and "due" in shard.timers, "the timer was lost"
    partition.refuse = None
    await asyncio.wait_for(again.wait(), PATIENCE_S)
    assert "due" not in shard.timers
    await service.groups.close()


def test_a_reload_keeps_the_newest_metadata_of_a_member() -> None:
    bench = Bench()
    [joined] = bench.stable_group(protocols={"range": b"old"})
    again = bench.join(joined.member_id, protocols={"range": b"new"})
    bench.sync(again.response, {joined.member_id: b"A"})
    bench.reload()
    assert bench.classic.members[joined.member_id].protocols == {"range": b"new"}


def test_a_static_member_whose_replacement_was_refused_keeps_its_session() -> None:
    bench = Bench()
    call = bench.join(instance="i")
    bench.stable(call)
    bench.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.join(instance="i").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ("session", bench.group, call.response.member_id) in bench.shard.timers


def test_partitions_that_do_not_exist_are_not_assigned() -> None:
    topic = b"t" * 16
    for topics in (frozenset({topic}), frozenset({topic, b"u" * 16})):
        members = {"a": MemberSpec(frozenset({topic}), {topic: [0, 1, 5]}), "b": MemberSpec(topics, {})}
        group = GroupSpec(members, dict.fromkeys(sorted(topics), 3), len(topics) == 1)
        found = sorted(index for part in assign_uniform(group).values() for index in part.get(topic, ()))
        assert found == [0, 1, 2]


def test_a_member_that_lost_a_response_gets_its_assignment() -> None:
    bench = ConsumerBench(settings())
    epoch = bench.enter("a").member_epoch
    bench.set_topics(t=6)
    missed = bench.beat("a", epoch)
    assert missed.member_epoch > epoch and missed.assignment is not None
    again = bench.beat("a", epoch, owned={bench.cluster.id("t"): {0, 1}})
    assert again.member_epoch == missed.member_epoch
    assert again.assignment == missed.assignment


async def test_a_heartbeat_while_groups_are_loaded_succeeds_for_any_member() -> None:
    """The group is not loaded yet, so the response does not confirm the membership. The schedule assumed that it
    does."""
    partition = FakePartition()
    service = Service(partition)
    await service.groups.start()
    service.groups._runtimes[0].phase = Phase.LOADING
    context = cast(Any, SimpleNamespace(services=SimpleNamespace(groups=service.groups)))
    response = heartbeat.handle(HeartbeatRequest(group_id="g", member_id="nobody", generation_id=7), context)
    assert isinstance(response, HeartbeatResponse) and response.error_code == 0
    service.groups._runtimes[0].phase = Phase.ACTIVE
    await service.groups.close()


# -- migrations --------------------------------------------------------------------------------------------------------


def test_a_downgraded_group_that_is_loaded_before_it_rebalanced_rebalances() -> None:
    bench = ConsumerBench(settings())
    first = bench.enter("m")
    assert first.error_code == 0
    waits = bench.join(protocols={"range": SUBSCRIPTION})
    waits = bench.join(waits.response.member_id, protocols={"range": SUBSCRIPTION})
    assert waits.error is ErrorCode.NONE and isinstance(bench.shard.groups.find("g"), ConsumerGroup)
    bench.beat("m", -1)
    assert bench.state == "PreparingRebalance"
    bench.reload()
    assert bench.state == "PreparingRebalance"
    assert bench.classic.state_ms != NO_TIMESTAMP


def test_an_upgrade_with_unassigned_partitions_computes_a_new_assignment() -> None:
    bench = ConsumerBench(settings())
    joined = bench.join(instance="i", protocols={"range": SUBSCRIPTION}).response
    bench.sync(joined, {joined.member_id: assigned(0, 1, 2, 3)}, instance="i")
    bench.set_topics(t=6)
    response = bench.enter("m", instance_id="i")
    assert response.member_epoch == 2
    assert [one.partitions for one in response.assignment.topic_partitions] == [[0, 1, 2, 3, 4, 5]]


def test_the_held_assignment_survives_a_refused_assignment() -> None:
    bench = ConsumerBench(settings())
    [joined] = bench.stable_group(protocols={"range": SUBSCRIPTION})
    bench.classic.members[joined.member_id].assignment = bench.classic.members[joined.member_id].held = assigned(0, 1)
    again = bench.join(joined.member_id, protocols={"range": SUBSCRIPTION + b"\0"}).response
    bench.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.sync(again, {joined.member_id: assigned(0, 1, 2, 3)})
    bench.refuse = None
    given = bench.enter("m").assignment.topic_partitions
    assert not {0, 1} & {index for one in given for index in one.partitions}


def cooperative_member_that_has_to_revoke(bench: ConsumerBench) -> Any:
    """It owned partitions 0 to 2 and is assigned 1 and 3 in the new generation. It may not have received its
    assignment."""
    [joined] = bench.stable_group(protocols={"cooperative-sticky": SUBSCRIPTION})
    again = bench.join(joined.member_id, protocols={"cooperative-sticky": owning(0, 1, 2, generation=1)}).response
    bench.sync(again, {joined.member_id: assigned(1, 3)})
    return again


def test_an_upgrade_keeps_partitions_that_a_cooperative_member_still_has_to_revoke() -> None:
    bench = ConsumerBench(settings())
    member = cooperative_member_that_has_to_revoke(bench)
    given = bench.enter("m").assignment.topic_partitions
    assert not given, "partitions that are not revoked yet are kept"
    assert bench.heartbeat(member.member_id, member.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    metadata = owning(1, 3, generation=member.generation_id)
    bench.join(member.member_id, protocols={"cooperative-sticky": metadata})
    [assignment] = bench.beat("m", bench.consumers.members["m"].epoch).assignment.topic_partitions
    assert assignment.partitions == [0, 2]


def test_a_downgrade_keeps_partitions_that_a_member_still_has_to_revoke() -> None:
    bench = ConsumerBench(settings())
    member = bench.join(instance="i", protocols={"cooperative-sticky": SUBSCRIPTION}).response
    bench.sync(member, {member.member_id: assigned(0, 1, 2, 3)}, instance="i")
    bench.enter("m")
    bench.beat("m", -1)
    assert bench.state == "PreparingRebalance"
    assert not bench.enter("n").assignment.topic_partitions, (
        "nothing is free: the first member still owns all partitions"
    )


def test_a_member_does_not_revoke_partitions_that_others_own() -> None:
    bench = ConsumerBench(settings())
    late, owner = bench.stable_group(2, protocols={"cooperative-sticky": owning(0, 1, generation=1)})
    members = bench.classic.members
    members[late.member_id].assignment = members[late.member_id].held = assigned(3)
    members[owner.member_id].assignment = members[owner.member_id].held = assigned(0, 1)
    bench.enter("m")
    assert bench.consumers.members[late.member_id].revoking == {}
    assert bench.consumers.owner(bench.cluster.id("t"), 0) == owner.member_id


def test_a_downgraded_group_that_has_not_rebalanced_notices_changed_topics() -> None:
    bench = ConsumerBench(settings())
    bench.enter("m", instance_id="i")
    first = bench.join(instance="j", protocols={"range": SUBSCRIPTION}).response
    owned = {bench.cluster.id("t"): {0, 1}}
    bench.beat("m", 1, instance_id="i", owned=owned)
    bench.beat("m", bench.consumers.members["m"].epoch, instance_id="i", owned=owned)
    first = bench.join(first.member_id, instance="j", protocols={"range": SUBSCRIPTION}).response
    bench.sync(first, instance="j")
    back = bench.join(instance="i", protocols={"range": SUBSCRIPTION}).response
    bench.sync(back, instance="i")
    assert bench.state == "Stable" and bench.classic.generation == back.generation_id
    bench.set_topics(u=2)
    bench.tick()
    assert bench.state == "Stable"
    bench.set_topics(t=6)
    bench.tick()
    assert bench.state == "PreparingRebalance"


def test_a_static_member_that_restarts_before_revoking_causes_a_rebalance() -> None:
    bench = ConsumerBench(settings())
    member = bench.join(instance="i", protocols={"cooperative-sticky": SUBSCRIPTION}).response
    bench.sync(member, {member.member_id: assigned(0, 1)}, instance="i")
    held = {"cooperative-sticky": owning(0, 1, generation=1)}
    member = bench.join(member.member_id, instance="i", protocols=held).response
    bench.sync(member, {member.member_id: assigned(0)}, instance="i")
    back = bench.join(instance="i", protocols={"cooperative-sticky": SUBSCRIPTION}).response
    assert back.generation_id == member.generation_id + 1
    bench.sync(back, {back.member_id: assigned(0)}, instance="i")
    again = bench.join(instance="i", protocols={"cooperative-sticky": SUBSCRIPTION}).response
    assert again.generation_id == back.generation_id, "no partition is left to revoke"
