"""Kafka's own tools on transactions: what they print is the same on both brokers."""

from __future__ import annotations

import re

import pytest

from compat_tests.brokers import Broker
from compat_tests.java_runner import JavaRunner, ToolResult
from compat_tests.observations import Observations
from compat_tests.transactions.script import Producer, TransactionScript

pytestmark = pytest.mark.java


class Tool:
    """Kafka's TransactionsCommand; what changes from run to run is masked."""

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
    for _ in range(9):  # the producer id is then not mistaken for another small number
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


def test_the_console_consumer_reads_committed(tool: Tool, script: TransactionScript, observe: Observations) -> None:
    who = script.init()
    for number in range(4):
        script.add(who, 0)
        script.write(who, number, b"value %d" % number)
        script.end(who, commit=number % 2 == 0)
    for level in ("read_committed", "read_uncommitted"):
        arguments = ["--topic", script.name, "--from-beginning", "--timeout-ms", "3000", "--isolation-level", level]
        result = tool.run(*arguments, tool="ConsoleConsumer")
        observe(level, [result.status, result.out])
