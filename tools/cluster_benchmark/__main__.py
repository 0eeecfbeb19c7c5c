"""Three kwire brokers beside three of Apache Kafka on this machine: failover, throughput, thousands of partitions.

    python -m tools.cluster_benchmark [--only PART] [--store embedded|zookeeper|both] [--rounds N] [--record]

One cluster runs at a time, in turns, and the order changes from round to round; values are medians of the rounds. The
modules of `tools/cluster_benchmark` describe the measurements. Progress goes to standard error, the table to standard
output. The exit status is 1 if a measurement failed; a missed goal is reported, but is no failure.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.kafka_jars import KAFKA_VERSION, why_no_java
from harness.paths import ROOT
from harness.processes.clusters import EMBEDDED, KAFKA, ZOOKEEPER
from tools.benchmark import generator
from tools.benchmark.machine import compiled_modules, machine
from tools.cluster_benchmark import failover, partitions, throughput
from tools.cluster_benchmark.report import Results

PARTS = ("failover", "throughput", "partitions")
STORES = {"embedded": [EMBEDDED], "zookeeper": [ZOOKEEPER], "both": [EMBEDDED, ZOOKEEPER]}
DOCS = ROOT / "docs"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.cluster_benchmark", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part (repeatable)")
    parser.add_argument("--store", choices=STORES, default="both", help="kwire's metadata store (default: both)")
    parser.add_argument("--broker", choices=("both", "kwire", "kafka"), default="both")
    parser.add_argument("--rounds", type=int, default=1)
    workloads = list(throughput.WORKLOADS)
    parser.add_argument(
        "--workloads", nargs="*", choices=workloads, default=workloads, help="workloads of the throughput part"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="share of the throughput part's load (1: all)")
    parser.add_argument("--clients", nargs="*", choices=failover.CLIENTS, default=list(failover.CLIENTS))
    parser.add_argument("--timeouts", nargs="*", choices=failover.TIMEOUTS, default=list(failover.TIMEOUTS))
    parser.add_argument("--partitions", nargs="*", type=int, default=[0, 2000, 10_000], metavar="N")
    parser.add_argument("--text", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--record", action="store_true", help="write docs/cluster_benchmark.txt and .json")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: the temporary directory)")
    return parser.parse_args(words)


class Run:
    """One run. Each turn is one cluster of one kind, started for it and ended after it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.kinds = [] if options.broker == "kafka" else list(STORES[options.store])
        if options.broker != "kwire":
            self.kinds.append(KAFKA)
        self.results = Results(self.kinds)
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        """Write a line of progress to standard error, with the seconds since the start."""
        print(f"[{time.monotonic() - self._begun:5.0f} s] {text}", file=sys.stderr, flush=True)

    def work(self) -> None:
        """Run all parts in all rounds; the order of the brokers alternates."""
        for number in range(self.options.rounds):
            kinds = self.kinds if number % 2 == 0 else self.kinds[::-1]
            for part in self.options.only or PARTS:
                getattr(self, f"_{part}")(kinds)

    def _failover(self, kinds: list[str]) -> None:
        for timeouts in self.options.timeouts:
            for kind in kinds:
                with self._turn(f"failover, {timeouts}", kind) as home:
                    for facts in failover.measure(kind, home, timeouts, self.options.clients, self.say):
                        self.results.add(self.results.failover, timeouts, kind, facts)

    def _throughput(self, kinds: list[str]) -> None:
        generator.generator()
        for kind in kinds:
            with self._turn("throughput", kind) as home:
                for key, facts in self._load(kind, home):
                    self.results.add(self.results.throughput, key, kind, facts)

    def _load(self, kind: str, home: Path) -> Iterable[tuple[str, throughput.Facts]]:
        return throughput.measure(kind, home, self.options.workloads, self.options.scale, self.say).items()

    def _partitions(self, kinds: list[str]) -> None:
        for count in self.options.partitions:
            for kind in kinds:
                with self._turn(f"{count} partitions", kind) as home:
                    facts = partitions.measure(kind, home, count, self.say)
                    self.results.add(self.results.partitions, str(count), kind, facts)

    @contextlib.contextmanager
    def _turn(self, what: str, kind: str) -> Iterator[Path]:
        """A directory for a cluster. A failure is reported, and the other turns go on."""
        self.say(f"{what}: {kind} ...")
        with tempfile.TemporaryDirectory(
            prefix="kwire-cluster-", dir=self.options.dir, ignore_cleanup_errors=True
        ) as home:
            try:
                yield Path(home)
            except Exception as error:
                self.results.failures.append(f"{what}: {kind}: {str(error) or repr(error)}"[:1000])
                self.say(f"{what}: {kind}: FAILED: {error!r}")


def allow_many_files() -> None:
    """Raise the limit of open files: Apache Kafka keeps a file open for every partition."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in (100_000, most):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(limit, most)))
            return


def report(run: Run, facts: dict[str, Any]) -> int:
    """Print and write the results; 1 if a measurement failed."""
    words = (
        f"Three kwire brokers beside three of Apache Kafka {KAFKA_VERSION}; {facts['cores']} cores ({facts['cpu']}), "
        f"{facts['when']}, {run.options.rounds} round{'s' if run.options.rounds > 1 else ''}; "
        f"load average before {facts['load_average'][0]:.1f}\n\n"
    )
    text = words + run.results.text()
    print(text)
    if run.options.text:
        run.options.text.write_text(text)
    if run.options.json:
        run.options.json.write_text(run.results.json(facts) + "\n")
    return 1 if run.results.failures else 0


def main(words: list[str] | None = None) -> int:
    """The command line; 1 if a measurement failed."""
    options = arguments(words)
    if options.record:
        options.text = options.text or DOCS / "cluster_benchmark.txt"
        options.json = options.json or DOCS / "cluster_benchmark.json"
    compiled_modules()
    allow_many_files()
    reason = why_no_java()
    run = Run(options)
    needs_java = run.kinds != [EMBEDDED] or (failover.JAVA in options.clients and "failover" in (options.only or PARTS))
    if reason and needs_java:
        print(f"Apache Kafka, ZooKeeper and the Java client {reason}", file=sys.stderr)
        return 1
    facts = machine()
    run.work()
    return report(run, facts)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was begun is cleared away
    sys.exit(main())
