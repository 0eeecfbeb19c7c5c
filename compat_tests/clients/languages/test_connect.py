"""A distributed Connect worker with a file source and a file sink, killed in between: every line arrives.

The source is exactly-once (KIP-618), so it uses transactions."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from compat_tests.names import Names
from compat_tests.reading import partition_values
from harness.kafka_jars import KAFKA_VERSION, java_command, kafka_classpath, maven_jars
from harness.processes.brokers import Broker, wait_until
from harness.processes.ports import free_port

pytestmark = pytest.mark.java
LINES = 300
PATIENCE_S = 300
"""A worker answers within seconds; on a busy machine it takes minutes."""

_CONNECTORS = ("org.apache.kafka", "connect-file", KAFKA_VERSION)


def file_connectors() -> Path:
    """The folder with the file connectors; Kafka's tools contain the worker itself."""
    what = f"Connect's file connectors {KAFKA_VERSION}"
    return maven_jars(f"connect-file-{KAFKA_VERSION}", what, [_CONNECTORS], "-DexcludeTransitive=true")


class Worker:
    """One Connect worker, the only one of its group; ``kill`` is SIGKILL. ``client``: properties of its Kafka clients,
    and of its connectors'."""

    def __init__(self, bootstrap: str, group: str, home: Path, client: Mapping[str, str] | None = None) -> None:
        self._port = free_port()
        self._log = home / "worker.log"
        self._properties = home / "worker.properties"
        self._process: subprocess.Popen[bytes] | None = None
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "listeners": f"http://127.0.0.1:{self._port}",
            "plugin.path": str(file_connectors()),
            "plugin.discovery": "service_load",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "500",
            # A killed worker leaves the group soon, and its tasks are reassigned at once.
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "1000",
            "rebalance.timeout.ms": "10000",
            "scheduled.rebalance.max.delay.ms": "0",
        }
        for kind in ("config", "offset", "status"):
            settings |= {f"{kind}.storage.topic": f"{group}-{kind}", f"{kind}.storage.replication.factor": "1"}
        settings |= {"offset.storage.partitions": "3", "status.storage.partitions": "2"}
        for name, value in (client or {}).items():
            settings |= {f"{prefix}{name}": value for prefix in ("", "producer.", "consumer.", "admin.")}
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def start(self) -> None:
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        path = f"{kafka_classpath()}:{file_connectors()}/*"
        command = java_command("-cp", path, main, str(self._properties), heap="384m")
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(lambda: self.ask("GET", "/connectors") is not None, PATIENCE_S, "the worker", interval_s=0.2)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self._log.read_text()[-3000:]}") from None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The worker's response; None while it does not respond."""
        address = f"http://127.0.0.1:{self._port}{path}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.loads(response.read() or b"{}")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def configure(self, name: str, config: dict[str, str]) -> None:
        """Create a connector and wait for its task; a worker that has just joined refuses requests for a while."""
        put = f"/connectors/{name}/config"
        wait_until(lambda: self.ask("PUT", put, config) is not None, PATIENCE_S, f"connector {name}", interval_s=0.2)
        self.await_running(name)

    def await_running(self, name: str) -> None:
        def running() -> bool:
            status = self.ask("GET", f"/connectors/{name}/status") or {"tasks": []}
            states = [each["state"] for each in status["tasks"]]
            assert "FAILED" not in states, status
            return states == ["RUNNING"]

        wait_until(running, PATIENCE_S, f"{name}'s task", interval_s=0.2)


@pytest.fixture
def worker(broker: Broker, new_name: Names, tmp_path: Path) -> Iterator[Worker]:
    made = Worker(broker.bootstrap, new_name("connect")[-40:], tmp_path)
    yield made
    made.kill()


@pytest.mark.long_on_kafka
def test_lines_of_a_file_arrive_once_in_the_topic_and_all_in_the_sink_over_a_kill(
    worker: Worker, broker: Broker, topic: str, tmp_path: Path
) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    append(source, 0, LINES)
    worker.start()
    file = {"tasks.max": "1", "file": str(source), "batch.size": "100"}
    worker.configure("lines-in", {**file, "connector.class": "FileStreamSource", "topic": topic})
    worker.configure("lines-out", {"connector.class": "FileStreamSink", "topics": topic, "file": str(sink)})
    wait_until(lambda: len(lines(sink)) >= LINES // 2, PATIENCE_S, "half of the lines in the sink")
    append(source, LINES, 2 * LINES)
    worker.kill()
    append(source, 2 * LINES, 3 * LINES)
    worker.start()
    wanted = [f"line {number}" for number in range(3 * LINES)]
    wait_until(lambda: set(lines(sink)) == set(wanted), PATIENCE_S, "every line in the sink")
    assert [value.decode() for value in partition_values(broker.bootstrap, topic)] == wanted


def append(path: Path, first: int, last: int) -> None:
    with open(path, "a") as file:
        file.writelines(f"line {number}\n" for number in range(first, last))


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
