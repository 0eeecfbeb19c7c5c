"""A user's project: its own virtual environment, ``pip install`` of kwire and a client, three tests with the fixtures.

The project is the one in examples/pytest_project, as it is. docs/TESTING.md promises
that pytest takes less than three seconds there, without the installation. Other tests run at the same time; a loop of
known work, run in the same minute, measures how much they slow this one down, and the limit allows for it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.downloads import downloaded
from harness.paths import ROOT

EXAMPLE = ROOT / "examples" / "pytest_project"
ALLOWED_S = 3.0
RUNS = 3


class Project:
    """A copy of the example, with the Python of its virtual environment."""

    def __init__(self, directory: Path, python: Path) -> None:
        self.directory = directory
        self.python = python

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        left_out = ("PYTEST_", "PYTHON", "VIRTUAL_ENV", "KAFKA_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        command = [str(self.python), *arguments]
        return subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True, timeout=600, check=False
        )


@pytest.fixture(scope="module")
def project(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Project:
    _, wheel = distributions
    home = tmp_path_factory.mktemp("project")
    shutil.copytree(EXAMPLE, home / "orders", ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
    python = home / "venv" / "bin" / "python"
    requirements = home / "orders" / "requirements.txt"
    text = requirements.read_text().replace("\nkwire\n", f"\nkwire @ {wheel.as_uri()}\n")
    assert str(wheel) in text
    requirements.write_text(text)
    started = time.monotonic()
    downloaded("pip install", [str(python), "-m", "pip", "install", "-q", "-r", str(requirements)])
    print(f"pip install: {time.monotonic() - started:.1f} s")
    return Project(home / "orders", python)


def slowness() -> float:
    """Elapsed time divided by processor time of a busy process on this machine, now: 1.0 without other work."""
    program = "import time\nwhile time.process_time() < 0.5: sum(range(1000))"
    started, spent = time.monotonic(), os.times()
    subprocess.run([sys.executable, "-S", "-c", program], check=True, timeout=60)
    wall_s, now = time.monotonic() - started, os.times()
    cpu_s = now.children_user + now.children_system - spent.children_user - spent.children_system
    return max(1.0, wall_s / cpu_s)


@pytest.mark.timeout(900)
def test_three_tests_take_less_than_three_seconds(project: Project) -> None:
    times = []
    for _ in range(RUNS):
        before = slowness()
        done = project.run("-m", "pytest", "-q")
        factor = (before + slowness()) / 2
        assert done.returncode == 0, done.stdout + done.stderr
        summary = re.search(r"3 passed.* in ([0-9.]+)s", done.stdout)
        assert summary is not None, done.stdout
        times.append((float(summary[1]), factor))
    print(
        "pytest's time: "
        + ", ".join(f"{seconds:.2f} s (machine slowed {factor:.1f} times)" for seconds, factor in times)
    )
    assert min(seconds / factor for seconds, factor in times) < ALLOWED_S


def test_the_plugin_costs_nothing_where_it_is_not_used(project: Project) -> None:
    """pytest loads the plugin in every project that has kwire installed."""
    program = (
        "import pytest, sys, time\n"
        "before = set(sys.modules)\n"
        "started = time.perf_counter()\n"
        "import kwire.testing.pytest_plugin\n"
        "print(round((time.perf_counter() - started) * 1000, 1), *sorted(set(sys.modules) - before))\n"
    )
    done = project.run("-c", program)
    assert done.returncode == 0, done.stderr
    milliseconds, *modules = done.stdout.split()
    print(f"importing the plugin: {milliseconds} ms")
    assert modules == ["kwire", "kwire.testing", "kwire.testing.factories", "kwire.testing.pytest_plugin"]


def test_the_command_is_installed_with_it(project: Project) -> None:
    done = project.run("-m", "kwire", "--version")
    assert re.fullmatch(r"kwire \d+\.\d+\.\d+\n", done.stdout), done
