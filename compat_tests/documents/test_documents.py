"""The documents are correct: the README's first client, the table of API versions, the table of suites."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.names import Names
from harness.paths import ROOT
from harness.processes.brokers import Broker, make_broker
from tools.compat_table import COMPAT, SUITES_END, SUITES_START, advertised, put, render_suites, suites, written
from tools.recording import RECORDINGS, Recording, draw, drawn, record
from tools.reference.pages import FOLDER
from tools.reference.running import METRICS, listed, series

FETCHED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)=["']?((?:https?:)?//[^"' >]+)""")
"""What a page of the site fetches from another host."""


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


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_commands_print_what_is_shown(broker: Broker, new_name: Names, tmp_path: Path, page: str) -> None:
    found = re.search(r"```sh\n(.*?)```\n\n```text\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert found is not None, f"{page} shows no commands with their output"
    topic = new_name("orders")
    commands, shown = (text.replace("orders", topic) for text in found.groups())
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    kwire = tmp_path / ".venv" / "bin" / "kwire"
    kwire.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kwire "$@"\n')
    kwire.chmod(0o755)
    environment = {**os.environ, "KWIRE_BOOTSTRAP_SERVERS": broker.bootstrap}
    done = subprocess.run(
        ["sh", "-c", commands], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, sorted(shown.splitlines())), done.stderr


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda each: each.picture.stem)
def test_the_recording_shows_what_commands_print(tmp_path: Path, recording: Recording) -> None:
    broker = make_broker("kwire", tmp_path)
    broker.start()
    try:
        now = drawn(draw(record(broker, recording), recording.title))
    finally:
        broker.stop()
    before = drawn(recording.picture.read_text())
    assert sorted(map(without_ids, now)) == sorted(map(without_ids, before)), "run python -m tools.recording"


def without_ids(line: str) -> str:
    """A line of the recording without ids, and with single spaces: columns are as wide as an address."""
    return re.sub(r" +", " ", re.sub(r"\b[\w-]{22}(?!\S)", "ID", line))


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # a remark of mkdocs-material about its successor
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert {page.name for page in pages} >= {"index.html", "COMMANDS.html", "COMPAT.html"}
    fetched = {url for page in pages for url in FETCHED.findall(page.read_text(encoding="utf-8"))}
    assert fetched == set(), "a page fetches from another host"


def test_the_series_of_the_reference_are_served() -> None:
    page = (FOLDER / METRICS).read_text(encoding="utf-8")
    assert listed(page) - series().keys() == set(), "run python -m tools.reference --run"


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
