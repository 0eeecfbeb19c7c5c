"""Kafka's tools on transactions: the same output on both brokers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer as ConfluentProducer

from compat_tests.comparisons.cli.conftest import Kwire
from compat_tests.comparisons.transactions.script import Producer, TransactionScript
from compat_tests.names import Names
from compat_tests.reading import partition_values
from harness.java_runner import JavaRunner, ToolResult
from harness.observations import Observations
from harness.processes.brokers import Broker

pytestmark = pytest.mark.java


class Tool:
    """Kafka's TransactionsCommand; masks what differs between runs."""

    def __init__(self, java: JavaRunner, broker: Broker, script: TransactionScript) -> None:
        self._java = java
        self._broker = broker
        self._script = script

    def __call__(self, *arguments: str, tool: str = "TransactionsCommand") -> list[object]:
        result = self.run(*arguments, tool=tool)
        words = [[self._mask(word) for word in line.split()] for line in result.out.splitlines()]
        return [result.status, [line for line in words if line], bool(result.err.strip())]

    def run(self, *arguments: str, tool: str = "TransactionsCommand") -> ToolResult:
        return self._java.tool(tool, "--bootstrap-server", self._broker.bootstrap, *arguments)

    def _mask(self, word: str) -> str:
        if word.isdigit() and int(word) > 1_000_000:
            return "TIME"
        word = re.sub(r"^\d+$", lambda number: self._known(int(number[0])), word)
        return word.replace(self._broker.bootstrap, "ADDRESS")

    def _known(self, number: int) -> str:
        return self._script._ids.get(number, str(number)) if number > 5 else str(number)


@pytest.fixture
def tool(java: JavaRunner, broker: Broker, script: TransactionScript) -> Tool:
    return Tool(java, broker, script)


def test_transactions_are_described(tool: Tool, script: TransactionScript, observe: Observations) -> None:
    for _ in range(9):  # so that the producer id is distinct from other small numbers
        script.init()
    who = script.init()
    observe("empty", tool("describe", "--transactional-id", script.id))
    script.add(who, 0, 1)
    script.write(who, 0)
    described = tool.run("describe", "--transactional-id", script.id).check().out
    assert "Ongoing" in described and f"{script.name}-0" in described
    listed = tool.run("list").check().out
    assert re.search(rf"{re.escape(script.id)}\s+\d+\s+{who.id}\s+Ongoing", listed)
    assert "Ongoing" in tool.run("list", "--transactional-id-pattern", "txn.*").check().out
    producers = tool.run("describe-producers", "--topic", script.name, "--partition", "0").check().out
    assert re.search(rf"^{who.id}\s+{who.epoch}\s", producers, re.M)
    observe("nobody", tool("describe", "--transactional-id", "nobody"))


@pytest.mark.parametrize("by", ["start offset", "producer"])
def test_a_hanging_transaction_is_aborted(
    tool: Tool, script: TransactionScript, observe: Observations, by: str
) -> None:
    who = script.init()
    script.add(who, 0)
    script.write(who, 0)
    where = ["--topic", script.name, "--partition", "0"]
    if by == "start offset":
        how = ["--start-offset", "0"]
    else:
        how = ["--producer-id", str(who.id), "--producer-epoch", str(who.epoch), "--coordinator-epoch", "0"]
    observe("abort", tool("abort", *where, *how)[0])
    script.see("read", script.read())
    observe("abort again", tool("abort", *where, *how)[0])
    script.see("read again", script.read())


def test_a_transaction_is_terminated(tool: Tool, script: TransactionScript, observe: Observations) -> None:
    who = script.init()
    script.add(who, 0)
    script.write(who, 0)
    observe("terminate", tool("forceTerminateTransaction", "--transactional-id", script.id)[0])
    script.settled()
    script.end(Producer(who.name, who.id, who.epoch), commit=True)
    script.see("read", script.read())


def test_hanging_transactions_are_found(tool: Tool, script: TransactionScript, observe: Observations) -> None:
    who = script.init()
    script.add(who, 0)
    script.write(who, 0)
    observe("find", tool("find-hanging", "--topic", script.name, "--max-transaction-timeout", "15")[0])


def test_transactions_are_listed_by_how_long_they_run(tool: Tool, script: TransactionScript) -> None:
    who = script.init()
    script.add(who, 0)
    assert script.id in tool.run("list", "--duration-filter", "0").check().out
    assert script.id not in tool.run("list", "--duration-filter", "10000000").check().out
    script.end(who, commit=False)
    script.settled()
    assert re.search(rf"{re.escape(script.id)}\s.*CompleteAbort", tool.run("list").check().out)


class Hanging(NamedTuple):
    """A transaction that is unknown to its coordinator."""

    broker: Broker
    script: TransactionScript
    who: Producer


