"""Consumer groups of real clients, each member a process: groups grow, shrink, lose members and recover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from compat_tests.clients.members import Join, Member, joining, settled, sizes, wait_settled
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until

ASSIGNORS = [
    ("kafka-python", "range"),
    ("kafka-python", "roundrobin"),
    ("kafka-python", "sticky"),
    ("aiokafka", "range"),
    ("aiokafka", "roundrobin"),
    ("aiokafka", "sticky"),
    ("confluent", "range"),
    ("confluent", "roundrobin"),
    ("confluent", "cooperative-sticky"),
    pytest.param("java", "range", marks=pytest.mark.java),
    pytest.param("java", "roundrobin", marks=pytest.mark.java),
    pytest.param("java", "sticky", marks=pytest.mark.java),
    pytest.param("java", "cooperative-sticky", marks=pytest.mark.java),
]

LONG_SESSION = {"session_timeout_ms": 60_000}
"""Of members that a busy machine must not put out: they would join again and read again what nobody has committed."""


@pytest.fixture
def join(broker: Broker) -> Iterator[Join]:
    """``join(client, group, topic, assignor, **options) -> Member``; every member ends with the test."""
    with joining(broker.bootstrap, "range") as join:
        yield join


def fill(broker: Broker, topic: str, partitions: int, start: int = 0, count: int = 10) -> None:
    """Write "partition:number" to every partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index in range(partitions):
        for number in range(start, start + count):
            producer.produce(topic, f"{index}:{number}".encode(), partition=index)
    assert producer.flush(30) == 0


def committed(admin: Any, group: str) -> dict[str, int]:
    """The group's committed offsets, through the admin API."""
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return _offsets(futures[group].result(20).topic_partitions)


def committed_after_restart(broker: Broker, group: str, topic: str) -> dict[str, int]:
    """The group's committed offsets, fetched by a consumer, which waits while the coordinator loads.

    librdkafka's admin client cannot wait for that: it crashes."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0})
    try:
        return _offsets(consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=30))
    finally:
        consumer.close()


def _offsets(found: list[Any]) -> dict[str, int]:
    return {f"{one.topic}-{one.partition}": one.offset for one in found}


def describe(admin: Any, group: str) -> dict[str, Any]:
    """The parts of the group's description that are the same in every run."""
    description = admin.describe_consumer_groups([group])[group].result(20)
    members = [sorted(one.partition for one in member.assignment.topic_partitions) for member in description.members]
    return {
        "state": description.state.name,
        "assignor": description.partition_assignor,
        "simple": description.is_simple_consumer_group,
        "members": sorted(members),
        "hosts": sorted({member.host for member in description.members}),
        "instances": sorted(member.group_instance_id or "" for member in description.members),
        "coordinator": description.coordinator.id,
    }


def has_read_its_own(member: Member, count: int) -> bool:
    """Whether it has read ``count`` records of each partition that it holds."""
    held = {partition for _, partition in member.assignment or ()}
    read = {(partition, offset) for partition, offset, _ in member.records if partition in held}
    return len(read) == count * len(held)


