"""The documents are correct: the README's first client, the table of API versions, the table of suites."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from harness.paths import ROOT
from harness.processes.brokers import Broker
from tools.compat_table import COMPAT, SUITES_END, SUITES_START, advertised, put, render_suites, suites, written


def first_client() -> str:
    """The shell text under "A first client"."""
    section = (ROOT / "README.md").read_text().partition("## A first client")[2]
    match = re.search(r"```sh\n(.*?)```", section, re.S)
    assert match is not None, "README.md shows no first client"
    return match[1]


def test_the_first_client_of_the_readme_works_as_it_is_pasted(broker: Broker, tmp_path: Path) -> None:
    text = first_client()
    assert "localhost:9092" in text and text.count("\n") <= 6
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    text = text.replace("localhost:9092", broker.bootstrap)  # a test cannot use the default port
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        ["sh", "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "b'hello'\n"), done.stderr


def test_the_table_of_api_versions_is_what_the_brokers_advertise(broker: Broker) -> None:
    column = {"kafka": "Kafka 4.3", "kwire": "kwire"}[broker.kind]
    assert written(column) == advertised(broker.bootstrap)


def test_the_table_of_suites_is_what_their_runs_recorded() -> None:
    text = COMPAT.read_text()
    assert put(text, SUITES_START, SUITES_END, render_suites(suites())) == text, "run tools/compat_table.py --suites"


def test_a_suite_on_its_way_is_shown_with_what_is_red_and_what_was_skipped() -> None:
    result = {
        "suite": "A suite",
        "version": "1",
        "kafka": {"version": "4.3.1", "passed": 2, "failed": 0, "skipped": 1, "date": "2026-11-21"},
        "red": [{"test": "b", "reason": "why"}],
        "skipped": [{"test": "c", "reason": "needs more"}],
        "tests": {"b": {"kafka": "passed", "kwire": "failed"}, "c": {"kafka": "skipped"}},
    }
    lines = render_suites([result]).splitlines()
    assert lines[2] == "| A suite | 1 | 2 / 0 / 1 | not run | - |"
    assert lines[-2:] == [
        "- A suite: `b` (kafka passed, kwire failed): why",
        "- A suite: `c` (kafka skipped): needs more",
    ]
