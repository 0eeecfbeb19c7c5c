"""The kwire command as a process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.waiting import PATIENCE_S

READY = re.compile(r"kwire ready bootstrap=(\S+):(\d+) pid=(\d+)\n")


class Command:
    """Runs ``kwire``; what is still running at the end of the test is killed."""

    def __init__(self, directory: Path, compiled: Path) -> None:
        self.directory = directory
        self._compiled = compiled
        self.processes: list[subprocess.Popen[str]] = []

    def environment(self, **variables: str) -> dict[str, str]:
        left_out = ("KAFKA_", "CLUSTER_ID", "PYTHONDONTWRITEBYTECODE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        return {**kept, "PYTHONPYCACHEPREFIX": str(self._compiled), **variables}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "kwire", *arguments],
            cwd=self.directory,
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def start(self, *arguments: str, **variables: str) -> Process:
        return self.start_python("-m", "kwire", "start", *arguments, **variables)

    def start_python(self, *arguments: str, **variables: str) -> Process:
        return Process(self.popen(*arguments, **variables))

    def popen(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """A Python whose ready line is not waited for."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.directory,
            env=self.environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process


class Process:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.line = process.stdout.readline()
        match = READY.fullmatch(self.line)
        assert match is not None, (self.line, process.communicate(timeout=PATIENCE_S))
        self.host = match[1]
        self.port = int(match[2])
        assert int(match[3]) == process.pid

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> tuple[str, str]:
        """End it in good order; what else it wrote on standard output, and on standard error."""
        self.process.terminate()
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, err
        return out, err


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the started processes keep their compiled modules, so that only the first one has to compile them."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def kwire_command(tmp_path: Path, compiled: Path) -> Iterator[Command]:
    """The ``kwire`` command; the fixture named ``kwire`` is that of kwire's own pytest plugin."""
    command = Command(tmp_path, compiled)
    yield command
    for process in command.processes:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
