from __future__ import annotations

import pytest

from kwire.spark.source.errors import SourceError
from kwire.spark.source.options import EARLIEST, LATEST, Limit, SourceOptions

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}


def parse(**given: str) -> SourceOptions:
    return SourceOptions.parse({**LEAST, **given}, streaming=False)


def test_a_batch_reads_all_and_a_stream_what_comes() -> None:
    assert (parse().starting, parse().ending) == (Limit(offset=EARLIEST), Limit(offset=LATEST))
    assert SourceOptions.parse(LEAST, streaming=True).starting == Limit(offset=LATEST)


def test_names_are_read_in_any_case_and_values_as_spark_writes_them() -> None:
    options = parse(
        STARTINGOFFSETS='{"a": {"0": 23, "1": -2}}',
        includeHeaders="TRUE",
        FailOnDataLoss="false",
        minPartitions="7",
        **{"kafka.isolation.level": "read_committed", "kafka.client.id": "mine"},
    )
    assert options.starting == Limit(offsets={"a": {0: 23, 1: -2}})
    assert (options.headers, options.fails_on_loss, options.min_partitions, options.committed) == (True, False, 7, True)
    assert options.properties == {"client.id": "mine"}


def test_offsets_are_given_for_partitions_and_for_whole_topics() -> None:
    found = parse(startingOffsets='{"a": {"0": 23}, "b": "Earliest"}').starting
    assert found == Limit(offsets={"a": {0: 23}}, topics={"b": EARLIEST})
    assert [found.offset_of("a", 0), found.offset_of("b", 7), found.offset_of("c", 0)] == [23, EARLIEST, None]
    assert Limit(offset=LATEST).offset_of("a", 0) == LATEST
    assert parse(startingOffsets='{"a": {"0": 3}}', endingOffsets='{"a": {"0": -1}}').ending.offset_of("a", 0) == LATEST


def test_topics_are_named_listed_or_matched() -> None:
    assert parse(subscribe=" a , b,a").topics == ("a", "b")
    pattern = SourceOptions.parse({"kafka.bootstrap.servers": "x:1", "subscribePattern": "orders-.*"}, streaming=True)
    assert pattern.pattern == "orders-.*"
    assigned = SourceOptions.parse({"kafka.bootstrap.servers": "x:1", "assign": '{"a": [0, 2]}'}, streaming=True)
    assert assigned.partitions == {"a": (0, 2)}


def test_a_timestamp_comes_before_timestamps_and_those_before_offsets() -> None:
    by_partition = '{"a": {"0": 5}}'
    assert parse(startingTimestamp="7", startingOffsetsByTimestamp=by_partition).starting == Limit(timestamp=7)
    found = parse(startingOffsetsByTimestamp=by_partition, startingOffsets="earliest").starting
    assert found == Limit(timestamps={"a": {0: 5}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
        (
            {"assign": '{"a":[0]}'},
            "exactly one of the options subscribe, subscribePattern, assign .* not subscribe and",
        ),
        ({"subscribe": " "}, "option subscribe is empty"),
        ({"subscribe": ","}, "names of topics with commas"),
        ({"startingOffsets": "latest"}, "startingOffsets=latest means nothing in a batch query"),
        ({"endingOffsets": "earliest"}, "endingOffsets=earliest means nothing in a batch query"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "startingOffsets: -1 for a-0 means nothing in a batch query"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "endingOffsets: -2 for a-0 means nothing in a batch query"),
        ({"startingOffsets": '{"a": "latest"}'}, "startingOffsets: -1 for a means nothing in a batch query"),
        ({"endingOffsets": '{"a": "earliest"}'}, "endingOffsets: -2 for a means nothing in a batch query"),
        ({"startingOffsets": '{"a": {"0": 1, "0": 2}}'}, "option startingOffsets names 0 twice"),
        ({"startingOffsetsByTimestamp": '{"a": "earliest"}'}, r'it must be as in \{"topic"'),
        (
            {"startingOffsets": '{"a": {"0": 3}}', "endingOffsets": '{"a": {"0": 2}}'},
            "a-0 begins at 3, after its end at 2",
        ),
        (
            {"startingOffsets": '{"a": {"0": 3}}', "endingOffsets": '{"a": {"1": 9}}'},
            "only one of them names a-0",
        ),
        ({"startingOffsets": "23"}, r'it must be as in \{"topic"'),
        ({"startingOffsets": '{"a": {"x": 1}}'}, r'it must be as in \{"topic"'),
        ({"startingOffsets": '{"a": {"0": -3}}'}, r'it must be as in \{"topic"'),
        ({"startingTimestamp": "yesterday"}, "a number of milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "never"}, "it is error or latest"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset cannot be set: set startingOffsets"),
        ({"kafka.isolation.level": "read_all"}, "read_uncommitted or read_committed"),
        ({"failOnDataLoss": "yes"}, "failOnDataLoss=yes: it is true or false"),
        ({"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition=many: it is a number of at least 1"),
        ({"minPartitions": "0"}, "minPartitions=0: it is a number of at least 1"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger means nothing in a batch query"),
    ],
)
def test_what_is_missing_or_wrong_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        SourceOptions.parse({**LEAST, **given}, streaming=False)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets means nothing in a streaming query"),
        ({"endingTimestamp": "1"}, "endingTimestamp means nothing in a streaming query"),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "minOffsetsPerTrigger=6 is more than"),
        ({"maxTriggerDelay": "soon"}, "it is a time such as 15m"),
    ],
)
def test_what_means_nothing_in_a_stream_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        SourceOptions.parse({**LEAST, **given}, streaming=True)


def test_only_one_way_to_name_topics() -> None:
    with pytest.raises(SourceError, match="must be given, not none"):
        SourceOptions.parse({"kafka.bootstrap.servers": "x:1"}, streaming=True)
    with pytest.raises(SourceError, match="option subscribePattern=\\(: "):
        SourceOptions.parse({"kafka.bootstrap.servers": "x:1", "subscribePattern": "("}, streaming=True)
    for wrong in ("[]", '{"a": 1}', '{"a": []}', '{"a": ["0"]}', "x"):
        with pytest.raises(SourceError, match="it must be as in"):
            SourceOptions.parse({"kafka.bootstrap.servers": "x:1", "assign": wrong}, streaming=True)


def test_passwords_are_not_in_the_text() -> None:
    options = parse(**{"kafka.sasl.jaas.config": "planted-secret"})
    assert options.properties == {"sasl.jaas.config": "planted-secret"}
    assert "planted-secret" not in repr(options) + str(options) + f"{options}"
