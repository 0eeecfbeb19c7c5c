"""docs/AUDIT.md: its commands, in its order, print what it shows, on both brokers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.paths import ROOT
from harness.processes.brokers import Broker

_BLOCK = re.compile(r"```sh\n(.*?)```(?:[^`]*?\n```text\n(.*?)```)?", re.S)
_VARIABLE = (
    (re.compile(r"\d+\.\d s\b"), "N s"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"^(no fault in the sample): .*$", re.M), r"\1"),
    (re.compile(r"^\d+ +(\d)(?=  )", re.M), r"ID \1"),
)


def plain(text: str) -> str:
    for pattern, word in _VARIABLE:
        text = pattern.sub(word, text)
    return text


@pytest.mark.long_on_kafka
def test_the_guide_prints_what_it_shows(broker_factory: Callable[..., Broker], tmp_path: Path) -> None:
    broker = broker_factory()
    kwire = tmp_path / "kwire"
    kwire.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kwire "$@"\n')
    kwire.chmod(0o755)
    environment = {
        **os.environ,
        "KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    blocks = _BLOCK.findall((ROOT / "docs" / "AUDIT.md").read_text(encoding="utf-8"))
    ran = [(commands, shown) for commands, shown in blocks if "pip install" not in commands]
    assert len(ran) >= 7
    for commands, shown in ran:
        text = commands.replace("localhost:9092", broker.bootstrap)
        done = subprocess.run(
            ["sh", "-ec", text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), f"{commands}\n{done.stderr}"
        if shown:
            assert plain(done.stdout) == plain(shown), commands
    assert json.loads((tmp_path / "report.json").read_text())[0]["faults"] == {"duplicate": 1}
    assert "faults found" in (tmp_path / "report.html").read_text()
