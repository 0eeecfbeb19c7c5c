"""`Standalone`: a Spark cluster of a master and two workers, whose executors are processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.paths import ROOT
from harness.processes.brokers import wait_until
from harness.processes.ports import free_port

HOSTS: Final = ("127.0.0.2", "127.0.0.3")
"""The addresses of the workers: Spark runs the second attempt of a task on another host."""


class Standalone:
    """The cluster. Each worker has one core, and so one executor of an application."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self._program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.port = free_port()
        self.master = f"spark://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start all three; returns when the master knows both workers."""
        self._run("master", "Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        for host in HOSTS:
            words = ["--host", host, "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            self._run(f"worker-{host}", "Worker", *words, "--work-dir", str(self._folder / host), self.master)
        log = self._folder / "master.log"
        wait_until(lambda: log.read_text().count("Registering worker") == len(HOSTS), 120, "two workers")

    def stop(self) -> None:
        """Kill them, and with the workers their executors."""
        for each in self._processes:
            os.killpg(each.pid, signal.SIGKILL)
            each.wait()

    def _run(self, name: str, kind: str, *words: str) -> None:
        command = [self._program, f"org.apache.spark.deploy.{kind.lower()}.{kind}", *words]
        environment = {**os.environ, "SPARK_LOCAL_DIRS": str(self._folder), "SPARK_DAEMON_MEMORY": "256m"}
        with open(self._folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self._folder, env=environment, start_new_session=True
            )
        self._processes.append(process)


@contextmanager
def running_cluster(folder: Path) -> Iterator[Standalone]:
    """A cluster that is killed at the end."""
    cluster = Standalone(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def run_program(module: str, *arguments: str, folder: Path) -> str:
    """Run a Spark program of the tests as a process of its own; what it prints. Its errors are in the failure."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_PYTHON": sys.executable,  # of the executors
    }
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def hosts_of_tasks(lines: Iterable[str]) -> dict[str, set[str]]:
    """Where the attempts of each group's tasks ran, by Spark's log of events, whether they counted or were killed."""
    groups: dict[int, str] = {}
    found: dict[str, set[str]] = defaultdict(set)
    for event in map(json.loads, lines):
        if event["Event"] == "SparkListenerJobStart":
            groups |= dict.fromkeys(event["Stage IDs"], event["Properties"].get("spark.jobGroup.id", ""))
        elif event["Event"] == "SparkListenerTaskEnd":
            found[groups[event["Stage ID"]]].add(event["Task Info"]["Host"])
    return found
