"""Error messages with facts that Kafka's tools show (names, numbers, limits): in Kafka's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compat_tests.comparisons.admin.requests import Wire, new_topic
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import wait_until
from kwire.base.errors import ErrorCode
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.codec.messages.create_topics_request import CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest


def test_topics_that_cannot_be_created(
    wire: Wire, made: Callable[..., str], new_name: Names, observe: Observations
) -> None:
    name = new_name("t")
    wrong = {
        "exists": new_topic(made()),
        "reserved": new_topic("__cluster_metadata"),
        "characters": new_topic("a/b"),
        "long": new_topic("x" * 250),
        "empty": new_topic(""),
        "dots": new_topic(".."),
        "no partitions": new_topic(name, 0),
        "no replicas": new_topic(name, 1, 0),
        "null": new_topic(name, configs=[("retention.ms", None)]),
        "empty list": new_topic(name, -1, -1, assignments=[(0, [])]),
        "twice": new_topic(name, -1, -1, assignments=[(0, [1, 1])]),
        "not registered": new_topic(name, -1, -1, assignments=[(0, [99])]),
        "a gap": new_topic(name, -1, -1, assignments=[(1, [1])]),
        "one partition twice": new_topic(name, -1, -1, assignments=[(0, [1]), (0, [1])]),
        "partitions and assignment": new_topic(name, 1, -1, assignments=[(0, [1])]),
        "replicas and assignment": new_topic(name, -1, 1, assignments=[(0, [1])]),
    }
    for what, topic in wrong.items():
        (result,) = wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7).topics
        observe(what, [result.error_code, result.error_message])
    named_twice = wire.call(CreateTopicsRequest(topics=[new_topic(name), new_topic(name)], timeout_ms=5000), 7).topics
    observe("named twice", [[each.error_code, each.error_message] for each in named_twice])
    (many,) = wire.call(CreateTopicsRequest(topics=[new_topic(name, 1, 2)], timeout_ms=5000), 7).topics
    assert "only 1 broker(s) are registered" in many.error_message
    observe("many replicas", many.error_message.partition("registered")[0])


def test_partitions_that_cannot_be_created(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    topic = made(3)
    for what, count, assignments in (
        ("as many", 3, None),
        ("fewer", 2, None),
        ("none", 0, None),
        ("too few assignments", 5, [[1]]),
        ("a broker that is not there", 4, [[99]]),
        ("no broker", 4, [[]]),
    ):
        given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=given)
        (result,) = wire.call(CreatePartitionsRequest(topics=[wanted], timeout_ms=5000), 3).results
        observe(what, [result.error_code, (result.error_message or "").replace(topic, "TOPIC")])


def test_topics_and_leaders_that_are_not_there(wire: Wire, made: Callable[..., str], observe: Observations) -> None:
    topic = made()
    states = {
        "no name": [DeleteTopicState(name="not-there")],
        "no id": [DeleteTopicState(name=None, topic_id=bytes(range(16)))],
        "neither": [DeleteTopicState(name=None)],
        "both": [DeleteTopicState(name="a", topic_id=bytes(range(16)))],
    }
    for what, topics in states.items():
        results = wire.call(DeleteTopicsRequest(topics=topics, timeout_ms=5000), 6).responses
        observe(f"delete {what}", [[each.error_code, each.error_message] for each in results])
    for what, name, index in (("topic", "not-there", 0), ("partition", topic, 7)):
        wanted = [TopicPartitions(topic=name, partitions=[index])]
        request = ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=5000)
        (result,) = wire.call(request, 2).replica_election_results
        (partition,) = result.partition_result
        observe(f"elect no {what}", [partition.error_code, partition.error_message.replace(topic, "TOPIC")])


def test_heartbeats_that_are_refused(wire: Wire, new_name: Names, observe: Observations) -> None:
    group = new_name("group")
    joining: dict[str, Any] = {
        "group_id": group,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 5000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    refused: dict[str, dict[str, Any]] = {
        "no group": {"group_id": ""},
        "no member": {"member_id": ""},
        "no instance": {"instance_id": ""},
        "no rack": {"rack_id": ""},
        "no timeout": {"rebalance_timeout_ms": -1},
        "no list": {"topic_partitions": None},
        "no topics": {"subscribed_topic_names": None},
        "another assignor": {"server_assignor": "nobody"},
        "leaves for a moment": {"member_epoch": -2},
    }
    for what, wrong in refused.items():
        response = wire.call(ConsumerGroupHeartbeatRequest(**{**joining, **wrong}), 1)
        observe(what, [response.error_code, response.error_message])

    def described() -> list[Any]:
        (found,) = wire.call(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
        return [found.error_code, found.error_message]

    wire.call(FindCoordinatorRequest(coordinator_keys=[group]), 6)  # creates the topic of groups
    wait_until(lambda: described()[0] == ErrorCode.GROUP_ID_NOT_FOUND, 30, "a coordinator")
    observe("described", described())
