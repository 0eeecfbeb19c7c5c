"""Clients in Go: franz-go, sarama and segmentio's kafka-go (`go/`)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from compat_tests.clients.languages.toolchains import FOLDER, built, need_tool, scenarios, step
from compat_tests.names import Names
from harness.processes.brokers import Broker

EVERYTHING = ["topics", "compressions", "groups", "transactions", "deleting"]
SCENARIOS = {
    "franz": [*EVERYTHING[:4], "copying exactly once", "deleting"],
    "sarama": EVERYTHING,
    "segmentio": ["topics", "compressions", "groups", "producer ids", "deleting"],
}


def build(sources: Path, folder: Path) -> None:
    step("go", "build", "-o", str(folder / "clients"), ".", cwd=sources, GOTOOLCHAIN="local", GOFLAGS="-buildvcs=false")


def need_go() -> None:
    """Skip without Go, or with a version that is older than the modules require."""
    need_tool("go")
    answer = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    wanted = re.search(r"^go (\d+)\.(\d+)", (FOLDER / "go" / "go.mod").read_text(), re.M)
    found = re.match(r"go(\d+)\.(\d+)", answer)
    assert wanted
    if found and tuple(map(int, found.groups())) < tuple(map(int, wanted.groups())):
        pytest.skip(f"needs Go {'.'.join(wanted.groups())}, found {answer.strip()}")


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("client", list(SCENARIOS))
def test_a_client_in_go(broker: Broker, new_name: Names, client: str) -> None:
    need_go()
    program = built("go", build) / "clients"
    assert scenarios(str(program), broker.bootstrap, new_name("go"), client) == SCENARIOS[client]
