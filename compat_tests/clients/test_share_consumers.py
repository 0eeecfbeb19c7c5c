"""confluent-kafka's ShareConsumer (librdkafka): records are accepted, released and rejected, alone and in a group."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer

from compat_tests.comparisons.share_offsets.test_share_offsets import Offsets
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until
from kwire.codec.messages import incremental_alter_configs_request as alters

_GROUP_RESOURCE = 32
_POLL_S = 1.0


@pytest.fixture
def group(broker: Broker, make_topic: Callable[..., str], new_name: Names) -> Iterator[Offsets]:
    """A share group of the test's own that reads a topic of three partitions from its beginning."""
    made = Offsets(broker, new_name("group"), make_topic(3))
    change = alters.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = alters.AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=made.group, configs=[change])
    made.client.call(alters.IncrementalAlterConfigsRequest(resources=[resource]), 1)
    try:
        yield made
    finally:
        made.client.close()


def fill(broker: Broker, topic: str, partition: int, count: int) -> None:
    """Write ``0``, ``1``, ... to a partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(30) == 0


def consumer(broker: Broker, group: Offsets, **config: Any) -> Any:
    """A share consumer that has subscribed to the group's topic."""
    base = {"bootstrap.servers": broker.bootstrap, "group.id": group.group, "log_level": 0}
    made = ShareConsumer(base | {name.replace("_", "."): value for name, value in config.items()})
    made.subscribe([group.topic])
    return made


def polled(member: Any, count: int) -> list[Message]:
    """The messages of one poll, which must be as many."""
    found: list[Message] = []

    def poll() -> bool:
        found.extend(member.poll(timeout=_POLL_S))
        return bool(found)

    wait_until(poll, 60, f"{count} messages")
    assert [message.error() for message in found] == [None] * count
    return found


def seen(messages: list[Message]) -> list[list[Any]]:
    return [[one.partition(), one.offset(), one.value(), one.delivery_count()] for one in messages]


def test_records_are_accepted_released_and_rejected(broker: Broker, group: Offsets, observe: Observations) -> None:
    fill(broker, group.topic, 0, 12)
    acknowledged: list[Any] = []
    member = consumer(broker, group, share_acknowledgement_mode="explicit")
    try:
        member.set_acknowledgement_commit_callback(
            lambda offsets, error: acknowledged.append([sorted(map(sorted, offsets.values())), error])
        )
        first = polled(member, 12)
        for number, message in enumerate(first):
            kind = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)[number // 4]
            member.acknowledge(message, kind)
        observe("first", seen(first))
        observe("committed", sorted(map(str, member.commit_sync(timeout=30.0).values())))
        again = polled(member, 4)
        observe("again", seen(again))
        observe("offsets", group.describe((group.topic, [0])))
        for message in again:
            member.acknowledge_offset(group.topic, 0, message.offset(), AcknowledgeType.ACCEPT)
        member.commit_async()
    finally:
        member.close()
    observe("acknowledged", acknowledged)
    observe("offsets at last", group.describe((group.topic, [0])))


def test_each_record_is_accepted_by_one_of_three_consumers(
    broker: Broker, group: Offsets, observe: Observations
) -> None:
    for partition in range(3):
        fill(broker, group.topic, partition, 200)
    accepted: Counter[tuple[int, int, str]] = Counter()
    lock = threading.Lock()

    def work() -> None:
        member = consumer(broker, group)
        try:
            while len(accepted) < 600:
                for message in member.poll(timeout=_POLL_S):
                    with lock:
                        accepted[message.partition(), message.offset(), str(message.error())] += 1
            member.commit_sync(timeout=30.0)  # close() releases what is not committed
        finally:
            member.close()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    observe("accepted", [len(accepted), max(accepted.values()), sorted({error for _, _, error in accepted})])
    observe("offsets", group.describe())
