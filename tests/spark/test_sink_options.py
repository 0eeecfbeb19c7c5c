from __future__ import annotations

import pytest

from kwire.spark.sink.errors import SinkError
from kwire.spark.sink.options import SinkOptions

LEAST = {"kafka.bootstrap.servers": "localhost:9092"}


def test_names_are_read_in_any_case() -> None:
    options = SinkOptions.parse({"KAFKA.Bootstrap.Servers": "a:1,b:2", "TOPIC": "orders", "sinkid": "mine"})
    assert (options.bootstrap, options.topic, options.sink_id) == ("a:1,b:2", "orders", "mine")


def test_kafka_options_go_to_the_client_and_not_into_the_text() -> None:
    options = SinkOptions.parse({**LEAST, "kafka.sasl.jaas.config": "planted-secret", "kafka.compression.type": "zstd"})
    assert options.properties == {"sasl.jaas.config": "planted-secret"}
    assert options.compression == 4
    assert "planted-secret" not in repr(options) + str(options) + f"{options}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "kafka.bootstrap.servers is missing"),
        ({**LEAST, "kafka.transactional.id": "x"}, "kafka.transactional.id cannot be set"),
        ({**LEAST, "kafka.acks": "1"}, "kafka.acks cannot be set"),
        ({**LEAST, "kafka.compression.type": "brotli"}, "one of none, gzip, snappy, lz4, zstd"),
        ({**LEAST, "kafka.transaction.timeout.ms": "-1"}, "a number of milliseconds"),
        ({**LEAST, "changedBatch": "maybe"}, "one of fail, skip"),
    ],
)
def test_what_is_missing_or_wrong_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(SinkError, match=message):
        SinkOptions.parse(given)


@pytest.mark.parametrize("path", ["/a/b", "/a/b/", "file:/a/b", "file:///a/b", "file:///a/b/"])
def test_a_sink_without_a_name_has_that_of_its_checkpoint_however_it_is_spelled(path: str) -> None:
    assert SinkOptions.parse({**LEAST, "checkpointLocation": path}).identity("query") == "/a/b"


def test_the_name_comes_before_the_checkpoint_and_both_before_the_query() -> None:
    assert SinkOptions.parse({**LEAST, "checkpointLocation": "/a", "sinkId": "mine"}).identity("query") == "mine"
    assert SinkOptions.parse(LEAST).identity("query") == "query"
