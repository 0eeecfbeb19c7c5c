"""How much a batch of a stream reads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from compat_tests.clients.pyspark.ported.support.kafka import Kafka
from compat_tests.clients.pyspark.ported.support.originals import MICRO_BATCH, original
from compat_tests.clients.pyspark.ported.support.streams import Source, Stream, needs_limits
from compat_tests.names import Names
from harness.processes.brokers import wait_until

pytestmark = pytest.mark.java

Make = Callable[..., Stream]
DELAY_S = 30


def fill(kafka: Kafka, topic: str, *parts: range) -> str:
    """A topic with a partition for each range of numbers."""
    kafka.create(topic, len(parts))
    for partition, values in enumerate(parts):
        kafka.send(topic, values, partition)
    return topic


def check_once(kafka: Kafka, topic: str, make: Callable[[], Stream], there: list[int]) -> None:
    """With Trigger.Once no limit is kept."""
    once = make()
    assert once.start(once=True).finish().numbers == sorted(there)
    kafka.send(topic, range(1000, 1011))
    assert once.start(once=True).finish().numbers == sorted([*there, *range(1000, 1011)])


@needs_limits
@original(MICRO_BATCH, "maxOffsetsPerTrigger")
def test_max_offsets(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = fill(kafka, new_name("t"), range(100, 201), range(10, 21), range(1, 2))
    frame = source.read_stream(subscribe=topic, maxOffsetsPerTrigger=10, startingOffsets="earliest")
    limited = stream(frame).start()
    limited.wait_for(2)
    limited.stop()
    limited.start()
    limited.wait_for(4)
    limited.stop()
    assert limited.batches[:4] == [
        [1, 10, *range(100, 108)],
        [11, *range(108, 117)],
        [12, *range(117, 126)],
        [13, *range(126, 135)],
    ]
    check_once(kafka, topic, lambda: stream(frame), [1, *range(10, 21), *range(100, 201)])


@original(MICRO_BATCH, "minOffsetsPerTrigger")
def test_min_offsets(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = fill(kafka, new_name("t"), range(100, 110), range(10, 15), range(1, 2))
    frame = source.read_stream(
        subscribe=topic, minOffsetsPerTrigger=15, maxTriggerDelay=f"{DELAY_S}s", startingOffsets="earliest"
    )
    began_s = time.monotonic()
    found = stream(frame).start().process()
    assert found.numbers == [1, *range(10, 15), *range(100, 110)], "the first batch has what there is"
    kafka.send(topic, range(15, 21), 1)
    found.process()
    assert found.numbers == [1, *range(10, 15), *range(100, 110)] or time.monotonic() - began_s >= DELAY_S
    kafka.send(topic, [2], 2)
    enough_s = time.monotonic()
    kafka.send(topic, range(110, 121), 0)  # only with these there are enough
    found.process()
    enough = [1, 2, *range(10, 21), *range(100, 121)]
    assert found.numbers == enough or time.monotonic() - began_s >= DELAY_S
    began_s = enough_s
    wait_until(lambda: found.process().numbers == enough, DELAY_S + 60, "the delay, on a slow machine")
    kafka.send(topic, range(121, 126), 0)
    kafka.send(topic, range(21, 26), 1)
    found.process()
    assert found.numbers == enough or time.monotonic() - began_s >= DELAY_S
    everything = [1, 2, *range(10, 26), *range(100, 126)]
    wait_until(lambda: found.process().numbers == everything, DELAY_S + 60, "the delay")
    assert time.monotonic() - began_s >= DELAY_S
    found.stop()
    check_once(kafka, topic, lambda: stream(frame), everything)


@needs_limits
@original(MICRO_BATCH, "compositeReadLimit")
def test_both_limits(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = fill(kafka, new_name("t"), range(100, 121), range(10, 21), range(1, 2))

    def write_more(batch: int) -> None:
        """While the first batch runs, so that the second one finds all of it."""
        if batch == 0:
            kafka.send(topic, range(121, 129), 0)
            kafka.send(topic, range(21, 31), 1)
            kafka.send(topic, [2], 2)

    frame = source.read_stream(
        subscribe=topic,
        minOffsetsPerTrigger=15,
        maxOffsetsPerTrigger=20,
        maxTriggerDelay=f"{DELAY_S}s",
        startingOffsets="earliest",
    )
    began_s = time.monotonic()
    found = stream(frame, before=write_more).start().process()
    assert found.batches[0] == [1, *range(10, 16), *range(100, 112)]
    assert found.batches[1] == [2, *range(16, 25), *range(112, 122)], "enough, and no more than the limit"
    assert len(found.batches) == 2 or time.monotonic() - began_s >= DELAY_S
    everything = [1, 2, *range(10, 31), *range(100, 129)]
    wait_until(lambda: found.process().numbers == everything, DELAY_S + 60, "the delay")
    assert len(found.batches) == 3
    found.stop()
    check_once(kafka, topic, lambda: stream(frame), everything)


@original(
    MICRO_BATCH, "SPARK-26718 Rate limit set to Long.Max should not overflow integer during end offset calculation"
)
def test_the_largest_limit(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = fill(kafka, new_name("t"), range(5))
    frame = source.read_stream(
        subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 5}}}}', maxOffsetsPerTrigger=2**63 - 1
    )
    found = stream(frame).start().process()
    kafka.send(topic, range(30, 35))
    assert found.process().numbers == [*range(30, 35)]


@needs_limits
@original(MICRO_BATCH, "SPARK-22956: currentPartitionOffsets should be set when no new data comes in")
def test_two_topics_of_which_one_ends(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    small, large = fill(kafka, new_name("t"), range(10)), fill(kafka, new_name("t"), range(100, 200))
    limit = {"maxOffsetsPerTrigger": 5, "startingOffsets": "earliest"}
    both = source.read_stream(subscribe=small, **limit).union(source.read_stream(subscribe=large, **limit))
    found = stream(both).start()
    found.wait_for(3)
    found.restart()
    found.wait_for(5)
    found.stop()
    assert found.batches[:5] == [
        [*range(5), *range(100, 105)],
        [*range(5, 10), *range(105, 110)],
        [*range(110, 115)],
        [*range(115, 120)],
        [*range(120, 125)],
    ]


@needs_limits
@original(MICRO_BATCH, "Trigger.AvailableNow")
def test_available_now(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = kafka.create(new_name("t"), 5)
    kafka.send(topic, range(15), 0)
    frame = source.read_stream(subscribe=topic, maxOffsetsPerTrigger=5, startingOffsets="earliest")
    found = stream(frame).start(availableNow=True).finish()
    assert found.batches == [[*range(5)], [*range(5, 10)], [*range(10, 15)]]


@needs_limits
@pytest.mark.parametrize(
    ("partitions", "records"),
    [
        pytest.param(
            3,
            15,
            marks=original(
                MICRO_BATCH,
                "Query with Trigger.AvailableNow should throw error when topic partitions got unavailable during"
                " subsequent batches",
            ),
            id="partitions",
        ),
        pytest.param(
            5,
            10,
            marks=original(
                MICRO_BATCH,
                "Query with Trigger.AvailableNow should throw error when offset(s) in planned topic partitions got"
                " unavailable during subsequent batches",
            ),
            id="offsets",
        ),
    ],
)
def test_available_now_on_a_topic_made_again(
    strict: Kafka, strict_source: Source, stream: Make, new_name: Names, partitions: int, records: int
) -> None:
    """With fewer partitions, or with fewer records, than the query has planned to read."""
    topic = strict.create(new_name("t"), 5)
    strict.send(topic, range(15), 0)

    def make_again(_batch: Any) -> None:
        strict.delete(topic)
        strict.create(topic, partitions)
        strict.send(topic, range(records), 0)

    frame = strict_source.read_stream(
        subscribe=topic, maxOffsetsPerTrigger=5, startingOffsets="earliest", failOnDataLoss="true"
    )
    found = stream(frame, take=make_again)
    with pytest.raises(StreamingQueryException, match=f"topic {topic} was deleted and made again"):
        found.start(availableNow=True).finish()


@original(MICRO_BATCH, "SPARK-53560: no crash looping during uncommitted batch retry in AvailableNow trigger")
def test_a_batch_that_fails_again_after_partitions_were_added(
    kafka: Kafka, source: Source, stream: Make, new_name: Names
) -> None:
    """It fails for what its rows are, and not for the partitions that it does not know."""
    topic = fill(kafka, new_name("t"), range(1, 8))
    failing = "if(cast(value as string) = '7', raise_error('error for 7'), value) as value"
    found = stream(source.read_stream(subscribe=topic, startingOffsets="earliest").selectExpr(failing))
    with pytest.raises(StreamingQueryException, match="error for 7"):
        found.start(availableNow=True).finish()
    kafka.grow(topic, 2)
    with pytest.raises(StreamingQueryException, match="error for 7"):
        found.start(availableNow=True).finish()


def behind(progress: Any) -> list[int]:
    """How many offsets each partition is behind after a batch: Spark's source has metrics of this, ``format("kwire")``
    reports the offsets."""
    (found,) = progress["sources"]
    ends, latest = (json.loads(json.dumps(found[name])) for name in ("endOffset", "latestOffset"))
    ends, latest = (each if isinstance(each, dict) else json.loads(each) for each in (ends, latest))
    return [
        offset - ends[topic][partition]
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
        if partition != "id"
    ]


@needs_limits
@pytest.mark.parametrize(
    ("limit", "is_behind"),
    [
        pytest.param(
            {"maxOffsetsPerTrigger": 1}, True, marks=original(MICRO_BATCH, "test custom metrics - with rate limit")
        ),
        pytest.param({}, False, marks=original(MICRO_BATCH, "test custom metrics - no rate limit")),
    ],
    ids=["limited", "not-limited"],
)
def test_how_far_a_query_is_behind(
    kafka: Kafka, source: Source, stream: Make, new_name: Names, limit: dict[str, int], is_behind: bool
) -> None:
    topic = fill(kafka, new_name("t"), range(1, 6), range(6, 11))
    found = stream(source.read_stream(subscribe=topic, startingOffsets="earliest", **limit)).start().process()
    assert found.numbers == [*range(1, 11)]
    batches = [behind(each) for each in found.query.recentProgress if each["numInputRows"]]
    assert {len(each) for each in batches} == {2}
    assert any(min(each) > 0 for each in batches) == is_behind
    assert batches[-1] == [0, 0]
