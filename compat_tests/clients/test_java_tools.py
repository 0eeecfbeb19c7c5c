"""Kafka's command-line tools, run from its jars: their output must be the same on both brokers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.comparisons.data.requests import Topic
from compat_tests.names import Names
from harness.java_runner import JavaRunner, ToolResult
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_for, wait_until
from harness.wire_client import WireClient

pytestmark = pytest.mark.java


class Tool:
    """``tool("TopicCommand", "--list")``: adds the broker's address and masks what differs between runs."""

    def __init__(self, java: JavaRunner, broker: Broker) -> None:
        self._java = java
        self._broker = broker

    def __call__(self, name: str, *arguments: str, stdin: str = "") -> ToolResult:
        result = self._java.tool(name, "--bootstrap-server", self._broker.bootstrap, *arguments, stdin=stdin)
        return ToolResult(result.status, self.mask(result.out), self.mask(result.err))

    def until(self, shown: str, name: str, *arguments: str) -> ToolResult:
        """Run a tool until its output has ``shown``: Apache Kafka shows a change a moment after it was made."""
        what = f"{shown} in the output of {name} {' '.join(arguments)}"
        return wait_for(lambda: self(name, *arguments), lambda result: shown in result.out, 20, what)

    def mask(self, text: str) -> str:
        """Mask addresses, ids, stack traces and error messages, which differ between the brokers."""
        text = text.replace(self._broker.bootstrap, "ADDRESS").replace(str(self._broker.data_dir), "DATA")
        text = re.sub(r"TopicId: \S+", "TopicId: ID", text)
        text = re.sub(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "-UUID", text)
        text = re.sub(r"(Error while executing \w+ command :|\w+Exception:) .*", r"\1 WORDS", text)
        text = re.sub(r"^\[[^\]]*\] (ERROR|WARN)", r"\1", text, flags=re.M)
        return "\n".join(
            line.rstrip() for line in text.splitlines() if not re.match(r"\s+at |\s*\.\.\. \d+ more", line)
        )


@pytest.fixture
def tool(java: JavaRunner, broker: Broker) -> Tool:
    return Tool(java, broker)


def seen(result: ToolResult) -> list[object]:
    return [result.status, result.out, result.err]


def test_topics_are_created_altered_described_and_deleted(tool: Tool, topic: str, observe: Observations) -> None:
    create = ["--create", "--topic", topic, "--partitions", "3"]
    observe(
        "create",
        seen(tool("TopicCommand", *create, "--config", "retention.ms=3600000", "--config", "cleanup.policy=compact")),
    )
    observe("create again", seen(tool("TopicCommand", *create)))
    observe("create if absent", seen(tool("TopicCommand", *create, "--if-not-exists")))
    observe("describe", seen(tool.until("PartitionCount: 3", "TopicCommand", "--describe", "--topic", topic)))
    observe("fewer partitions", seen(tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "2")))
    observe("more partitions", seen(tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "5")))
    observe("describe more", seen(tool.until("PartitionCount: 5", "TopicCommand", "--describe", "--topic", topic)))
    observe("overrides", seen(tool("TopicCommand", "--describe", "--topics-with-overrides", "--topic", topic)))
    listed = tool("TopicCommand", "--list").check().out.splitlines()
    assert topic in listed
    observe("delete", seen(tool("TopicCommand", "--delete", "--topic", topic)))
    wait_until(lambda: topic not in tool("TopicCommand", "--list").out.splitlines(), 20, "the topic's end")
    observe("delete again", seen(tool("TopicCommand", "--delete", "--topic", topic)))
    observe("describe nothing", seen(tool("TopicCommand", "--describe", "--topic", topic)))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--partitions", "0"],
        ["--partitions", "1", "--replication-factor", "2"],
        ["--replica-assignment", "1:1"],
        ["--replica-assignment", "1:7"],
        ["--config", "retention.ms=never"],
        ["--config", "no.such.config=1"],
        ["--config", "min.insync.replicas=0"],
    ],
    ids=lambda arguments: arguments[-1],
)
def test_wrong_topics_are_refused_in_the_same_way(
    tool: Tool, topic: str, observe: Observations, arguments: list[str]
) -> None:
    result = tool("TopicCommand", "--create", "--topic", topic, *arguments)
    assert result.status != 0 or "Error" in result.out + result.err
    observe("refused", seen(result))


def test_wrong_names_are_refused_in_the_same_way(tool: Tool, observe: Observations) -> None:
    for name in ("", ".", "..", "with space", "a" * 250, "sl/ash"):
        observe(f"name {name[:20]}", seen(tool("TopicCommand", "--create", "--topic", name, "--partitions", "1")))


def end_offset(broker: Broker, topic: str) -> int:
    with WireClient(broker.bootstrap) as client:
        return int(Topic(client, topic).offset_at(-1)["offset"])


