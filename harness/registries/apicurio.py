"""Apicurio Registry, a registry of others with Confluent's REST interface, as a process with its data in memory.

Its application comes from Maven Central and is unpacked into the cache; it needs Java 21 or later (`newer_java`).
"""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from harness.processes.brokers import wait_until
from harness.processes.ports import free_port
from harness.registries.artifacts import artifacts
from harness.registries.newer_java import newer_java
from harness.registries.process import Answer, call

VERSION: Final = "3.3.3"
_START_S: Final = 120.0
_ATTEMPTS: Final = 5


def application() -> Path:
    """The folder with the application, fetched on first use. `JarsUnavailable`."""
    name = f"apicurio-registry-{VERSION}"
    return artifacts(name, f"Apicurio Registry {VERSION}", [f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"])


class Apicurio:
    """The process. ``url``: of Confluent's interface, version 7 of it."""

    def __init__(self) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        folder = application()
        command = [str(newer_java(21)), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"]
        command += ["-Dapicurio.rest.deletion.artifact.enabled=true", "-jar", str(folder / "quarkus-run.jar")]
        self.process = subprocess.Popen(command, cwd=folder, stdout=self._log, stderr=self._log)
        atexit.register(self.process.kill)
        try:
            wait_until(self._serves, _START_S, "Apicurio Registry")
        except BaseException:
            self.close()
            raise

    def _serves(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"Apicurio Registry ended: {self.log()[-2000:]}")
        try:
            return self.call("GET", "/subjects").status == 200
        except OSError:
            return False

    def call(self, method: str, path: str, body: object = None) -> Answer:
        """A request and what came back. Of requests for a route or method that it does not have, Apicurio answers one
        in 600 by closing the connection; it is asked again then."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return call(self.url, method, path, body)
            except ConnectionError:
                continue
        return call(self.url, method, path, body)

    def log(self) -> str:
        """What it has written."""
        number = self._log.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        self._log.close()
        atexit.unregister(self.process.kill)