@pytest.mark.parametrize(("client", "assignor"), ASSIGNORS)
def test_a_group_grows_and_shrinks_and_reads_everything_once(
    broker: Broker,
    make_topic: Callable[..., str],
    new_name: Callable[[str], str],
    join: Join,
    admin: Any,
    observe: Observations,
    client: str,
    assignor: str,
) -> None:
    topic, group = make_topic(4), new_name("group")
    fill(broker, topic, 4)
    first = join(client, group, topic, assignor, **LONG_SESSION)
    wait_settled([first], topic, 4)
    second = join(client, group, topic, assignor, **LONG_SESSION)
    wait_settled([first, second], topic, 4)
    wait_until(lambda: has_read_its_own(first, 10) and has_read_its_own(second, 10), 20, "all records")
    two = describe(admin, group)
    if "sticky" in assignor:  # the order of joining and random member ids decide which member keeps which partition
        two["members"] = sorted(map(len, two["members"]))
    observe("two members", [sizes([first, second]), two])

    def all_committed() -> bool:  # a rebalance in between has reset positions, and offsets are then committed again
        first.commit()
        second.commit()
        return committed(admin, group) == {f"{topic}-{index}": 10 for index in range(4)}

    wait_until(all_committed, 20, "the offsets of all records are committed")
    second.leave()
    wait_settled([first], topic, 4)
    observe("one member", describe(admin, group))
    before = len(first.records)
    fill(broker, topic, 4, start=10, count=5)
    wait_until(lambda: len(first.records) >= before + 20, 20, "the records after the commit")
    assert [value for _, _, value in first.records[before:]].count("0:10") == 1, "read again after a commit"
    first.commit()
    observe("committed", committed(admin, group))
    first.leave()
    wait_until(lambda: describe(admin, group)["state"] == "EMPTY", 20, "an empty group")
    observe("nobody", describe(admin, group))


@pytest.mark.parametrize(
    "client", ["kafka-python", "aiokafka", "confluent", pytest.param("java", marks=pytest.mark.java)]
)
def test_the_partitions_of_a_killed_member_go_to_the_others(
    broker: Broker, make_topic: Callable[..., str], new_name: Callable[[str], str], join: Join, client: str
) -> None:
    topic, group = make_topic(4), new_name("group")
    stays = join(client, group, topic, **LONG_SESSION)
    dies = join(client, group, topic)
    wait_settled([stays, dies], topic, 4)
    dies.kill()
    wait_settled([stays], topic, 4)
    fill(broker, topic, 4)
    wait_until(lambda: len(set(stays.records)) == 40, 20, "the records of all partitions")


def test_clients_of_four_makes_share_one_group(
    broker: Broker,
    make_topic: Callable[..., str],
    new_name: Callable[[str], str],
    join: Join,
    admin: Any,
    observe: Observations,
) -> None:
    topic, group = make_topic(8), new_name("group")
    makes = ["kafka-python", "aiokafka", "confluent"]
    members = [join(client, group, topic, "range") for client in makes]
    wait_settled(members, topic, 8)
    observe("three makes", [sizes(members), describe(admin, group)["members"]])
    fill(broker, topic, 8)

    def read() -> set[tuple[int, int]]:
        return {(partition, offset) for member in members for partition, offset, _ in member.records}

    wait_until(lambda: len(read()) == 80, 30, "all records")
    members[0].kill()
    members[1].leave()
    wait_settled(members[2:], topic, 8)


@pytest.mark.java
def test_java_joins_a_group_of_python_clients(
    make_topic: Callable[..., str], new_name: Callable[[str], str], join: Join, admin: Any, observe: Observations
) -> None:
    topic, group = make_topic(6), new_name("group")
    members = [join("confluent", group, topic, "roundrobin"), join("java", group, topic, "roundrobin")]
    wait_settled(members, topic, 6)
    members.append(join("aiokafka", group, topic, "roundrobin"))
    wait_settled(members, topic, 6)
    observe("group", [sizes(members), describe(admin, group)["assignor"]])


@pytest.mark.parametrize(
    "client", ["kafka-python", "aiokafka", "confluent", pytest.param("java", marks=pytest.mark.java)]
)
def test_a_static_member_that_comes_back_keeps_its_partitions_without_a_rebalance(
    make_topic: Callable[..., str],
    new_name: Callable[[str], str],
    join: Join,
    admin: Any,
    observe: Observations,
    client: str,
) -> None:
    topic, group = make_topic(4), new_name("group")
    options = LONG_SESSION  # the killed one is not out before its successor is there
    one = join(client, group, topic, instance_id="one", **options)
    two = join(client, group, topic, instance_id="two", **options)
    wait_settled([one, two], topic, 4)
    held = two.assignment
    rounds = one.count("assignment")
    observe("group", describe(admin, group))
    two.kill()
    again = join(client, group, topic, instance_id="two", **options)
    wait_until(lambda: again.assignment == held, 15, "the same partitions")
    assert one.count("assignment") == rounds, "the other member was disturbed"
    observe("after", describe(admin, group))


