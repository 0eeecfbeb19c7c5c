"""docs/SQL.md: its commands, in its order, print what it shows, on both brokers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.paths import ROOT
from harness.processes.brokers import Broker

_BLOCK = re.compile(r"```sh\n(.*?)```((?:\n\n```text\n.*?```)*)", re.S)
_SHOWN = re.compile(r"```text\n(.*?)```", re.S)


def guide() -> list[tuple[str, list[str]]]:
    """The commands, and what they print: on standard output, and on standard error. Those for Spark run in
    `compat_tests/clients/pyspark`."""
    blocks = _BLOCK.findall((ROOT / "docs" / "SQL.md").read_text(encoding="utf-8"))
    found = [(commands, _SHOWN.findall(shown)) for commands, shown in blocks]
    return [each for each in found if "pip install" not in each[0] and "--continuous" not in each[0]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the commands run, with ``kwire`` on the path."""
    kwire = tmp_path / "kwire"
    kwire.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kwire "$@"\n')
    kwire.chmod(0o755)
    return tmp_path


def test_the_guide_prints_what_it_shows(broker_factory: Callable[..., Broker], folder: Path) -> None:
    broker = broker_factory()
    environment = {
        **os.environ,
        "KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    blocks = guide()
    assert len(blocks) >= 9
    for commands, shown in blocks:
        text = commands.replace("/var/lib/kwire", str(broker.data_dir))
        done = subprocess.run(
            ["sh", "-ec", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{commands}\n{done.stderr}"
        if shown:
            assert done.stdout == shown[0], f"{commands}\n{done.stderr}"
        assert done.stderr == (shown[1] if len(shown) > 1 else ""), commands
    assert (folder / "orders.csv").read_text().count("\n") == 6
