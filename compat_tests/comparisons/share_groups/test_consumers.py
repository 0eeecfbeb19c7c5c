"""ConsoleShareConsumer and VerifiableShareConsumer: what they print, and what they leave of a group."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.comparisons.share_groups.conftest import Tool
from compat_tests.names import Names
from harness.observations import Observations

pytestmark = pytest.mark.java
_SHOWN = ("partition", "offset", "delivery", "epoch")


def test_the_console_accepts_releases_and_rejects(
    tool: Tool,
    make_topic: Callable[..., str],
    new_name: Names,
    produce: Callable[[str, int, int], None],
    observe: Observations,
) -> None:
    topic, group = make_topic(), new_name("group")
    produce(topic, 0, 10)
    entity = ["--entity-type", "groups", "--entity-name", group]
    tool.run("ConfigCommand", "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest").check()
    tool.until("share.auto.offset.reset=earliest", "ConfigCommand", "--describe", *entity)
    shown = [word for name in _SHOWN for word in ("--formatter-property", f"print.{name}=true")]
    base = ["--topic", topic, "--group", group, *shown, "--max-messages"]
    for step in (["4"], ["3", "--release"], ["2", "--reject"], ["3"], ["1", "--enable-systest-events"]):
        found = tool.run("ConsoleShareConsumer", *base, *step)
        observe(" ".join(step), [found.status, tool.masked(found)])
        observe(f"after {' '.join(step)}", tool("ShareGroupCommand", "--describe", "--group", group))


def test_the_verifiable_consumer_acknowledges(
    tool: Tool,
    make_topic: Callable[..., str],
    new_name: Names,
    produce: Callable[[str, int, int], None],
    observe: Observations,
) -> None:
    topic, group = make_topic(), new_name("group")
    produce(topic, 0, 10)
    how = ["--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest", "--max-messages", "10", "--verbose"]
    found = tool.run("VerifiableShareConsumer", "--topic", topic, "--group-id", group, *how).check()
    observe("events", [_stable(json.loads(line)) for line in found.out.splitlines() if line.startswith("{")])
    observe("after", tool("ShareGroupCommand", "--describe", "--group", group))


def _stable(event: dict[str, Any]) -> dict[str, Any]:
    """An event without its time; the tool lists the offsets of a partition in any order."""
    for partition in event.get("partitions", ()):
        partition["offsets"].sort()
    return {name: value for name, value in event.items() if name != "timestamp"}
