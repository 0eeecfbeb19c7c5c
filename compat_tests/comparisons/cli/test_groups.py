"""``kwire group``: the same output on both brokers, for groups of all types."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.comparisons.cli.conftest import Kwire
from compat_tests.comparisons.streams_groups.member import Member
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker


@pytest.fixture
def written(broker: Broker, make_topic: Callable[..., str]) -> str:
    """A topic with two partitions of five records each, at 1,760,000,000,000 ms and every second after."""
    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index in range(10):
        producer.produce(topic, b"v", partition=index % 2, timestamp=1_760_000_000_000 + index * 1000)
    assert producer.flush(20) == 0
    return topic


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_listed_described_moved_and_deleted(
    protocol: str, kwire: Kwire, broker: Broker, written: str, new_name: Names, observe: Observations
) -> None:
    topic, group = written, new_name("group")
    config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "group.protocol": protocol}
    consumer = Consumer({**config, "client.id": "c", "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert len(consumer.consume(10, 30)) == 10
    consumer.commit(offsets=[TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 5)], asynchronous=False)
    rows = [each for each in kwire("group", "list", "-o", "json").json() if each["group"] == group]
    observe("listed", rows)
    assert group in kwire("group", "list", "--state", "stable", "--type", protocol).out
    assert group not in kwire("group", "list", "--state", "empty").out
    [described] = kwire("group", "describe", group, "-o", "json").json()
    [member] = described["members"]
    assert member["assigned"] == [{"topic": topic, "partitions": [0, 1]}]
    shown = kwire("group", "describe", group).out
    assert member["member"] in shown
    observe("described", shown.replace(member["member"], "MEMBER").split())
    refused = kwire("group", "seek", group, "--to", "earliest", "--execute")
    assert (refused.status, refused.out) == (1, "") and "stop them first" in refused.err
    observe("refused while members live", refused)
    observe("deleted while members live", kwire("group", "delete", group))
    observe("offsets of a subscribed topic", kwire("group", "delete-offsets", group, "--topic", topic))
    consumer.close()
    for position in ("earliest", "latest", "2", "99", "-1", "@1760000003000", "2999-01-01", "1 hour ago"):
        observe(
            f"dry run to {position}", kwire("group", "seek", group, "--to", position, "--topic", topic, "-o", "json")
        )
    assert [each["committed"] for each in kwire("group", "lag", group, "-o", "json").json()] == [3, 5]
    observe("seek", kwire("group", "seek", group, "--to", "1", "--topic", f"{topic}:1", "--execute"))
    assert [each["committed"] for each in kwire("group", "lag", group, "-o", "json").json()] == [3, 1]
    observe("offsets deleted", kwire("group", "delete-offsets", group, "--topic", f"{topic}:0"))
    observe("lag", kwire("group", "lag", group))
    observe("deleted", kwire("group", "delete", group))
    observe("deleted again", kwire("group", "delete", group))
    observe("described after the end", kwire("group", "describe", group))


def test_a_group_that_never_was_gets_offsets(
    kwire: Kwire, written: str, new_name: Names, observe: Observations
) -> None:
    group = new_name("group")
    observe("nothing committed", kwire("group", "seek", group, "--to", "earliest"))
    observe("unknown topic", kwire("group", "seek", group, "--to", "earliest", "--topic", "no-such-topic"))
    observe("unknown partition", kwire("group", "seek", group, "--to", "earliest", "--topic", f"{written}:7"))
    observe("seek", kwire("group", "seek", group, "--to", "2", "--topic", written, "--execute", "-o", "jsonl"))
    observe("lag", kwire("group", "lag", group, "-o", "jsonl"))


def test_a_streams_group_is_listed_and_described(
    kwire: Kwire, broker: Broker, make_topic: Callable[..., str], new_name: Names, observe: Observations
) -> None:
    topic, group = make_topic(2), new_name("group")
    member = Member(broker, group, topic)
    member.join()
    observe("listed", [each for each in kwire("group", "list", "-o", "json").json() if each["group"] == group])
    [described] = kwire("group", "describe", group, "-o", "json").json()
    del described["epoch"]  # how often it was built anew depends on when internal topics are seen
    observe("described", described)
    observe("seek", kwire("group", "seek", group, "--to", "earliest", "--execute"))
    member.leave()


@pytest.mark.parametrize("words", [["--to", "soon"], ["--to", "1", "--topic", "t:x"], []])
def test_wrong_options_are_wrong_usage(words: list[str], kwire: Kwire) -> None:
    wrong = kwire("group", "seek", "g", *words)
    assert (wrong.status, wrong.out) == (2, "")
    assert wrong.err.count("\n") == 1 and "(see kwire group seek" in wrong.err
