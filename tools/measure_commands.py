"""Measure how long commands take, process start included.

    .venv/bin/python -m tools.measure_commands [--rounds 10] [--topics 10000]

A broker runs meanwhile. Modules are compiled beforehand, as `pip install` does. Each figure is the median of all
rounds; the exit status is 1 if one is above its limit.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.processes.brokers import make_broker
from tools.measure_startup import COMPILED, compiled_environment

HELP_S_MAX = 0.06
LIST_S_MAX = 0.25
MANY_S_MAX = 2.0
_BATCH = 1000


def seconds(rounds: int, *arguments: str) -> float:
    """The median time of a command."""
    environment = compiled_environment(COMPILED)
    command = [sys.executable, "-m", "kwire", *arguments]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)  # compiles
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


@contextmanager
def broker_with(topics: int) -> Iterator[str]:
    """The address of a broker with topics of one partition."""
    with tempfile.TemporaryDirectory() as home:
        broker = make_broker("kwire", Path(home))
        broker.start()
        try:
            for start in range(0, topics, _BATCH):
                names = [f"topic-{index}" for index in range(start, min(start + _BATCH, topics))]
                command = [sys.executable, "-m", "kwire", "topic", "create", "-b", broker.bootstrap, "--timeout", "120"]
                subprocess.run([*command, *names], stdout=subprocess.DEVNULL, check=True)
            yield broker.bootstrap
        finally:
            broker.stop()


def main() -> int:
    """Measure and print; 1 if a limit is exceeded."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--topics", type=int, default=10_000)
    arguments = parser.parse_args()
    figures = [(f"kwire {words} --help", HELP_S_MAX, seconds(arguments.rounds, *words.split(), "--help"))
               for words in ("topic", "topic create", "consume", "group")]  # fmt: skip
    with broker_with(1) as address:
        figures.append(("kwire topic list", LIST_S_MAX, seconds(arguments.rounds, "topic", "list", "-b", address)))
    with broker_with(arguments.topics) as address:
        for output in ("table", "json"):
            words = ["topic", "list", "-b", address, "-o", output]
            name = f"kwire topic list -o {output}, {arguments.topics:,} topics"
            figures.append((name, MANY_S_MAX, seconds(arguments.rounds, *words)))
    for name, limit, taken in figures:
        print(f"{name:45} {taken * 1000:7.0f} ms   (at most {limit * 1000:.0f})")
    return int(any(taken > limit for _, limit, taken in figures))


if __name__ == "__main__":
    sys.exit(main())
