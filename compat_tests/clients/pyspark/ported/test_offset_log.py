"""Offsets as Spark keeps them in its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from compat_tests.clients.pyspark.ported.support.kafka import Kafka
from compat_tests.clients.pyspark.ported.support.originals import OFFSETS, original
from compat_tests.clients.pyspark.ported.support.streams import Source, Stream
from compat_tests.names import Names
from kwire.spark.source.options import SourceOptions
from kwire.spark.source.positions import Topics
from kwire.spark.source.readers import Offsets, kept, positions, to_offsets

COMPARED: list[tuple[str, str]] = [
    ('{"t":{"0":1}}', '{"t":{"0":2}}'),
    ('{"t":{"0":1,"1":0}}', '{"t":{"0":2,"1":1}}'),
    ('{"T":{"0":0},"t":{"0":1}}', '{"T":{"0":1},"t":{"0":2}}'),
    ('{"t":{"0":1}}', '{"t":{"0":2,"1":1}}'),
    ('{"t":{"0":1}}', '{"t":{"0":2,"1":3}}'),
]


def offsets(text: str) -> Offsets:
    """Offsets read from JSON, and made anew as the source makes them."""
    found = positions(json.loads(text))
    return to_offsets(found, Topics(tuple(found), {}))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("one", "two"),
    [pytest.param(*pair, marks=original(OFFSETS, f"comparison {pair[0]} <=> {pair[1]}")) for pair in COMPARED],
)
def test_equal_offsets_and_others(one: str, two: str) -> None:
    """Spark compares offsets by their JSON; equal ones are no new data."""
    for text in (one, two):
        assert json.dumps(offsets(text), separators=(",", ":")) == text
    start, end = offsets(one), offsets(two)
    assert kept(start, offsets(one)) is start
    assert kept(start, end) is end
    assert kept(end, start) is start
    assert json.dumps(start) != json.dumps(end)


@pytest.mark.quick
@original(OFFSETS, "basic serialization - deserialization")
def test_offsets_survive_json() -> None:
    found = {("t", 0): 1, ("t", 1): 3}
    assert positions(json.loads(json.dumps(to_offsets(found, Topics(tuple(found), {"t": "an id"}))))) == found


@pytest.mark.quick
@original(OFFSETS, "read Spark 2.1.0 offset format")
def test_offsets_that_spark_2_1_wrote() -> None:
    """Given as `startingOffsets`, which is how a checkpoint of Spark's own source is taken over."""
    text = '{"topic1":{"0":456,"1":789},"topic2":{"0":0}}'
    given = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "topic1,topic2", "startingOffsets": text}
    found = SourceOptions.parse(given, streaming=True).starting.offsets
    assert found == {"topic1": {0: 456, 1: 789}, "topic2": {0: 0}}
    assert positions(json.loads(text)) == {("topic1", 0): 456, ("topic1", 1): 789, ("topic2", 0): 0}


@pytest.mark.java
@original(OFFSETS, "OffsetSeqLog serialization - deserialization")
def test_the_log_of_offsets(kafka: Kafka, source: Source, stream: Callable[..., Stream], new_name: Names) -> None:
    """Each batch has its offsets in the checkpoint's log, which stay as they are when the query goes on."""
    topic = kafka.create(new_name("t"), 2)
    found = stream(source.read_stream(subscribe=topic, startingOffsets="earliest")).start()
    log: dict[str, str] = {}
    for step in range(3):
        kafka.send(topic, [step, step + 10])
        found.process()
        now = {path.name: path.read_text() for path in (found.checkpoint / "offsets").glob("[0-9]*")}
        assert now.items() >= log.items(), "what is written stays"
        log = now
        last = json.loads(log[max(log, key=int)].splitlines()[-1])
        assert positions(last) == {(topic, 0): step + 1, (topic, 1): step + 1}
        found.restart()
    assert found.process().numbers == sorted([0, 1, 2, 10, 11, 12])
