"""Measure the start-up time and idle memory of kwire, beside Apache Kafka in the same run.

    .venv/bin/python -m tools.measure_startup [--rounds 5] [--idle-seconds 3] [--no-kafka]

Both are ready when the group coordinator is available: kwire writes the ready line then, Kafka is polled. Every round
starts on an empty directory (Kafka's is formatted before; that time is shown separately), then again on the same one.
kwire's modules are compiled beforehand, as `pip install` does and as Kafka's jars are. Memory is the resident
set after some idle seconds. The exit status is 1 if kwire needs 0.5 s or 60 MB or more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from harness.inspection import process_usage
from harness.processes.brokers import KafkaBroker
from kwire.server.ready_line import ReadyLine

COMPILED = Path(tempfile.mkdtemp(prefix="kwire-compiled-"))
READY_S_MAX = 0.5
IDLE_MB_MAX = 60.0


class Measured(NamedTuple):
    """Seconds of both starts and of Kafka's formatting, and idle memory in MB (10^6 bytes)."""

    first_s: float
    again_s: float
    idle_mb: float
    format_s: float = 0.0


def compiled_environment(cache: Path) -> dict[str, str]:
    """An environment in which Python keeps compiled modules in the directory ``cache``."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": str(cache)}


def start_kwire(directory: Path) -> tuple[subprocess.Popen[str], float]:
    """Start kwire; return its process and the seconds to the ready line."""
    command = [sys.executable, "-m", "kwire", "start", "--listen", "127.0.0.1:0", "--data-dir", str(directory)]
    started = time.perf_counter()
    environment = compiled_environment(COMPILED)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    elapsed = time.perf_counter() - started
    ReadyLine.parse(line)
    return process, elapsed


def measure_kwire(home: Path, idle_s: float) -> Measured:
    """Start kwire twice: first start, second start and idle memory."""
    process, first_s = start_kwire(home / "data")
    time.sleep(idle_s)
    idle_mb = process_usage.resident_mb(process.pid)
    process.terminate()
    process.wait()
    process, again_s = start_kwire(home / "data")
    process.terminate()
    process.wait()
    return Measured(first_s, again_s, idle_mb)


def measure_kafka(home: Path, idle_s: float) -> Measured:
    """Start Apache Kafka twice: first start, second start and idle memory."""

    class Timed(KafkaBroker):
        format_s = 0.0

        def _format(self, properties: Path) -> None:
            started = time.perf_counter()
            super()._format(properties)
            self.format_s = time.perf_counter() - started

    broker = Timed(home)

    def timed_start() -> float:
        started = time.perf_counter()
        broker.start()
        return time.perf_counter() - started

    first_s = timed_start() - broker.format_s
    time.sleep(idle_s)
    idle_mb = process_usage.resident_mb(broker.pid)
    broker.stop()
    again_s = timed_start()
    broker.stop()
    return Measured(first_s, again_s, idle_mb, broker.format_s)


def rounds_of(measure: Callable[[Path, float], Measured], rounds: int, idle_s: float) -> list[Measured]:
    """Measure in fresh directories, once per round."""
    results = []
    for _ in range(rounds):
        home = Path(tempfile.mkdtemp(prefix="kwire-startup-"))
        try:
            results.append(measure(home, idle_s))
        finally:
            shutil.rmtree(home, ignore_errors=True)
    return results


def tell(name: str, results: list[Measured]) -> Measured:
    """Print medians and minima; return the medians."""
    median = Measured(*(statistics.median(column) for column in zip(*results, strict=True)))
    least = Measured(*(min(column) for column in zip(*results, strict=True)))
    line = (
        f"{name:14} empty directory to ready {median.first_s:6.3f} s (min {least.first_s:.3f}), "
        f"again {median.again_s:6.3f} s (min {least.again_s:.3f}), idle memory {median.idle_mb:6.1f} MB"
    )
    print(line + (f", format before {median.format_s:.2f} s" if median.format_s else ""), flush=True)
    return median


def main() -> int:
    """The command line; 1 if kwire misses a bound."""
    parser = argparse.ArgumentParser(description="Start to ready and idle memory, kwire beside Apache Kafka.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle-seconds", type=float, default=3.0)
    parser.add_argument("--no-kafka", action="store_true", help="measure kwire only")
    arguments = parser.parse_args()
    rounds_of(measure_kwire, 1, 0)  # compiles
    kwire = tell("kwire", rounds_of(measure_kwire, arguments.rounds, arguments.idle_seconds))
    if not arguments.no_kafka:
        tell("Apache Kafka", rounds_of(measure_kafka, max(1, arguments.rounds // 2), arguments.idle_seconds))
    kept = kwire.first_s < READY_S_MAX and kwire.again_s < READY_S_MAX and kwire.idle_mb < IDLE_MB_MAX
    print(f"kwire's bounds: under {READY_S_MAX} s and {IDLE_MB_MAX:.0f} MB: {'kept' if kept else 'MISSED'}")
    shutil.rmtree(COMPILED, ignore_errors=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
