"""The Rust client rdkafka, which wraps librdkafka (`rust/`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.clients.languages.toolchains import built, need_tool, scenarios, step
from compat_tests.names import Names
from harness.processes.brokers import Broker


def build(sources: Path, folder: Path) -> None:
    step("cargo", "build", "--quiet", "--locked", cwd=sources, CARGO_TARGET_DIR=str(folder / "target"))


@pytest.mark.timeout(1500)
def test_rdkafka(broker: Broker, new_name: Names) -> None:
    need_tool("cargo", "gcc", "make")
    program = built("rust", build) / "target" / "debug" / "kwire-test-client"
    seen = scenarios(str(program), broker.bootstrap, new_name("rust"))
    assert seen == ["topics", "compressions", "groups", "transactions", "deleting"]
