"""The module `test.service`, which kafka-python's fixtures import and its source package leaves out.

`ExternalService` is a running broker, whose address is in KAFKA_URI; most of the suite runs with it. `SpawnedService`
is a broker that a fixture starts itself, for SASL and TLS.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence

START_S = 120.0
_KWIRE_IS_READY = re.compile(r"^kwire ready ", re.M)


class ExternalService:
    """A running broker, started and stopped elsewhere."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def stop(self) -> None:
        """The broker is stopped elsewhere."""

    def dump_logs(self) -> None:
        """The broker's log is elsewhere."""


class SpawnedService:
    """A broker process that a fixture starts and ends."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._arguments = list(arguments)
        self._environment = environment
        self._output = tempfile.NamedTemporaryFile("w+", prefix="broker-", suffix=".log")  # noqa: SIM115
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, without waiting."""
        self._process = subprocess.Popen(
            self._arguments, env=self._environment, stdout=self._output, stderr=self._output, text=True
        )

    def wait_for(self, pattern: str, timeout: float = START_S) -> bool:
        """Wait until the output matches the pattern, or has kwire's ready line, at which all that the patterns stand
        for has happened; False if that does not come. The time is at least `START_S`: the caller's is for idle
        machines, and it repeats the start."""
        assert self._process is not None
        deadline = time.monotonic() + max(timeout, START_S)
        wanted = re.compile(pattern)
        while time.monotonic() < deadline:
            text = self._text()
            if wanted.search(text) or _KWIRE_IS_READY.search(text):
                return True
            if self._process.poll() is not None:
                return False
            time.sleep(0.05)
        return False

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_S)

    def dump_logs(self) -> None:
        """Print its output, which pytest shows for tests that fail."""
        print(self._text())

    def _text(self) -> str:
        with open(self._output.name, encoding="utf-8", errors="replace") as output:
            return output.read()
