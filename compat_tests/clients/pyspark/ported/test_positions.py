"""Which partitions a query reads, and the ranges between where it begins and where it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

import pytest

from compat_tests.clients.pyspark.ported.support.kafka import Kafka
from compat_tests.clients.pyspark.ported.support.originals import LIMITS, READER, STRATEGY, original
from compat_tests.names import Names
from kwire.arrow.ranges import Partition, Positions, Range
from kwire.cli.connection.cluster import Cluster
from kwire.spark.source.batch_reader import BatchReader, RangePartition, parts_of
from kwire.spark.source.errors import SourceError
from kwire.spark.source.options import EARLIEST, LATEST, SourceOptions
from kwire.spark.source.planning import ranges
from kwire.spark.source.positions import ask_cluster, find_topics, resolve

pytestmark = pytest.mark.quick

UNRESOLVED = "SPARK-30656: getOffsetRangesFromUnresolvedOffsets - "


def either(name: str) -> pytest.MarkDecorator:
    """Spark's test of that name with both of its ways to ask for offsets."""
    return original(READER, *(f"{name} with useDeprecatedOffsetFetching {way}" for way in ("true", "false")))


def planned(kafka: Kafka, topic: str, **options: object) -> list[Range]:
    """The ranges of the tasks of a batch query."""
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic}
    reader = BatchReader(
        SourceOptions.parse({**given, **{key: str(each) for key, each in options.items()}}, streaming=False)
    )
    found: list[Range] = []
    for part in reader.partitions():
        assert isinstance(part, RangePartition)
        found += part.wanted
    return sorted(found)


def assigned(kafka: Kafka, **option: str) -> set[Partition]:
    """The partitions that an option names."""
    options = SourceOptions.parse({"kafka.bootstrap.servers": kafka.bootstrap, **option}, streaming=True)

    async def ask(cluster: Cluster) -> set[Partition]:
        return {*(await find_topics(cluster, options)).partitions}

    return ask_cluster(options, ask)


def bounds(topic: str, partition: int, *offsets: int) -> Iterator[Range]:
    for low, high in pairwise(offsets):
        yield Range(topic, partition, low, high)


@either(f"{UNRESOLVED}using specific offsets")
def test_between_given_offsets(kafka: Kafka, new_name: Names) -> None:
    topic = kafka.create(new_name("t"))
    kafka.send(topic, range(10), 0)
    start, end = json.dumps({topic: {0: 1}}), json.dumps({topic: {0: 4}})
    found = planned(kafka, topic, minPartitions=3, startingOffsets=start, endingOffsets=end)
    assert found == [*bounds(topic, 0, 1, 2, 3, 4)]


@either(f"{UNRESOLVED}using special offsets")
def test_the_outer_ends_are_left_to_the_tasks(kafka: Kafka, new_name: Names) -> None:
    topic = kafka.create(new_name("t"))
    kafka.send(topic, range(4), 0)
    found = planned(kafka, topic, minPartitions=3, startingOffsets="earliest", endingOffsets="latest")
    assert found == [*bounds(topic, 0, EARLIEST, 1, 2, LATEST)]


@pytest.fixture
def skewed(kafka: Kafka, new_name: Names) -> str:
    """Two partitions, of 100 and of 4 records."""
    topic = kafka.create(new_name("t"), 2)
    kafka.send(topic, range(100), 0)
    kafka.send(topic, range(4), 1)
    return topic


@either(f"{UNRESOLVED}multiple topic partitions")
def test_a_large_partition_is_divided(kafka: Kafka, skewed: str) -> None:
    start, end = json.dumps({skewed: {0: -2, 1: -2}}), json.dumps({skewed: {0: -1, 1: 3}})
    found = planned(kafka, skewed, minPartitions=4, startingOffsets=start, endingOffsets=end)
    assert found == sorted([*bounds(skewed, 0, EARLIEST, 33, 66, LATEST), *bounds(skewed, 1, EARLIEST, 3)])


@either("SPARK-30656: getOffsetRangesFromResolvedOffsets")
def test_ranges_of_a_micro_batch(kafka: Kafka, skewed: str) -> None:
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": skewed, "minPartitions": "4"}
    whole = ranges({(skewed, 0): 0, (skewed, 1): 0}, {(skewed, 0): 100, (skewed, 1): 3})
    found = parts_of(whole, SourceOptions.parse(given, streaming=True))
    assert found == [*bounds(skewed, 0, 0, 33, 66, 100), *bounds(skewed, 1, 0, 3)]


