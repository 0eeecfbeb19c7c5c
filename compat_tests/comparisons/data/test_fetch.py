"""Fetch and ListOffsets in every version, valid and invalid: the same responses as Apache Kafka's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.comparisons.data.requests import NOW_MS, Topic, batch, plain_fetch, versions
from harness.observations import Observations
from harness.processes.brokers import Broker
from harness.wire_client import WireClient
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

Make = Callable[..., Topic]
WAIT_MS = 20_000


def filled(wire_topic: Make, batches: int = 5, partitions: int = 1) -> Topic:
    """Batches of three records, ten seconds apart, in every partition."""
    topic = wire_topic(partitions)
    for index in range(partitions):
        for number in range(batches):
            values = [f"{number}-{part}".encode() for part in range(3)]
            topic.produce(batch(*values, timestamp=NOW_MS - 600_000 + number * 10_000), index=index)
    return topic


def test_every_version_gives_the_same_answer(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    observe("from 0", {v: topic.fetch(0, v) for v in versions(4, 18)})
    observe("read committed", {v: topic.fetch(6, v, isolation_level=1) for v in versions(4, 18)})


def test_an_offset_inside_a_batch_returns_the_whole_batch(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    observe("responses", {offset: topic.fetch(offset) for offset in (1, 2, 3, 7, 14)})


def test_offsets_at_and_beyond_the_ends(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    observe("responses", {offset: topic.fetch(offset) for offset in (15, 16, 1_000_000, -1, -2, 2**62)})


def test_limits_on_bytes(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    size = len(topic.fetch(0)["responses"][0]["partitions"][0]["records"]) // 5
    for limit in (0, 1, size - 1, size, size + 1, size + 61, 2 * size, 3 * size - 1):
        observe(f"partition {limit}", topic.fetch(0, partition_max_bytes=limit))
        observe(f"request {limit}", topic.fetch(0, max_bytes=limit))


def test_the_limit_of_the_request_spans_partitions(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic, partitions=3)
    for limit in (1, 200, 500, 700, 5000):
        request = topic.fetch_request(0, max_bytes=limit)
        request.topics[0].partitions = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=400) for index in (2, 0, 1)
        ]
        observe(f"limit {limit}", plain_fetch(topic.client.call(request, 16)))


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_partitions_come_in_the_order_of_the_request(wire_topic: Make, observe: Observations, version: int) -> None:
    first, second = filled(wire_topic, 1, 2), filled(wire_topic, 1, 2)
    names: dict[Any, str] = {"": "", bytes(16): ""}
    for word, name, topic_id in (
        ("first", first.name, first.id),
        ("second", second.name, second.id),
        ("unknown", "no-such-topic", bytes(range(16))),
    ):
        names |= {name: word, topic_id: word}

    def call(epoch: int, session: int, *wanted: tuple[str, int, int]) -> int:
        topics = []
        for word, index, offset in wanted:
            name, topic_id = (each for each, known in names.items() if known == word)
            partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics.append(FetchTopic(topic=name, topic_id=topic_id, partitions=[partition]))
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 22, session_epoch=epoch, session_id=session, topics=topics
        )
        response = first.client.call(request, version)
        observe(
            f"{epoch}: {wanted}",
            [
                [
                    names[topic.topic] or names[topic.topic_id],
                    [(p.partition_index, p.error_code) for p in topic.partitions],
                ]
                for topic in response.responses
            ],
        )
        return int(response.session_id)

    interleaved = [(word, index, 0) for index in (1, 0) for word in ("second", "first")]
    call(-1, 0, *interleaved)
    call(-1, 0, ("first", 0, 0), ("second", 0, 0), ("first", 0, 1), ("first", 1, 0))
    call(
        -1, 0, ("unknown", 0, 0), ("first", 0, 0), ("first", 9, 0), ("second", 0, 0), ("unknown", 1, 0), ("first", 1, 9)
    )
    if version >= 7:
        session = call(0, 0, *interleaved)
        call(1, session)
        call(2, session, ("first", 0, 1), ("second", 0, 1), ("first", 1, 1))
        call(3, session)


def test_leader_epochs(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    for epoch in (-1, 0, 1, 7):
        observe(f"current {epoch}", topic.fetch(0, current_leader_epoch=epoch))
        observe(f"list offsets {epoch}", topic.offset_at(-1, current_leader_epoch=epoch))
    for epoch, offset in ((0, 3), (0, 15), (5, 3)):
        observe(f"last fetched {epoch} at {offset}", topic.fetch(offset, last_fetched_epoch=epoch))


def test_reading_partitions_that_are_not_there(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    observe("unknown partition", topic.fetch(0, index=4))
    observe("unknown id", topic.fetch(0, topic_id=bytes(range(16))))
    topic.name = "no-such-topic-anywhere"
    observe("unknown name", topic.fetch(0, 12))
    observe("list offsets", topic.offset_at(-1))


def test_a_follower_that_is_none(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    observe("follower 77", topic.fetch(0, 12, replica_id=77))
    observe("the leader as its own follower", topic.fetch(0, 12, replica_id=1))
    observe("debugging replica", topic.fetch(0, 12, replica_id=-2))


def test_a_session_from_beginning_to_end(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic, partitions=2)
    first = topic.fetch_request(15, session_epoch=0)
    first.topics[0].partitions.append(FetchPartition(partition=1, fetch_offset=15, partition_max_bytes=1 << 20))
    opened = topic.client.call(first, 16)
    observe("opened", plain_fetch(opened))
    session = opened.session_id
    observe("no news", plain_fetch(topic.client.call(incremental(session, 1), 16)))
    topic.produce(batch(b"news"), index=1)
    observe("news", plain_fetch(topic.client.call(incremental(session, 2), 16)))
    moved = FetchPartition(partition=1, fetch_offset=16, partition_max_bytes=1 << 20)
    update = incremental(session, 3, topics=[FetchTopic(topic=topic.name, topic_id=topic.id, partitions=[moved])])
    observe("moved on", plain_fetch(topic.client.call(update, 16)))
    observe("wrong epoch", plain_fetch(topic.client.call(incremental(session, 9), 16)))
    observe("names instead of ids", plain_fetch(topic.client.call(incremental(session, 4), 12)))
    observe("unknown session", plain_fetch(topic.client.call(incremental(session ^ 1, 1), 16)))
    forget = [ForgottenTopic(topic=topic.name, topic_id=topic.id, partitions=[0])]
    response = topic.client.call(incremental(session, 4, forgotten_topics_data=forget), 16)
    observe("forgotten", plain_fetch(response))
    forget = [ForgottenTopic(topic=topic.name, topic_id=topic.id, partitions=[1])]
    response = topic.client.call(incremental(session, 5, forgotten_topics_data=forget), 16)
    observe("the last one forgotten", plain_fetch(response))
    observe("gone", plain_fetch(topic.client.call(incremental(session, 6), 16)))


def test_a_session_tells_errors_and_their_repetition(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    first = topic.fetch_request(15, session_epoch=0)
    first.topics[0].partitions.append(FetchPartition(partition=8, fetch_offset=0, partition_max_bytes=1 << 20))
    opened = topic.client.call(first, 16)
    observe("opened", plain_fetch(opened))
    for epoch in (1, 2):
        response = topic.client.call(incremental(opened.session_id, epoch), 16)
        observe(f"again {epoch}", plain_fetch(response))


def test_a_closed_session_is_gone(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    opened = topic.client.call(topic.fetch_request(15, session_epoch=0), 16)
    closing = topic.fetch_request(0, session_id=opened.session_id, session_epoch=-1)
    observe("closing", plain_fetch(topic.client.call(closing, 16)))
    observe("after", plain_fetch(topic.client.call(incremental(opened.session_id, 1), 16)))


def incremental(session: int, epoch: int, **options: object) -> FetchRequest:
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        max_wait_ms=50,
        min_bytes=0,
        max_bytes=1 << 20,
        **options,  # type: ignore[arg-type]
    )


def test_a_waiting_fetch_is_answered_by_an_append(broker: Broker, wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)

    def produce_soon() -> None:
        time.sleep(0.3)
        with WireClient(broker.bootstrap) as other:
            Topic(other, topic.name).produce(batch(b"awaited"))

    thread = threading.Thread(target=produce_soon)
    thread.start()
    started = time.monotonic()
    response = topic.fetch(15, min_bytes=1, max_wait_ms=WAIT_MS)
    took = time.monotonic() - started
    thread.join()
    assert 0.25 < took < WAIT_MS / 1000, "it waited for its end, not for the append"
    observe("response", response)


def test_a_waiting_fetch_ends_with_its_time(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    started = time.monotonic()
    observe("nothing", topic.fetch(15, min_bytes=1, max_wait_ms=300))
    assert time.monotonic() - started > 0.29
    observe("less than asked for", topic.fetch(12, min_bytes=100_000, max_wait_ms=300))


def test_list_offsets_in_every_version(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    for timestamp in range(-8, 0):
        responses = {v: topic.offset_at(timestamp, v) for v in versions(1, 11)}
        for response in responses.values():
            if response["timestamp"] > 0:
                response["timestamp"] -= NOW_MS
        observe(f"special {timestamp}", responses)


def test_list_offsets_by_time(wire_topic: Make, observe: Observations) -> None:
    topic = filled(wire_topic)
    first = NOW_MS - 600_000
    for shift in (-1_000_000, -1, 0, 1, 2, 3, 9_999, 10_000, 10_001, 25_000, 40_002, 40_003, 10_000_000):
        response = topic.offset_at(first + shift)
        if response["timestamp"] > 0:
            response["timestamp"] -= first
        observe(f"at {shift}", response)
    observe("zero", topic.offset_at(0)["offset"])


def test_list_offsets_of_an_empty_partition(wire_topic: Make, observe: Observations) -> None:
    topic = wire_topic()
    for timestamp in (*range(-6, 0), 0, NOW_MS):
        observe(f"at {timestamp if timestamp < 1 else 'now'}", topic.offset_at(timestamp))


def test_a_partition_listed_twice(wire_topic: Make, observe: Observations) -> None:
    from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    topic = filled(wire_topic)
    twice = [ListOffsetsPartition(partition_index=0, timestamp=at) for at in (-1, -2)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=twice)])
    response = topic.client.call(request, 8)
    observe("responses", [[p.partition_index, p.error_code, p.offset] for p in response.topics[0].partitions])
