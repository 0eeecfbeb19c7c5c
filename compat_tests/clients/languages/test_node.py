"""The Node.js client kafkajs (`node/`)."""

from __future__ import annotations

import shutil
from pathlib import Path

from compat_tests.clients.languages.toolchains import built, need_tool, scenarios, step
from compat_tests.names import Names
from harness.processes.brokers import Broker


def build(sources: Path, folder: Path) -> None:
    for name in ("package.json", "package-lock.json", "client.js", "login.js"):
        shutil.copy(sources / name, folder)
    step("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)


def test_kafkajs(broker: Broker, new_name: Names) -> None:
    need_tool("node", "npm")
    folder = built("node", build)
    seen = scenarios("node", "client.js", broker.bootstrap, new_name("node"), cwd=folder)
    assert seen == ["topics", "compressions", "groups", "transactions", "deleting"]
