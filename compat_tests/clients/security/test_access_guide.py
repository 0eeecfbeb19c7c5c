"""docs/ACCESS_CONTROL.md is correct: its commands, pasted in order after the first steps of TLS_AND_SASL.md, do what it
says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.clients.security.shell import Shell, blocks_of
from harness.paths import ROOT
from harness.processes.ports import free_port

pytestmark = pytest.mark.java

SHOWN = (
    "is a Kafka broker",
    "b'an order'",
    "bob may not write",
    "kwire added principal=User:alice host=* permission=allow operation=create resource=topic pattern=literal",
    '"principal": "User:bob"',
    "kwire removed principal=User:bob",
    "ResourcePattern(resourceType=GROUP, name=billing, patternType=PREFIXED)",
    "committed",
    "producer_byte_rate",
    "Completed updating config for broker-logger 1",
)
"""Texts that the commands print, among others."""
STEPS_BEFORE = 2
"""Blocks of TLS_AND_SASL.md: certificates, and the configuration."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    directory = tmp_path / "guide"
    directory.mkdir()
    shell = Shell(directory, {})
    yield shell
    shell.stop()


def test_the_commands_of_the_guide_work_as_they_are_pasted(shell: Shell) -> None:
    texts = [(ROOT / "docs" / name).read_text() for name in ("TLS_AND_SASL.md", "ACCESS_CONTROL.md")]
    port = free_port()  # a test cannot use a fixed one
    before, blocks = (blocks_of(text.replace("localhost:9093", f"localhost:{port}")) for text in texts)
    assert len(blocks) > 10
    printed = "".join(shell.run(block) for block in [*before[:STEPS_BEFORE], *blocks])
    assert [each for each in SHOWN if each not in printed] == [], printed
    shell.stop()
    logged = [json.loads(line) for line in shell.log.read_text().splitlines()]
    lines = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", texts[1], re.S)]
    assert [line["event"] for line in lines] == ["denied", "ACL added"]
    for line in lines:
        same = [each for each in logged if each["event"] == line["event"]]
        assert any(line.items() <= each.items() for each in same), (line, same)
