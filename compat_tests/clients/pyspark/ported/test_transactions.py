"""Streams of topics with transactions: what is visible, and batches whose first or last offset is no record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.clients.pyspark.ported.support.kafka import Kafka
from compat_tests.clients.pyspark.ported.support.originals import MICRO_BATCH, original
from compat_tests.clients.pyspark.ported.support.streams import Source, Stream
from compat_tests.names import Names

pytestmark = pytest.mark.java

Make = Callable[..., Stream]


def limited(source: Source, topic: str, isolation: str) -> Any:
    """A stream of three offsets a batch. In the cases a record's value is its offset."""
    return source.read_stream(
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=3,
        **{"kafka.isolation.level": isolation},
    )


@original(MICRO_BATCH, "read Kafka transactional messages: read_committed")
def test_read_committed(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = kafka.create(new_name("t"))
    found = stream(limited(source, topic, "read_committed")).start().process()
    producer = kafka.transactions(new_name("tx"))
    producer.begin(topic, range(5))
    assert found.process().numbers == [], "not committed yet"
    producer.commit(topic, 6)
    assert found.process().batches == [[0, 1, 2], [3, 4]]
    producer.begin(topic, range(6, 11))
    producer.abort(topic, 12)
    assert found.process().batches[2:] == [[], []], "offsets 6 to 8, 9 to 11"
    producer.begin(topic, range(12, 17))
    producer.commit(topic, 18)
    assert found.process().batches[4:] == [[12, 13, 14], [15, 16]]
    for values, end in (([18], 20), ([20], 22), ([22, 23], 25)):
        producer.begin(topic, values)
        producer.commit(topic, end)
    found.process()
    assert found.numbers == [0, 1, 2, 3, 4, 12, 13, 14, 15, 16, 18, 20, 22, 23]


@original(MICRO_BATCH, "read Kafka transactional messages: read_uncommitted")
def test_read_uncommitted(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = kafka.create(new_name("t"))
    found = stream(limited(source, topic, "read_uncommitted")).start().process()
    producer = kafka.transactions(new_name("tx"))
    producer.begin(topic, range(5))
    assert found.process().batches == [[0, 1, 2], [3, 4]], "not committed yet"
    producer.commit(topic, 6)
    assert found.process().batches[2:] == [[]], "offset 5, the marker"
    producer.begin(topic, range(6, 11))
    producer.abort(topic, 12)
    assert found.process().batches[3:] == [[6, 7, 8], [9, 10]]
    producer.begin(topic, range(12, 17))
    producer.commit(topic, 18)
    assert found.process().batches[5:] == [[12, 13, 14], [15, 16]]
    for values, end in (([18], 20), ([20], 22), ([22, 23], 25)):
        producer.begin(topic, values)
        producer.commit(topic, end)
    found.process()
    assert found.numbers == [*range(5), *range(6, 11), *range(12, 17), 18, 20, 22, 23]


@original(MICRO_BATCH, "SPARK-25495: FetchedData.reset should reset all fields")
def test_records_that_come_before_a_batch_is_read(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    """They belong to the next batch."""
    topic = kafka.create(new_name("t"))
    producer = kafka.transactions(new_name("tx"))
    producer.begin(topic, range(4))
    producer.commit(topic, 5)

    def write_more(batch: int) -> None:
        if batch == 0:
            producer.begin(topic, range(4, 8))
            producer.commit(topic, 10)

    frame = source.read_stream(
        subscribe=topic, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"}
    )
    found = stream(frame, before=write_more).start().process()
    assert found.batches == [[0, 1, 2, 3], [4, 5, 6, 7]]


@original(MICRO_BATCH, "SPARK-27494: read kafka record containing null key/values.")
def test_null_keys_and_values(kafka: Kafka, source: Source, stream: Make, new_name: Names) -> None:
    topic = kafka.create(new_name("t"))
    frame = source.read_stream(
        subscribe=topic, startingOffsets="earliest", **{"kafka.isolation.level": "read_committed"}
    ).selectExpr("cast(key as string) as key", "cast(value as string) as value")
    found: list[tuple[str | None, str | None]] = []
    query = stream(frame, take=lambda batch: found.extend((row.key, row.value) for row in batch.collect()))
    query.start(processingTime="100 milliseconds")
    keys = [*[None] * 5, *range(1, 6), *[None] * 5]
    values = [*[None] * 10, *range(6, 11)]
    producer = kafka.transactions(new_name("tx"))
    producer.begin(topic, values, keys)
    producer.commit(topic, 16)
    query.process()
    expected = [(key and str(key), value and str(value)) for key, value in zip(keys, values, strict=True)]
    assert sorted(found, key=str) == sorted(expected, key=str)