def test_the_console_producer_and_consumer_talk_to_each_other(
    tool: Tool, broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic()
    written = 0
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        properties = [
            word
            for text in ("parse.key=true", "parse.headers=true", "null.marker=NULL")
            for word in ("--reader-property", text)
        ]
        lines = f"h1:{codec},h2:two\tkey\tvalue\nh3:x\tNULL\tnull key\nh4:y\tkey2\tNULL\n"
        tool("ConsoleProducer", "--topic", topic, "--compression-codec", codec, *properties, stdin=lines).check()
        written += 3
        # The tool relies on the exit of its process to flush the producer; here the process continues.
        wait_until(lambda: end_offset(broker, topic) == written, 20, f"{written} records in {topic}")  # noqa: B023
    shown = [
        word
        for name in ("key", "headers", "partition", "offset")
        for word in ("--formatter-property", f"print.{name}=true")
    ]
    read = tool("ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", "15", *shown)
    observe("read", seen(read))
    assert len(read.out.splitlines()) == 15
    one = ["--partition", "0", "--offset", "13", "--max-messages", "1"]
    observe("one", seen(tool("ConsoleConsumer", "--topic", topic, *one)))
    nothing = ["--partition", "0", "--offset", "latest", "--timeout-ms", "300"]
    assert tool("ConsoleConsumer", "--topic", topic, *nothing).out == ""


def test_offsets_are_shown_by_time_and_at_the_ends(
    tool: Tool, broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index in range(6):
        producer.produce(topic, b"v", partition=index % 2, timestamp=1_760_000_000_000 + index)
    assert producer.flush(20) == 0
    for time in ("-1", "-2", "-3", "latest", "earliest", "max-timestamp", "1760000000003", "1860000000000", "-4", "-5"):
        observe(f"time {time}", seen(tool("GetOffsetShell", "--topic", topic, "--time", time)))
    observe("by pattern", seen(tool("GetOffsetShell", "--topic-partitions", f"{topic}:1")))
    observe("unknown", seen(tool("GetOffsetShell", "--topic", "unknown-topic")))


def test_records_are_deleted_by_file(
    tool: Tool, broker: Broker, make_topic: Callable[..., str], tmp_path: Path, observe: Observations
) -> None:
    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index in range(10):
        producer.produce(topic, b"v", partition=index % 2)
    assert producer.flush(20) == 0
    file = tmp_path / "offsets.json"
    wanted = [(0, 3), (1, -1), (0, 9)]
    for number, (partition, offset) in enumerate(wanted):
        entry = f'{{"topic": "{topic}", "partition": {partition}, "offset": {offset}}}'
        file.write_text(f'{{"partitions": [{entry}], "version": 1}}')
        observe(f"delete {number}", seen(tool("DeleteRecordsCommand", "--offset-json-file", str(file))))
    observe("left", seen(tool("GetOffsetShell", "--topic", topic, "--time", "-2")))


def test_log_dirs_are_described(
    tool: Tool, broker: Broker, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce(topic, b"value", b"key", partition=1, timestamp=1_760_000_000_000)
    assert producer.flush(20) == 0
    described = tool("LogDirsCommand", "--describe", "--topic-list", topic, "--broker-list", "1").check()
    observe("described", sorted(re.findall(r'\{"partition":[^}]*\}', described.out)))
    wrong = tool("LogDirsCommand", "--describe", "--topic-list", topic, "--broker-list", "1,9")
    observe("unknown broker", [wrong.status, wrong.err.splitlines()[-1:]])


def test_groups_are_listed_described_reset_and_deleted(
    tool: Tool,
    broker: Broker,
    make_topic: Callable[..., str],
    new_name: Callable[[str], str],
    observe: Observations,
) -> None:
    topic, group = make_topic(2), new_name("group")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for index in range(10):
        producer.produce(topic, b"v", partition=index % 2, timestamp=1_760_000_000_000 + index)
    assert producer.flush(20) == 0
    config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "client.id": "client"}
    consumer = Consumer({**config, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    messages = consumer.consume(10, 20)
    assert len(messages) == 10
    consumer.commit(offsets=[TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 5)], asynchronous=False)
    command = "ConsumerGroupCommand"
    assert group in tool(command, "--list").check().out.splitlines()
    observe("listed", [line.split() for line in tool(command, "--list", "--state").out.splitlines() if group in line])
    for what in ("--offsets", "--members", "--state"):
        result = tool(command, "--describe", "--group", group, what).check()
        observe(f"describe {what}", [line.split() for line in result.out.splitlines()])
    members = tool(command, "--describe", "--group", group, "--members", "--verbose")
    observe("members", [line.split() for line in members.out.splitlines()])
    reset = ["--reset-offsets", "--group", group, "--topic", topic]
    observe("reset of an active group", seen(tool(command, *reset, "--to-earliest", "--execute")))
    observe("delete an active group", seen(tool(command, "--delete", "--group", group)))
    consumer.close()
    state = ["--describe", "--group", group, "--state"]
    wait_until(lambda: "Empty" in tool(command, *state).out, 20, "an empty group")
    for how in (["--to-earliest"], ["--shift-by", "1"], ["--to-datetime", "2025-10-09T08:53:20.004"], ["--to-latest"]):
        observe(f"reset {how[0]}", [line.split() for line in tool(command, *reset, *how, "--execute").out.splitlines()])
    observe("after", [line.split() for line in tool(command, "--describe", "--group", group).out.splitlines()])
    deleted = tool(command, "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    observe("delete offsets", [line.split() for line in deleted.out.splitlines()])
    observe("delete", seen(tool(command, "--delete", "--group", group)))
    observe("delete again", seen(tool(command, "--delete", "--group", group)))
    observe("describe nothing", seen(tool(command, "--describe", "--group", group)))


def test_configurations_are_altered_and_described(
    tool: Tool, make_topic: Callable[..., str], observe: Observations
) -> None:
    topic = make_topic()
    entity = ["--entity-type", "topics", "--entity-name", topic]
    observe("nothing", seen(tool("ConfigCommand", "--describe", *entity)))
    change = ["--alter", "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]"]
    observe("alter", seen(tool("ConfigCommand", *change, *entity)))
    observe("altered", seen(tool.until("retention.ms=1000", "ConfigCommand", "--describe", *entity)))
    observe("remove", seen(tool("ConfigCommand", "--alter", "--delete-config", "retention.ms", *entity)))
    wait_until(lambda: "retention.ms" not in tool("ConfigCommand", "--describe", *entity).out, 20, "the default")
    observe("removed", seen(tool("ConfigCommand", "--describe", *entity)))
    observe("wrong", seen(tool("ConfigCommand", "--alter", "--add-config", "retention.ms=soon", *entity)))
    observe("unknown", seen(tool("ConfigCommand", "--alter", "--add-config", "no.such=1", *entity)))
    observe("all", seen(tool("ConfigCommand", "--describe", "--all", *entity)))
    nowhere = ["--entity-type", "topics", "--entity-name", "unknown-topic"]
    observe("unknown topic", seen(tool("ConfigCommand", "--describe", *nowhere)))


def retention(tool: Tool, where: list[str]) -> list[str]:
    """The broker's retention time as the tool prints it."""
    shown = tool("ConfigCommand", "--describe", *where).check().out
    return [line for line in shown.splitlines() if "log.retention.ms" in line]


def _has(tool: Tool, where: list[str], text: str) -> bool:
    return any(text in line for line in retention(tool, where))


def test_broker_configurations_are_altered_and_described(tool: Tool, observe: Observations) -> None:
    for entity in (["--entity-name", "1"], ["--entity-default"]):
        where = ["--entity-type", "brokers", *entity]
        change = ["--alter", "--add-config", "log.retention.ms=7200000"]
        try:
            observe(f"alter {entity}", seen(tool("ConfigCommand", *change, *where)))
            has_it = partial(_has, tool, where, "log.retention.ms=7200000 ")
            wait_until(has_it, 30, "the new value")  # Apache Kafka may respond before the new value takes effect
            observe(f"altered {entity}", retention(tool, where))
        finally:  # all tests of a run share the broker
            removed = seen(tool("ConfigCommand", "--alter", "--delete-config", "log.retention.ms", *where))
        observe(f"remove {entity}", removed)
    where = ["--entity-type", "brokers", "--entity-name", "1"]
    observe("read-only", seen(tool("ConfigCommand", "--alter", "--add-config", "node.id=3", *where)))


def test_leaders_are_elected(tool: Tool, make_topic: Callable[..., str], observe: Observations) -> None:
    topic = make_topic()
    which = ["--topic", topic, "--partition", "0"]
    for kind in ("preferred", "unclean"):
        observe(kind, seen(tool("LeaderElectionCommand", "--election-type", kind, *which)))


def test_subscriptions_to_clients_metrics(tool: Tool, new_name: Names, observe: Observations) -> None:
    name = new_name("subscription")
    chosen = ["--name", name]
    match = "client_id=nobody.*,client_source_address=10[.]0[.]0[.]1"
    observe("describe none", seen(tool("ClientMetricsCommand", "--describe", *chosen)))
    set_up = ["--alter", *chosen, "--metrics", "org.apache.kafka.consumer.,org.b", "--interval", "60000"]
    observe("alter", seen(tool("ClientMetricsCommand", *set_up, "--match", match)))
    wait_until(lambda: name in tool("ClientMetricsCommand", "--list").out.splitlines(), 20, "the subscription")
    observe("describe", seen(tool("ClientMetricsCommand", "--describe", *chosen)))
    observe("without a name", tool("ClientMetricsCommand", "--alter", "--interval", "5").status)
    observe("interval", tool("ClientMetricsCommand", "--alter", *chosen, "--interval", "5").status)
    observe("pattern", tool("ClientMetricsCommand", "--alter", *chosen, "--match", "colour=red").status)
    observe("delete", seen(tool("ClientMetricsCommand", "--delete", *chosen)))
    wait_until(lambda: name not in tool("ClientMetricsCommand", "--list").out.splitlines(), 20, "its end")