@pytest.fixture
def hanging(broker_factory: Callable[..., Broker], new_name: Names) -> Iterator[Hanging]:
    """Without verification of partitions a batch can open a transaction that never ends; here it is an hour old."""
    broker = broker_factory({"transaction.partition.verification.enable": "false"})
    with TransactionScript(broker, new_name) as script:
        who = script.init()
        hour_ago_ms = int(time.time() - 3600) * 1000
        written = script.write(who, 0, b"hangs", time_ms=hour_ago_ms)
        assert written.responses[0].partition_responses[0].error_code == 0
        yield Hanging(broker, script, who)


def test_a_hanging_transaction_is_found_and_aborted(java: JavaRunner, hanging: Hanging, observe: Observations) -> None:
    broker, script, who = hanging
    tool = Tool(java, broker, script)
    row = rf"^{re.escape(script.name)}\s+0\s+{who.id}\s+{who.epoch}\s+-1\s+0\s"
    searches = (["--broker-id", "1"], ["--topic", script.name], ["--topic", script.name, "--partition", "0"])
    for search in searches:
        found = tool.run("find-hanging", *search).check()
        assert re.search(row, found.out, re.M), found
    assert not re.search(row, tool.run("find-hanging", *searches[1], "--max-transaction-timeout", "90").out, re.M)
    script.see("before", script.read())
    observe("abort", tool("abort", "--topic", script.name, "--partition", "0", "--start-offset", "0")[0])
    script.see("after", script.read())
    assert not re.search(row, tool.run("find-hanging", *searches[1]).check().out, re.M)
    observe("conversation with it", script.seen)


def test_kwires_command_finds_and_aborts_it_too(hanging: Hanging, tmp_path: Path, observe: Observations) -> None:
    broker, script, who = hanging
    kwire = Kwire(broker.bootstrap, tmp_path)
    [found] = kwire("txn", "find-hanging", script.name, "-o", "json").json()
    assert (found.pop("producer_id"), found.pop("producer_epoch")) == (who.id, who.epoch)
    assert found.pop("last_timestamp") < (time.time() - 3000) * 1000
    observe("found", found)
    assert kwire("txn", "find-hanging", script.name, "--open-for", "7200", "-o", "json").json() == []
    where = ("txn", "abort-hanging", f"{script.name}:0", "--start-offset")
    observe("not there", kwire(*where, "1"))
    assert kwire(*where, "0", "-o", "json").json()[0]["start_offset"] == 0
    observe("again", kwire(*where, "0"))
    assert kwire("txn", "find-hanging", "-o", "json").json() == []
    script.see("read", script.read())
    observe("conversation with it", script.seen)


@pytest.mark.parametrize("aborts", [[], ["--enable-random-aborts"]])
def test_kafkas_own_copier_copies_exactly_once(
    java: JavaRunner,
    broker: Broker,
    make_topic: Callable[..., str],
    new_name: Names,
    aborts: list[str],
) -> None:
    """The copier of Kafka's system tests. It copies an aborted transaction again; each record ends up there once."""
    source, target, group = make_topic(), make_topic(), new_name("group")
    producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(400):
        producer.produce(source, b"%d" % number, partition=0)
    assert producer.flush(20) == 0
    what = ["--input-topic", source, "--input-partition", "0", "--output-topic", target, "--consumer-group", group]
    how = ["--transactional-id", new_name("txn"), "--transaction-size", "25", "--max-messages", "400", *aborts]
    copied = java.tool("TransactionalMessageCopier", "--broker-list", broker.bootstrap, *what, *how)
    assert copied.status == 0, copied
    assert json.loads(copied.out.splitlines()[-1])["remaining"] == 0
    assert partition_values(broker.bootstrap, target) == [b"%d" % number for number in range(400)]


def test_the_producer_performance_tool_writes_transactions(
    tool: Tool, java: JavaRunner, broker: Broker, make_topic: Callable[..., str], new_name: Names
) -> None:
    topic, transactional_id = make_topic(), new_name("txn")
    how = ["--num-records", "300", "--record-size", "10", "--throughput", "2000"]
    how += ["--transactional-id", transactional_id, "--transaction-duration-ms", "40"]
    tool.run("--topic", topic, *how, tool="ProducerPerformance").check()
    assert len(partition_values(broker.bootstrap, topic)) == 300
    described = tool.run("describe", "--transactional-id", transactional_id).check().out
    assert "CompleteCommit" in described


def test_the_console_consumer_reads_committed(tool: Tool, script: TransactionScript, observe: Observations) -> None:
    who = script.init()
    for number in range(5):
        script.add(who, 0)
        script.write(who, number, b"value %d" % number)
        script.end(who, commit=number % 2 == 0)
    for level, count in (("read_committed", "3"), ("read_uncommitted", "5")):  # both end with the last record
        arguments = ["--topic", script.name, "--from-beginning", "--isolation-level", level]
        limits = ["--max-messages", count, "--timeout-ms", "60000"]
        result = tool.run(*arguments, *limits, tool="ConsoleConsumer")
        observe(level, [result.status, result.out])
