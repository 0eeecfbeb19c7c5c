"""``kwire topic``: the same output on both brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from confluent_kafka import Producer

from compat_tests.comparisons.cli.conftest import Kwire, words
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker


def test_a_topic_is_created_listed_described_and_deleted(kwire: Kwire, topic: str, observe: Observations) -> None:
    observe("create", kwire("topic", "create", topic, "--partitions", "3", "--config", "retention.ms=3600000"))
    observe("create again", kwire("topic", "create", topic))
    observe("create if absent", kwire("topic", "create", topic, "--if-not-exists"))
    kwire.until(topic, "topic", "list")
    listed = kwire("topic", "list", "-o", "json").json()
    assert {"name": topic, "partitions": 3, "replication_factor": 1} in listed
    assert [each["name"] for each in listed] == sorted(each["name"] for each in listed)
    described = kwire("topic", "describe", topic)
    observe("describe", re.sub(r"id \S{22}", "id ID", described.out))
    [found] = kwire("topic", "describe", topic, "-o", "json").json()
    assert len(found.pop("id")) == 22
    observe("describe as JSON", found)
    observe("delete", kwire("topic", "delete", topic))
    observe("delete again", kwire("topic", "delete", topic))
    observe("delete if there", kwire("topic", "delete", topic, "--if-exists"))
    kwire.until_gone(topic)
    observe("describe nothing", kwire("topic", "describe", topic))


def test_each_output_format_has_the_same_content(kwire: Kwire, topic: str, observe: Observations) -> None:
    kwire("topic", "create", topic)
    for output in ("table", "json", "jsonl", "yaml"):
        created = kwire("topic", "create", f"{topic}-{output}", "-p", "2", "-o", output)
        observe(output, created)
        assert created.status == 0
    kwire.until(f"{topic}-yaml", "topic", "list")
    lines = kwire("topic", "list", "-o", "jsonl").out.splitlines()
    assert f"{topic}-yaml" in [json.loads(line)["name"] for line in lines]
    assert [json.loads(line) for line in lines] == kwire("topic", "list", "-o", "json").json()


def test_wrong_topics_are_refused_in_a_line(kwire: Kwire, topic: str, observe: Observations) -> None:
    for arguments in (
        [topic, "--replication-factor", "3"],
        [topic, "--config", "no.such.config=1"],
        [topic, "--config", "retention.ms=soon"],
        ["with space"],
    ):
        refused = kwire("topic", "create", *arguments)
        assert (refused.status, refused.out) == (1, "")
        observe(str(arguments[1:]), words(refused))


def test_a_dry_run_creates_nothing(kwire: Kwire, new_name: Names, observe: Observations) -> None:
    name = new_name("topic")
    observe("dry run", kwire("topic", "create", name, "--partitions", "2", "--dry-run"))
    assert name not in kwire("topic", "list").out


def test_a_topic_is_altered_and_trimmed(
    kwire: Kwire, broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic(2, {"retention.ms": "3600000"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index in range(10):
        producer.produce(topic, b"v", partition=index % 2)
    assert producer.flush(20) == 0
    observe("dry run", kwire("topic", "alter", topic, "--partitions", "3", "--dry-run"))
    observe("fewer", words(kwire("topic", "alter", topic, "--partitions", "1")))
    changes = ["--config", "cleanup.policy=compact,delete", "--delete-config", "retention.ms"]
    observe("altered", kwire("topic", "alter", topic, "--partitions", "3", *changes))
    observe("wrong value", words(kwire("topic", "alter", topic, "--config", "retention.ms=soon")))
    observe("nothing to alter", kwire("topic", "alter", topic))
    observe("unknown", words(kwire("topic", "alter", "no-such-topic", "--partitions", "3")))
    kwire.until("compact,delete", "topic", "describe", topic)
    kwire.until("        2 ", "topic", "describe", topic)
    [described] = kwire("topic", "describe", topic, "-o", "json").json()
    observe("configs", described["configs"])
    observe("trim dry run", kwire("topic", "trim", f"{topic}:0,1", "--before", "-2", "--dry-run"))
    observe("trimmed", kwire("topic", "trim", f"{topic}:0,1", "--before", "3", "-o", "json"))
    observe("trimmed to the end", kwire("topic", "trim", topic, "--before", "latest"))
    observe("trim of nothing", kwire("topic", "trim", "no-such-topic", "--before", "latest"))
