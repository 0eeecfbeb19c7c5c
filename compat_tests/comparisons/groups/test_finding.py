"""FindCoordinator in every version, and group settings that need a separate broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.comparisons.groups.script import Script, join, leave, sync
from compat_tests.names import Names
from compat_tests.servers import running
from harness.observations import Observations
from harness.processes.brokers import Broker, make_broker
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup


def found(script: Script, response: Any) -> Any:
    """A response without the port, which differs."""
    for place in (response, *response.coordinators):
        if place.port == script.broker.port:
            place.port = 0
    return response


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_found(script: Script, new_name: Names, version: int) -> None:
    script.ready(new_name("group"))
    if version < 4:
        requests = {"group": FindCoordinatorRequest(key="g"), "empty": FindCoordinatorRequest(key="")}
        strange = FindCoordinatorRequest(key="g", key_type=9)
        share = FindCoordinatorRequest(key="g", key_type=2)
    else:
        requests = {
            "groups": FindCoordinatorRequest(coordinator_keys=["g", "", "h", "g"]),
            "none": FindCoordinatorRequest(coordinator_keys=[]),
        }
        strange = FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=9)
        share = FindCoordinatorRequest(coordinator_keys=["bad", "g:AAAAAAAAAAAAAAAAAAAAAA"], key_type=2)
    if version >= 1:
        requests |= {"strange": strange, "share": share}
    for what, request in requests.items():
        response = found(script, script.client(what).call(request, version))
        for place in response.coordinators:
            place.error_message = None  # Kafka has one text for the request, or one for each key
        script.see(what, response)


def test_all_offsets_of_a_group_come_in_the_same_order(
    broker: Broker, new_name: Names, make_topic: Callable[..., str], observe: Observations
) -> None:
    with Script(broker) as script:
        group = new_name("group")
        script.ready(group)
        topics = {make_topic(partitions): partitions for partitions in (1, 5, 2, 30)}
        for topic in reversed(topics):
            for index in range(topics[topic]):
                partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=index)
                request = OffsetCommitRequest(
                    group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
                )
                script.client().call(request, 8)
        fetched = script.client().call(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 9
        )
        found = fetched.groups[0].topics
        assert {topic.name: len(topic.partitions) for topic in found} == topics
        observe("offsets", [[topic.name, [each.partition_index for each in topic.partitions]] for topic in found])


@pytest.fixture(scope="module")
def limited(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with small classic groups only, and without anything else that the properties would change."""
    settings = {
        "group.max.size": "2",
        "group.coordinator.rebalance.protocols": "classic",
        "unstable.api.versions.enable": "true",
        "unstable.feature.versions.enable": "true",
    }
    broker = make_broker(broker_kind, tmp_path_factory.mktemp(f"limited-{broker_kind}"), settings)
    with running(broker, broker.kill):
        yield broker


def test_only_classic_groups_are_offered(limited: Broker, observe: Observations) -> None:
    with Script(limited) as script:
        script.ready("classic")
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="modern",
            member_id="m" * 22,
            member_epoch=0,
            rebalance_timeout_ms=5000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        for version in (0, 1):
            script.call("heartbeat", heartbeat, version)
            script.call("described", ConsumerGroupDescribeRequest(group_ids=["modern", "classic", ""]), version)
        script.call("listed", ListGroupsRequest(types_filter=["consumer"]), 5)
        observe("conversation", script.seen)


def test_groups_and_members_come_in_the_same_order(broker: Broker, new_name: Names, observe: Observations) -> None:
    with Script(broker) as script:
        mine = new_name("order")
        groups = [f"{mine}-{letter}" for letter in "abcdefghijkl"]
        for group in groups:
            script.ready(group)
            for member in ("one", "two", "three", "four") if group.endswith(("a", "e")) else ("one",):
                heartbeat = ConsumerGroupHeartbeatRequest(
                    group_id=group,
                    member_id=member,
                    member_epoch=0,
                    rebalance_timeout_ms=5000,
                    subscribed_topic_names=["no-such-topic"],
                    topic_partitions=[],
                )
                assert script.client("main").call(heartbeat, 1).error_code == 0
        named = [*groups[6:], "", "unknown-1", *groups[:6], "unknown-2", groups[0]]
        for version in (0, 1):
            described = script.client("main").call(ConsumerGroupDescribeRequest(group_ids=named), version).groups
            observe(
                f"consumer {version}",
                [[g.group_id, g.error_code, [m.member_id for m in g.members]] for g in described],
            )
        classic = script.client("main").call(DescribeGroupsRequest(groups=named), 6).groups
        observe("classic", [[g.group_id, g.error_code] for g in classic])
        for version in (3, 5):
            listed = script.client("main").call(ListGroupsRequest(), version).groups
            observe(f"listed {version}", [g.group_id for g in listed if g.group_id in groups])


def test_groups_have_a_largest_size(limited: Broker, observe: Observations) -> None:
    with Script(limited) as script:
        group = "full"
        fields: dict[str, Any] = {"rebalance_timeout_ms": 10_000}
        script.ready(group)
        first = script.call("a", join(group, **fields), 3, "a")
        parked = script.send(join(group, **fields), 3, "b")
        script.until(group, "PreparingRebalance")
        first = script.call("a again", join(group, first.member_id, **fields), 3, "a")
        second = script.receive("b joined", parked)
        script.call("c while the leader assigns", join(group, **fields), 3, "c")
        script.call("a syncs", sync(group, first, {}), 3, "a")
        script.call("c in a stable group", join(group, **fields), 3, "c")
        script.call("c in version 9", join(group, **fields), 9, "c")
        parked = script.send(join(group, first.member_id, **fields), 3, "a")
        script.until(group, "PreparingRebalance")
        waiting = script.send(join(group, **fields), 3, "c")
        assert script.is_parked(waiting)
        script.call("b is late", join(group, second.member_id, **fields), 3, "b")
        script.call("d is too many", join(group, **fields), 3, "d")
        script.receive("a joined", parked)
        script.receive("c joined", waiting)
        script.call("all leave", leave(group, (first.member_id, None)), 5)
        observe("conversation", script.seen)


def test_the_first_rebalance_waits(broker_factory: Callable[..., Broker], observe: Observations) -> None:
    with Script(broker_factory({"group.initial.rebalance.delay.ms": "6000"})) as script:
        group = "slow"
        script.ready(group)
        first = script.send(join(group), 3, "a")
        assert script.is_parked(first, 1.0)
        script.describe("waiting", group)
        second = script.send(join(group), 3, "b")
        assert script.is_parked(first, 6.0), "somebody came: it waits once more"
        leader, follower = script.receive("a joined", first), script.receive("b joined", second)
        waiting = script.send(sync(group, follower), 3, "b")
        script.call("a syncs", sync(group, leader, {follower.member_id: b"B"}), 3, "a")
        script.receive("b synced", waiting)
        third = script.send(join(group), 3, "c")
        script.until(group, "PreparingRebalance")
        again = script.send(join(group, leader.member_id), 3, "a")
        script.call("b joins at once", join(group, follower.member_id), 3, "b")
        script.receive("a joined again", again)
        script.receive("c joined", third)
        observe("conversation", script.seen)
