"""ShareGroupCommand: groups are listed, described with their lag, reset and deleted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.comparisons.share_groups.conftest import Lines, Tool
from compat_tests.comparisons.share_offsets.test_share_offsets import Offsets
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until

pytestmark = pytest.mark.java


def test_groups_are_listed_described_reset_and_deleted(
    tool: Tool,
    broker: Broker,
    make_topic: Callable[..., str],
    new_name: Names,
    produce: Callable[[str, int, int], None],
    observe: Observations,
) -> None:
    topic, group = make_topic(2), new_name("group")
    produce(topic, 0, 8)
    produce(topic, 1, 3)
    entity = ["--entity-type", "groups", "--entity-name", group]
    observe("configure", tool("ConfigCommand", "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest"))
    observe("configured", tool.until("share.auto.offset.reset=earliest", "ConfigCommand", "--describe", *entity))

    def command(*arguments: str) -> Lines:
        return tool("ShareGroupCommand", *arguments)

    def listed(*arguments: str) -> Lines:
        return [line for line in command("--list", *arguments) if group in line]

    def described(*arguments: str) -> Lines:
        return sorted(command("--describe", "--group", group, *arguments))

    def reset(*arguments: str) -> Lines:
        return sorted(command("--reset-offsets", "--group", group, *arguments))

    read = ["--topic", topic, "--group", group, "--max-messages", "11"]
    observe("read", sorted(tool("ConsoleShareConsumer", *read)))
    produce(topic, 0, 2)
    member = Offsets(broker, group, topic)
    assert member.heartbeat(0) == "NONE"
    wait_until(lambda: any(f"{topic}:0,1" in line for line in described("--members")), 30, "an assignment")
    observe("listed", listed())
    observe("listed with states", listed("--state"))
    observe("listed in a state", listed("--state", "Stable,Dead"))
    observe("listed in another", listed("--state", "Empty"))
    refused = command("--list", "--state", "Sleeping")
    observe("listed in none", [sorted(word.strip(",") for word in line) for line in refused])
    observe("listed among all", [line for line in tool("GroupsCommand", "--list", "--share") if group in line])
    observe("described", described())
    for what in ("--offsets", "--members", "--state"):
        observe(f"described {what}", described(what))
        observe(f"described {what} verbose", described(what, "--verbose"))
    observe("deleted with a member", command("--delete", "--group", group))
    observe("reset with a member", reset("--to-earliest", "--all-topics", "--execute"))
    observe("offsets deleted with a member", command("--delete-offsets", "--group", group, "--topic", topic))
    assert member.heartbeat(-1) == "NONE"
    member.client.close()
    observe("empty", described("--state"))
    observe("empty, its members", described("--members"))
    observe("listed when empty", listed("--state", "empty"))
    observe("dry run", reset("--to-latest", "--all-topics", "--dry-run"))
    observe("dry run of a topic", reset("--to-latest", "--topic", f"{topic}:1", "--dry-run"))
    observe("without a mode", reset("--to-latest", "--all-topics"))
    observe("reset to a time", reset("--to-datetime", "2025-10-09T08:53:20.002", "--topic", topic, "--execute"))
    observe("then", described("--offsets"))
    observe("reset to the end", reset("--to-latest", "--topic", topic, "--execute"))
    observe("at the end", described("--offsets"))
    observe("reset to the beginning", reset("--to-earliest", "--all-topics", "--execute"))
    observe("at the beginning", described("--offsets", "--verbose"))
    observe("reset of no topic", reset("--to-earliest", "--topic", topic + "x", "--execute"))
    observe("offsets deleted", command("--delete-offsets", "--group", group, "--topic", topic))
    observe("offsets deleted again", command("--delete-offsets", "--group", group, "--topic", topic))
    observe("without offsets", described("--offsets"))
    observe("deleted", command("--delete", "--group", group))
    observe("deleted again", command("--delete", "--group", group))
    observe("nothing described", described())
    observe("nothing reset", reset("--to-earliest", "--all-topics", "--execute"))
    observe("nothing's offsets deleted", command("--delete-offsets", "--group", group, "--topic", topic))
    observe("not listed", listed())


def test_groups_of_other_types(
    tool: Tool, make_topic: Callable[..., str], new_name: Names, observe: Observations
) -> None:
    topic, group = make_topic(), new_name("group")
    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"]
    observe("committed", tool("ConsumerGroupCommand", *reset))
    for words in (["--describe"], ["--describe", "--members"], ["--describe", "--state"], ["--delete"]):
        observe(" ".join(words), tool("ShareGroupCommand", *words, "--group", group))
    observe("reset", tool("ShareGroupCommand", *reset))
    observe("offsets", tool("ShareGroupCommand", "--delete-offsets", "--group", group, "--topic", topic))
    assert not [line for line in tool("ShareGroupCommand", "--list") if group in line]
