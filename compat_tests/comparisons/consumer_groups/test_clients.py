"""Java and librdkafka consumers with group.protocol=consumer, each a process, on both brokers: groups grow and shrink,
members are killed and restarted, subscribe by pattern, and move a live group from one protocol to the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from compat_tests.clients.members import Join, joining, wait_settled
from compat_tests.comparisons.configs.requests import GROUP, SET, Configs
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker, make_broker, wait_until
from harness.wire_client import WireClient
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.list_groups_request import ListGroupsRequest

SETTINGS = {
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "8000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "100",
}
CLIENTS = ["confluent", pytest.param("java", marks=pytest.mark.java)]


@pytest.fixture(scope="session")
def live_broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = make_broker(broker_kind, tmp_path_factory.mktemp(f"live-{broker_kind}"), SETTINGS)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def topic(live_broker: Broker, new_name: Names) -> str:
    name = new_name("topic")
    create(live_broker, name, 4)
    return name


@pytest.fixture
def join(live_broker: Broker) -> Iterator[Join]:
    """``join(client, group, topic, **options) -> Member``; every member ends with the test."""
    with joining(live_broker.bootstrap, "uniform", protocol="consumer") as join:
        yield join


def create(broker: Broker, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)


def fill(broker: Broker, topic: str, partitions: int, count: int = 10) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(count):
        for partition in range(partitions):
            producer.produce(topic, f"{partition}:{number}", partition=partition)
    assert producer.flush(20) == 0


def state(broker: Broker, group: str) -> tuple[str, str]:
    """The group's type and state in ListGroups."""
    with WireClient(broker.bootstrap) as client:
        listed = [one for one in client.call(ListGroupsRequest(), 5).groups if one.group_id == group]
    return (listed[0].group_type, listed[0].group_state) if listed else ("", "")


def described(broker: Broker, group: str) -> Any:
    with WireClient(broker.bootstrap) as client:
        return client.call(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups[0]


def set_session_timeout(broker: Broker, group: str, timeout_ms: str) -> None:
    """For the members that join the group from now on."""
    name = "consumer.session.timeout.ms"
    with WireClient(broker.bootstrap) as client:
        configs = Configs(client)
        assert configs.change(GROUP, group, (name, SET, timeout_ms)) == "NONE"
        wait_until(lambda: configs.describe(GROUP, group)["configs"][name]["value"] == timeout_ms, 20, name)


def wait_state(broker: Broker, group: str, wanted: tuple[str, str]) -> None:
    wait_until(lambda: state(broker, group) == wanted, 20, f"{group} {wanted}, not {state(broker, group)}")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_group_grows_and_shrinks(
    live_broker: Broker,
    topic: str,
    new_name: Names,
    join: Join,
    observe: Observations,
    client: str,
    assignor: str,
) -> None:
    group = new_name("group")
    fill(live_broker, topic, 4)
    first = join(client, group, topic, assignor)
    wait_settled([first], topic, 4)
    wait_until(lambda: len(first.records) == 40, 20, "all records")
    first.commit()
    second = join(client, group, topic, assignor)
    wait_settled([first, second], topic, 4)
    wait_state(live_broker, group, ("consumer", "Stable"))
    found = described(live_broker, group)
    sizes = [sum(len(one.partitions) for one in member.assignment.topic_partitions) for member in found.members]
    observe("two", [found.assignor_name, sizes, [member.member_type for member in found.members]])
    second.leave()
    wait_settled([first], topic, 4)
    fill(live_broker, topic, 4, count=5)
    wait_until(lambda: len(first.records) >= 60, 20, "the records after")
    first.leave()
    wait_state(live_broker, group, ("consumer", "Empty"))


@pytest.mark.parametrize("client", CLIENTS)
def test_the_partitions_of_a_killed_member_go_to_the_others(
    live_broker: Broker, topic: str, new_name: Names, join: Join, client: str
) -> None:
    group = new_name("group")
    stays, dies = join(client, group, topic), join(client, group, topic)
    wait_settled([stays, dies], topic, 4)
    dies.kill()
    wait_settled([stays], topic, 4)
    fill(live_broker, topic, 4)
    wait_until(lambda: len(stays.records) == 40, 20, "the records of all partitions")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_static_member_that_comes_back_keeps_its_partitions(
    live_broker: Broker, topic: str, new_name: Names, join: Join, client: str
) -> None:
    group = new_name("group")
    set_session_timeout(live_broker, group, "60000")  # its process may need long to come back
    other = join(client, group, topic, instance_id="other")
    away = join(client, group, topic, instance_id="away")
    wait_settled([other, away], topic, 4)
    wait_state(live_broker, group, ("consumer", "Stable"))
    held, epoch = away.assignment, described(live_broker, group).group_epoch
    away.leave()
    back = join(client, group, topic, instance_id="away")
    wait_until(lambda: back.assignment == held, 20, "its own partitions")
    assert described(live_broker, group).group_epoch == epoch, "the group did not notice"


@pytest.mark.parametrize("client", CLIENTS)
def test_topics_that_fit_a_pattern_and_new_partitions_are_taken_in(
    live_broker: Broker, new_name: Names, join: Join, client: str
) -> None:
    prefix, group = new_name("fits"), new_name("group")
    create(live_broker, f"{prefix}-a", 2)
    member = join(client, group, f"^{prefix}-.*")
    wait_settled([member], f"{prefix}-a", 2)
    admin = AdminClient({"bootstrap.servers": live_broker.bootstrap})
    admin.create_partitions([NewPartitions(f"{prefix}-a", 3)])[f"{prefix}-a"].result(20)
    wait_settled([member], f"{prefix}-a", 3)
    create(live_broker, f"{prefix}-b", 1)
    wait_until(lambda: (f"{prefix}-b", 0) in (member.assignment or ()), 30, "the new topic")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_live_group_moves_to_the_new_protocol_and_back(
    live_broker: Broker, topic: str, new_name: Names, join: Join, client: str
) -> None:
    group = new_name("group")
    # A group with librdkafka's cooperative-sticky assignor cannot move: its assignments carry user data.
    classic = {"protocol": "classic", "assignor": "cooperative-sticky" if client == "java" else "range"}
    old = [join(client, group, topic, **classic) for _ in range(2)]
    wait_settled(old, topic, 4)
    wait_state(live_broker, group, ("classic", "Stable"))
    first = join(client, group, topic)
    wait_settled([*old, first], topic, 4)
    wait_state(live_broker, group, ("consumer", "Stable"))
    assert sorted(member.member_type for member in described(live_broker, group).members) == [0, 0, 1]
    old[0].leave()
    second = join(client, group, topic)
    wait_settled([old[1], first, second], topic, 4)
    old[1].leave()
    wait_settled([first, second], topic, 4)
    wait_state(live_broker, group, ("consumer", "Stable"))
    back = join(client, group, topic, **classic)
    wait_settled([first, second, back], topic, 4)
    first.leave()
    second.leave()
    wait_settled([back], topic, 4)
    wait_state(live_broker, group, ("classic", "Stable"))
