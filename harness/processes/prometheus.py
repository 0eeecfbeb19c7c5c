"""A Prometheus server, from Debian's package: it is unpacked into the cache, not installed, so that no service starts.

What lives elsewhere: what it scrapes (`kwire.metrics`), and the rules and the dashboard for it (``monitoring/``).
"""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from harness.downloads import why_not_unpacked
from harness.kafka_jars import cache_root
from harness.processes.brokers import wait_for, wait_until
from harness.processes.ports import free_port

PACKAGE: Final = "prometheus"
STOP_S: Final = 20


@cache
def why_no_prometheus() -> str | None:
    """What is missing, by name; None if Prometheus is there."""
    if (_folder() / "usr/bin/prometheus").exists():
        return None
    return why_not_unpacked(_folder(), PACKAGE, lambda: [PACKAGE])


def _folder() -> Path:
    return cache_root() / PACKAGE


def program() -> Path:
    """The server's program."""
    return _folder() / "usr/bin/prometheus"


def promtool(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run promtool."""
    command = [str(_folder() / "usr/bin/promtool"), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60)


class Prometheus:
    """A running server. ``query("up")`` gives the samples of an instant."""

    def __init__(self, address: str) -> None:
        self.address = address

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression, now. HTTPError for one that is wrong."""
        answer = self._get("/api/v1/query", query=expression)
        samples: list[dict[str, Any]] = answer["data"]["result"]
        return samples

    def await_data(self, expression: str) -> None:
        """Wait until an expression has samples: series have none after a scrape that was late, until the next one."""
        wait_until(lambda: self.query(expression), 60, expression, 0.2)

    def await_value(self, expression: str, value: float) -> None:
        """Wait until the only sample of an expression has this value."""

        def values() -> list[float]:
            return [float(sample["value"][1]) for sample in self.query(expression)]

        wait_for(values, lambda found: found == [value], 60, f"{expression} == {value}", 0.2)

    def rules(self) -> list[dict[str, Any]]:
        """The alert rules, with ``health`` and ``lastError``."""
        return [rule for group in self._get("/api/v1/rules")["data"]["groups"] for rule in group["rules"]]

    def is_ready(self) -> bool:
        """Whether it serves queries."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=10) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"http://{self.address}{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=60) as response:
            return json.load(response)


@contextmanager
def prometheus(home: Path, configuration: str) -> Iterator[Prometheus]:
    """A server with this configuration (YAML), on loopback; its data is in ``home``."""
    home.mkdir(parents=True, exist_ok=True)
    file = home / "prometheus.yml"
    file.write_text(configuration)
    address = f"127.0.0.1:{free_port()}"
    command = [str(_folder() / "usr/bin/prometheus"), f"--config.file={file}", f"--storage.tsdb.path={home / 'data'}"]
    command += [f"--web.listen-address={address}", "--log.level=warn"]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        server = Prometheus(address)
        wait_until(lambda: process.poll() is not None or server.is_ready(), 60, "Prometheus")
        assert process.poll() is None, (home / "log").read_text()
        yield server
    finally:
        process.terminate()
        process.wait(STOP_S)
