"""Throttle times, to the millisecond where the usage is known to the byte.

A client's first request over its limit has a throttle time that does not depend on when it comes: the rate is measured
in ten seconds. The connection is then muted for longer than a test lasts, so each request has a connection of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.comparisons.admin.requests import new_topic
from compat_tests.comparisons.data.requests import Topic, batch
from compat_tests.comparisons.throttling.conftest import Limited
from compat_tests.names import Names
from harness.observations import Observations
from harness.wire_client import WireClient
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.create_topics_request import CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

Topics = Callable[..., str]
VALUE = b"x" * 30_000


def produce_request(topic: Topic, acks: int = 1, partitions: int = 1) -> ProduceRequest:
    parts = [PartitionProduceData(index=index, records=batch(VALUE)) for index in range(partitions)]
    data = TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=parts)
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[data])


@pytest.fixture
def topic(client: WireClient, new_name: Names, make_topic: Topics) -> Topic:
    return Topic(client, make_topic(2, name=new_name("throttled")[-40:].rjust(40, "t")))


@pytest.fixture
def client(broker: Any) -> Any:
    with WireClient(broker.bootstrap, "unlimited") as client:
        yield client


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
@pytest.mark.parametrize("partitions", [1, 2])
def test_produce(limited: Limited, topic: Topic, observe: Observations, version: int, partitions: int) -> None:
    connect = limited(producer_byte_rate=1000)
    response = connect().call(produce_request(topic, partitions=partitions), version)
    observe("throttle time", response.throttle_time_ms)
    observe("codes", [part.error_code for part in response.responses[0].partition_responses])
    assert response.throttle_time_ms > 20_000


@pytest.mark.parametrize("version", [4, 11, 12, 16, 17])
@pytest.mark.parametrize("session", [-1, 0])
def test_fetch(limited: Limited, topic: Topic, observe: Observations, version: int, session: int) -> None:
    topic.client.call(produce_request(topic, acks=-1, partitions=2), 13)
    connect = limited(consumer_byte_rate=1000)
    response = connect().call(topic.fetch_request(0, session_epoch=session), version)
    observe("throttle time", response.throttle_time_ms)
    observe("rest", [response.error_code, response.session_id, len(response.responses)])
    assert response.throttle_time_ms > 20_000
    observe("what did not come did not count", connect().call(topic.fetch_request(1), version).throttle_time_ms)


def test_a_throttled_fetch_of_a_session_leaves_it_as_it_was(
    limited: Limited, topic: Topic, observe: Observations
) -> None:
    connect = limited(consumer_byte_rate=1000)
    first = connect().call(topic.fetch_request(0, session_epoch=0), 17)
    topic.client.call(produce_request(topic, acks=-1), 13)
    again = topic.fetch_request(0, session_id=first.session_id, session_epoch=1)
    throttled = connect().call(again, 17)
    observe("throttled", [throttled.error_code, len(throttled.responses), throttled.session_id == first.session_id])
    again.session_epoch = 2
    observe("next", [connect().call(again, 17).error_code])


def test_a_fetch_is_capped_by_its_quota(limited: Limited, topic: Topic, observe: Observations) -> None:
    for _ in range(4):
        topic.client.call(produce_request(topic, acks=-1), 13)
    connect = limited(consumer_byte_rate=6700)  # as much as ten seconds allow, and not all four batches
    response = connect().call(topic.fetch_request(0), 16)
    observe("bytes", [len(part.records) for each in response.responses for part in each.partitions])
    observe("throttle time", response.throttle_time_ms)
    assert response.throttle_time_ms < 100, "what is around the records comes on top"


def test_acks_0_mutes_the_connection(limited: Limited, topic: Topic, observe: Observations) -> None:
    connect = limited(producer_byte_rate=1000)
    muted = connect()
    muted.send(produce_request(topic, acks=0), 13)
    second = produce_request(topic)
    wait = time.monotonic() + 60
    while topic.offset_at(-1)["offset"] == 0 and time.monotonic() < wait:
        time.sleep(0.02)
    observe("both count", connect().call(second, 13).throttle_time_ms // 2000)


def test_the_connection_is_muted_for_the_throttle_time(limited: Limited, topic: Topic) -> None:
    connect = limited(producer_byte_rate=2950)  # a throttle time of about 0.2 s
    client = connect()
    started = time.monotonic()
    throttle_s = client.call(produce_request(topic), 13).throttle_time_ms / 1000
    client.call(MetadataRequest(topics=[]), 12)
    assert 0.1 < throttle_s < 0.5
    assert time.monotonic() - started > throttle_s - 0.01


def test_another_client_is_not_throttled(limited: Limited, topic: Topic, observe: Observations) -> None:
    connect = limited(producer_byte_rate=1000)
    connect().call(produce_request(topic), 13)
    observe("other", topic.client.call(produce_request(topic), 13).throttle_time_ms)


def test_the_throttle_time_of_request_percentage_is_bounded_by_a_window(
    limited: Limited, observe: Observations
) -> None:
    connect = limited(request_percentage=0.0001)
    connect().call(MetadataRequest(topics=None), 12)
    observe("throttle time", connect().call(MetadataRequest(topics=None), 12).throttle_time_ms)


# -- controller mutations ---------------------------------------------------------------------------------------------


def rounded(response: Any) -> int:
    """The throttle time in units of ten seconds; it becomes shorter while the request is handled."""
    throttle_ms: int = response.throttle_time_ms
    return round(throttle_ms / 10_000)


def create(client: WireClient, version: int, *topics: tuple[str, int], validate_only: bool = False) -> list[Any]:
    request = CreateTopicsRequest(
        topics=[new_topic(name, partitions) for name, partitions in topics],
        timeout_ms=30_000,
        validate_only=validate_only,
    )
    response = client.call(request, version)
    results = [[each.error_code, getattr(each, "error_message", None)] for each in response.topics]
    return [rounded(response), results if version >= 6 else [code for code, _ in results]]


@pytest.mark.parametrize("version", [5, 6, 7])
def test_create_topics(limited: Limited, new_name: Names, observe: Observations, version: int) -> None:
    connect = limited(controller_mutation_rate=0.01)
    names = [new_name("created") for _ in range(4)]
    observe("checked", create(connect(), version, (names[0], 3), validate_only=True))
    observe("in one request", create(connect(), version, (names[0], 2), (names[1], 5), (names[2], 1)))
    observe("refused", create(connect(), version, (names[3], 1)))
    throttle, results = create(connect(), version, ("a/b", 1))
    observe("wrong ones are not charged", [throttle, str(results)[:6]])


@pytest.mark.parametrize("version", [2, 3])
def test_create_partitions(limited: Limited, topic: Topic, observe: Observations, version: int) -> None:
    connect = limited(controller_mutation_rate=0.01)
    for total in (2, 5, 6, 3):
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic.name, count=total, assignments=None)], timeout_ms=30_000
        )
        response = connect().call(request, version)
        observe(f"{total}", [rounded(response), [each.error_code for each in response.results]])


@pytest.mark.parametrize("version", [4, 5, 6])
def test_delete_topics(
    limited: Limited, new_name: Names, make_topic: Topics, observe: Observations, version: int
) -> None:
    connect = limited(controller_mutation_rate=0.01)
    names = [make_topic(3), make_topic(1)]
    for name in ("nothing-of-this-name", *names):
        states = [DeleteTopicState(name=name)] if version >= 6 else []
        request = DeleteTopicsRequest(topics=states, topic_names=[] if version >= 6 else [name], timeout_ms=30_000)
        response = connect().call(request, version)
        observe(
            f"{names.index(name) if name in names else -1}",
            [rounded(response), [[each.error_code, each.name == name] for each in response.responses]],
        )