@pytest.mark.parametrize("client", ["confluent", pytest.param("java", marks=pytest.mark.java)])
def test_of_two_members_with_one_instance_id_the_elder_is_fenced(
    make_topic: Callable[..., str], new_name: Callable[[str], str], join: Join, client: str
) -> None:
    topic, group = make_topic(2), new_name("group")
    elder = join(client, group, topic, instance_id="same")
    wait_settled([elder], topic, 2)
    younger = join(client, group, topic, instance_id="same")
    wait_settled([younger], topic, 2)
    wait_until(lambda: elder.count("fenced") == 1, 20, "the elder is fenced")


@pytest.mark.long_on_kafka
@pytest.mark.parametrize("how", ["restart", "kill"])
def test_commits_survive_the_broker(
    broker: Broker,
    make_topic: Callable[..., str],
    new_name: Callable[[str], str],
    join: Join,
    admin: Any,
    observe: Observations,
    how: str,
) -> None:
    topic, group = make_topic(2), new_name("group")
    fill(broker, topic, 2)
    member = join("confluent", group, topic)
    wait_until(lambda: len(member.records) == 20, 30, "all records")
    member.commit()
    before = committed(admin, group)
    if how == "restart":
        broker.restart()
    else:
        broker.kill()
        broker.start()
    after = committed_after_restart(broker, group, topic)
    observe("committed", after)
    assert after == before == {f"{topic}-0": 10, f"{topic}-1": 10}
    fill(broker, topic, 2, start=10, count=1)
    try:
        # A member that joined again meanwhile may have read a record twice that nobody had committed.
        wait_until(lambda: len(set(member.records)) == 22, 40, "the member goes on after the restart")
    except TimeoutError as error:
        raise AssertionError(f"{error}; {member.records} {member.history()} {member.errors()}") from None
    member.leave()
    assert sorted(member.records)[-1] == (1, 10, "1:10")
    assert len([record for record in member.records if record[1] < 10]) == 20, "what was committed was read once"


def test_metadata_and_leader_epoch_of_a_commit_come_back(
    broker: Broker, make_topic: Callable[..., str], new_name: Callable[[str], str], observe: Observations
) -> None:
    topic, group = make_topic(1), new_name("group")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    place = TopicPartition(topic, 0, 7, metadata="where I was", leader_epoch=0)
    consumer.commit(offsets=[place], asynchronous=False)  # a group without members
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=20)
    observe("committed", [found.offset, found.metadata, found.leader_epoch])
    assert (found.offset, found.metadata) == (7, "where I was")
    consumer.close()


def test_a_new_topic_that_fits_a_pattern_is_taken_in(
    make_topic: Callable[..., str], new_name: Callable[[str], str], join: Join
) -> None:
    group, prefix = new_name("group"), new_name("pattern")
    first = make_topic(1, name=f"{prefix}-a")
    member = join("confluent", group, f"^{prefix}-.*")
    wait_until(lambda: member.assignment == [(first, 0)], 20, "the first topic")
    second = make_topic(2, name=f"{prefix}-b")
    wait_until(lambda: member.assignment == [(first, 0), (second, 0), (second, 1)], 20, "the second topic")


def test_more_partitions_are_shared_out(
    make_topic: Callable[..., str], new_name: Callable[[str], str], join: Join, admin: Any
) -> None:
    from confluent_kafka.admin import NewPartitions

    topic, group = make_topic(1), new_name("group")
    members = [join("confluent", group, topic)]
    wait_settled(members, topic, 1)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    wait_until(settled(members, topic, 3), 20, "three partitions")