@either("SPARK-48383: START_OFFSET_DOES_NOT_MATCH_ASSIGNED error class")
def test_offsets_for_some_partitions_only(kafka: Kafka, new_name: Names) -> None:
    topic = kafka.create(new_name("t"), 3)
    start, end = json.dumps({topic: {0: -2, 1: -2}}), json.dumps({topic: {0: -1, 1: 3}})
    with pytest.raises(SourceError, match=f"option startingOffsets does not name {topic}-2"):
        planned(kafka, topic, minPartitions=4, startingOffsets=start, endingOffsets=end)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        pytest.param(
            count,
            message,
            marks=either(
                "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED error class - partitions assigned: 3, specified:"
                f" {count}"
            ),
        )
        for count, message in ((2, "does not name TOPIC-2"), (4, "names TOPIC-3, which is not read"))
    ],
)
def test_timestamps_for_other_partitions(kafka: Kafka, new_name: Names, count: int, message: str) -> None:
    topic = kafka.create(new_name("t"), 3)
    times = json.dumps({topic: dict.fromkeys(range(count), 1)})
    with pytest.raises(SourceError, match=f"option startingOffsetsByTimestamp {message.replace('TOPIC', topic)}"):
        planned(kafka, topic, minPartitions=4, startingOffsetsByTimestamp=times, endingOffsetsByTimestamp=times)


@original(STRATEGY, "AssignStrategy.assignedTopicPartitions must give back all assigned")
def test_assigned_partitions(kafka: Kafka, new_name: Names) -> None:
    topic, _ = kafka.create(new_name("t"), 3), kafka.create(new_name("other"), 2)
    assert assigned(kafka, assign=json.dumps({topic: [0, 2]})) == {(topic, 0), (topic, 2)}


@original(STRATEGY, "SubscribeStrategy.assignedTopicPartitions must give back all assigned")
def test_subscribed_topics(kafka: Kafka, new_name: Names) -> None:
    first, second, _ = (kafka.create(new_name("t"), 2) for _ in range(3))
    assert assigned(kafka, subscribe=f"{first},{second}") == {(each, n) for each in (first, second) for n in (0, 1)}


@original(STRATEGY, "SubscribePatternStrategy.assignedTopicPartitions must give back all assigned")
def test_topics_of_a_pattern(kafka: Kafka, new_name: Names) -> None:
    first, second = (kafka.create(new_name("pattern"), 2) for _ in range(2))
    kafka.create(new_name("other"), 2)
    found = assigned(kafka, subscribePattern=f"{first[:-1]}.*")
    assert found == {(each, n) for each in (first, second) for n in (0, 1)}


def begins(kafka: Kafka, topics: str, starting: str) -> Positions:
    """Where a query begins."""
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topics, "startingOffsets": starting}
    options = SourceOptions.parse(given, streaming=True)

    async def ask(cluster: Cluster) -> Positions:
        there = (await find_topics(cluster, options)).partitions
        return await resolve(cluster, options, there, options.starting, "starting")

    return ask_cluster(options, ask)


@original(LIMITS, "resolving topic-level offsets against the assigned partitions")
def test_a_word_for_all_partitions_of_a_topic(kafka: Kafka, new_name: Names) -> None:
    first, second = kafka.create(new_name("t"), 2), kafka.create(new_name("t"))
    kafka.send(first, [1, 2, 3], 0)
    kafka.cut(first, 0, 2)
    found = begins(kafka, f"{first},{second}", json.dumps({first: "earliest", second: {"0": 23}}))
    assert found == {(first, 0): 2, (first, 1): 0, (second, 0): 23}


@original(LIMITS, "resolving a topic-level offset of a topic without assigned partitions fails")
def test_a_word_for_another_topic(kafka: Kafka, new_name: Names) -> None:
    topic, other = kafka.create(new_name("t")), kafka.create(new_name("t"))
    with pytest.raises(SourceError, match=f"option startingOffsets names {other}, which is not read"):
        begins(kafka, topic, json.dumps({topic: "earliest", other: "earliest"}))
