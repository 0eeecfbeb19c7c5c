"""Options: their names in any case, their values, and those that are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException

from compat_tests.clients.pyspark.ported.support.originals import (
    JSON,
    MICRO_BATCH,
    PROVIDER,
    READER,
    RELATION,
    original,
)
from compat_tests.clients.pyspark.ported.support.streams import Source, Stream
from kwire.arrow.ranges import Range
from kwire.spark.source.batch_reader import parts_of
from kwire.spark.source.errors import SourceError
from kwire.spark.source.options import EARLIEST, LATEST, Limit, SourceOptions

LEAST = {"kafka.bootstrap.servers": "nowhere:1"}
BAD_STREAM: list[tuple[dict[str, Any], str]] = [
    ({"endingOffsets": "latest"}, "option endingOffsets means nothing in a streaming query"),
    (
        {"subscribe": "t", "endingOffsetsByTimestamp": '{"t": {"0": 1000}}'},
        "option endingOffsetsByTimestamp means nothing in a streaming query",
    ),
    ({}, "exactly one of the options subscribe, subscribePattern, assign must be given, not none"),
    ({"subscribe": "t", "subscribePattern": "t.*"}, "exactly one of .* not subscribe and subscribePattern"),
    ({"subscribe": "t", "assign": '{"a": [0]}'}, "exactly one of .* not subscribe and assign"),
    ({"assign": ""}, "option assign is empty"),
    ({"subscribe": ""}, "option subscribe is empty"),
    ({"subscribePattern": ""}, "option subscribePattern is empty"),
    (
        {"subscribe": "t", "minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
        "option minOffsetsPerTrigger=20 is more than maxOffsetsPerTrigger=15",
    ),
]
BAD_BATCH: list[tuple[dict[str, Any], str]] = [
    ({"subscribe": "t", "startingOffsets": "latest"}, "option startingOffsets=latest means nothing in a batch query"),
    ({"subscribe": "t", "startingOffsets": '{"t": {"0": -1}}'}, "option startingOffsets: -1 for t-0 means nothing"),
    ({"subscribe": "t", "endingOffsets": "earliest"}, "option endingOffsets=earliest means nothing in a batch query"),
    ({"subscribe": "t", "endingOffsets": '{"t": {"0": -2}}'}, "option endingOffsets: -2 for t-0 means nothing"),
    *BAD_STREAM[2:8],
]


def parsed(**options: str) -> SourceOptions:
    """Options as a stream reads them."""
    return SourceOptions.parse({**LEAST, "subscribe": "t", **options}, streaming=True)


def parsed_for_batch(**options: str) -> SourceOptions:
    """Options as a batch query reads them."""
    return SourceOptions.parse({**LEAST, "subscribe": "t", **options}, streaming=False)


@pytest.mark.quick
@original(MICRO_BATCH, "bad source options")
def test_bad_options_of_a_stream() -> None:
    for options, message in BAD_STREAM:
        with pytest.raises(SourceError, match=message):
            SourceOptions.parse({**LEAST, **options}, streaming=True)


@pytest.mark.java
@original(MICRO_BATCH, "bad source options")
def test_bad_options_end_a_stream(source: Source, stream: Callable[..., Stream]) -> None:
    for options, message in BAD_STREAM:
        with pytest.raises(PySparkException, match=message):
            stream(source.read_stream(**options)).start().process()


@pytest.mark.java
@original(RELATION, "bad batch query options")
def test_bad_options_of_a_batch_query(source: Source) -> None:
    for options, message in BAD_BATCH:
        with pytest.raises(PySparkException, match=message):
            source.read(**options).collect()


@pytest.mark.quick
@original(MICRO_BATCH, "unsupported kafka configs")
def test_properties_that_cannot_be_set() -> None:
    values = {"auto.offset.reset": ("someValue", "none", "earliest", "latest")}
    for name in (
        "auto.offset.reset",
        "enable.auto.commit",
        "interceptor.classes",
        "key.deserializer",
        "value.deserializer",
    ):
        for value in values.get(name, ("someValue",)):
            with pytest.raises(SourceError, match=re.escape(f"option kafka.{name} cannot be set")):
                parsed(**{f"kafka.{name}": value})


@pytest.mark.quick
@original(MICRO_BATCH, "get offsets from case insensitive parameters")
def test_words_for_offsets_in_any_case() -> None:
    assert parsed(startingOffsets="earLiEst").starting == Limit(offset=EARLIEST)
    assert parsed_for_batch(endingOffsets="laTest").ending == Limit(offset=LATEST)
    offsets = '{"topic-A": {"0": 23}}'
    assert parsed(startingOffsets=offsets).starting == Limit(offsets={"topic-A": {0: 23}})
    assert parsed_for_batch().starting == Limit(offset=EARLIEST)
    assert parsed_for_batch().ending == Limit(offset=LATEST)


@pytest.mark.quick
@original(PROVIDER, "batch mode - options should be handled as case-insensitive")
def test_names_of_options_in_any_case_in_a_batch_query() -> None:
    for change in (str.upper, str.lower):
        assert parsed_for_batch(**{change("minPartitions"): "1111"}).min_partitions == 1111
        assert parsed_for_batch(**{change("failOnDataLoss"): "false"}).fails_on_loss is False


@pytest.mark.quick
@original(PROVIDER, "micro-batch mode - options should be handled as case-insensitive")
def test_names_of_options_in_any_case_in_a_stream() -> None:
    for change in (str.upper, str.lower):
        assert parsed(**{change("maxOffsetsPerTrigger"): "1111"}).at_most == 1111
        assert parsed(**{change("minOffsetsPerTrigger"): "1111"}).at_least == 1111
        assert parsed(**{change("maxTriggerDelay"): "1111ms"}).delay_s == 1.111


@pytest.mark.quick
@original(MICRO_BATCH, "minPartitions is supported")
def test_min_partitions_is_a_number_of_at_least_one() -> None:
    whole = [Range("t", 0, 0, 100)]
    assert len(parts_of(whole, parsed())) == 1
    assert len(parts_of(whole, parsed(minPartitions="1"))) == 1
    assert len(parts_of(whole, parsed(minPartitions="4"))) == 4
    for wrong in ("a", "1.0", "0", "-1"):
        with pytest.raises(SourceError, match=f"option minPartitions={wrong}: it is a number of at least 1"):
            parsed(minPartitions=wrong)


@pytest.mark.quick
@original(READER, "isolationLevel must give back default isolation level when not set")
def test_isolation_by_default() -> None:
    assert parsed().committed is False


@pytest.mark.quick
@original(READER, "isolationLevel must give back READ_UNCOMMITTED when set")
def test_read_uncommitted() -> None:
    assert parsed(**{"kafka.isolation.level": "read_uncommitted"}).committed is False


@pytest.mark.quick
@original(READER, "isolationLevel must give back READ_COMMITTED when set")
def test_read_committed() -> None:
    assert parsed(**{"kafka.isolation.level": "read_committed"}).committed is True


@pytest.mark.quick
@original(READER, "isolationLevel must throw exception when invalid isolation level set")
def test_another_isolation() -> None:
    with pytest.raises(SourceError, match=r"option kafka\.isolation\.level=intentionally_invalid"):
        parsed(**{"kafka.isolation.level": "intentionally_invalid"})


@pytest.mark.quick
@original(JSON, "parsing partitions")
def test_partitions_as_json() -> None:
    options = SourceOptions.parse({**LEAST, "assign": '{"topicA":[0,1],"topicB":[4,6]}'}, streaming=True)
    assert options.partitions == {"topicA": (0, 1), "topicB": (4, 6)}


@pytest.mark.quick
@original(JSON, "parsing partitionOffsets", "parsing specificOffsets")
def test_offsets_as_json() -> None:
    starting = parsed(startingOffsets='{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}').starting
    assert starting == Limit(offsets={"topicA": {0: 23, 1: -1}, "topicB": {0: -2}})


@pytest.mark.quick
@original(JSON, "parsing specificOffsets with topic-level earliest/latest")
def test_words_for_offsets_of_topics() -> None:
    starting = parsed(startingOffsets='{"topicA":"earliest","topicB":"latest"}').starting
    assert starting == Limit(offsets={}, topics={"topicA": EARLIEST, "topicB": LATEST})


@pytest.mark.quick
@original(JSON, "parsing specificOffsets mixing topic-level and partition-level values")
def test_words_for_topics_and_offsets_of_partitions() -> None:
    starting = parsed(startingOffsets='{"topicA":"earliest","topicB":{"0":23,"1":-1},"topicC":"LATEST"}').starting
    assert starting == Limit(offsets={"topicB": {0: 23, 1: -1}}, topics={"topicA": EARLIEST, "topicC": LATEST})


@pytest.mark.quick
@original(JSON, "parsing specificOffsets rejects a topic given in both forms")
def test_a_topic_that_is_named_twice() -> None:
    with pytest.raises(SourceError, match="option startingOffsets names topicA twice"):
        parsed(startingOffsets='{"topicA":"earliest","topicA":{"0":23}}')


@pytest.mark.quick
@original(JSON, "parsing specificOffsets rejects malformed json")
def test_offsets_that_are_none() -> None:
    for text in ('{"topicA":"first"}', '{"topicA":[0,1]}', '{"topicA":{"0":"earliest"}}', '"earliest"', "not json"):
        with pytest.raises(SourceError, match=re.escape(f"option startingOffsets={text}: it must be as in")):
            parsed(startingOffsets=text)


@pytest.mark.quick
@original(RELATION, "topic-partition for start offset and end offset must match")
def test_a_start_and_an_end_of_other_partitions() -> None:
    limits = {"startingOffsets": '{"t": {"0": 1, "1": 1, "2": 1}}', "endingOffsets": '{"t": {"0": 0, "1": 0}}'}
    with pytest.raises(SourceError, match="startingOffsets and endingOffsets: only one of them names t-2"):
        parsed_for_batch(**limits)


@pytest.mark.quick
@original(RELATION, "unresolved start offset greater than end offset")
def test_a_start_after_the_end() -> None:
    limits = {"startingOffsets": '{"t": {"0": 1, "1": 1}}', "endingOffsets": '{"t": {"0": 0, "1": 0}}'}
    with pytest.raises(SourceError, match="t-0 begins at 1, after its end at 0"):
        parsed_for_batch(**limits)
