"""``scripts/bench``: kwire beside Apache Kafka on this machine.

Both brokers, and the floor (a C server that only makes the system calls a broker cannot avoid), are started, warmed up
and measured in turns, workload by workload; the order changes from round to round.
Printed: the best round and the median of each line, kwire's value over Kafka's (of the best rounds, which depend least
on other work of the machine), and which bounds are kept. Progress goes to standard error. The exit status is 1 if a
workload failed; a missed bound is reported, but is no failure.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.kafka_jars import KAFKA_VERSION, why_no_java
from harness.paths import ROOT
from harness.processor.scheduling import without_groups
from tools.benchmark import extras, generator, picture, results, workloads
from tools.benchmark.floor import FLOOR
from tools.benchmark.machine import compiled_modules, machine
from tools.benchmark.results import ALL_KINDS, Line
from tools.benchmark.setups import cores, guarded, secured
from tools.benchmark.targets import Target
from tools.benchmark.workloads import Workload

DOCS = ROOT / "docs"
QUICK_SCALE = 0.25


def say(text: str) -> None:
    """Print a line of progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--rounds", type=int, default=1, help="a round is about eight minutes (default: 1)")
    parser.add_argument(
        "--only", action="append", metavar="KEY", help="only workloads whose key begins with KEY (repeatable)"
    )
    parser.add_argument("--quick", action="store_true", help="a quarter of the work: for a first look")
    parser.add_argument("--scale", type=float, help="share of the work (1: all)")
    parser.add_argument("--broker", choices=("both", *ALL_KINDS), default="both", help="default: both, and the floor")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the picture")
    parser.add_argument("--text", type=Path, metavar="FILE", help="write the table as well")
    parser.add_argument(
        "--record",
        action="store_true",
        help="write docs/benchmark.{txt,json,svg}, with --only only their lines of these workloads; with --curves "
        "docs/curves.txt",
    )
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: the temporary directory)")
    parser.add_argument("--list", action="store_true", help="list the workloads and their keys")
    parser.add_argument(
        "--curves", nargs="*", metavar="CURVE", help="measure how kwire's costs grow instead; see --list"
    )
    parser.add_argument("--micro", action="store_true", help="time codec, append and fetch inside one process instead")
    return parser.parse_args()


class Run:
    """One run of the benchmark."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.scale = options.scale or (QUICK_SCALE if options.quick else 1.0)
        self.kinds = list(ALL_KINDS) if options.broker == "both" else [options.broker]
        self.together = [each for each in workloads.throughput() + extras.tools() if self._wanted(each)]
        self.alone = [each for each in extras.alone() if self._wanted(each)]
        self.secured = [each for each in secured.secured() if self._wanted(each)]
        self.guarded = [each for each in guarded.guarded() if self._wanted(each)]
        self.cores = [each for each in cores.cores() if self._wanted(each)]
        lines = self.together + self.alone + self.cores + self.guarded + self.secured
        self.lines = {each.key: Line(each) for each in lines}
        self.done = 0
        self.started = time.monotonic()

    def _wanted(self, workload: Workload) -> bool:
        return not self.options.only or any(workload.key.startswith(prefix) for prefix in self.options.only)

    def work(self) -> None:
        """Run all rounds; the order of the brokers alternates."""
        generator.generator()
        if self.secured:
            generator.generator(tls=True)
        for number in range(self.options.rounds):
            order = self.kinds if number % 2 == 0 else self.kinds[::-1]
            self._round(number, order)

    def _round(self, number: int, order: list[str]) -> None:
        for workload in self.alone:
            for kind in _kinds(workload, order):
                with ExitStack() as stack:
                    stack.enter_context(without_groups())
                    target = stack.enter_context(extras.fresh(kind))
                    self._measure(workload, target, number)
        if self.together:
            self._on_both(self.together, number, order, extras.plain_target, warm_up)
        if any(not each.brokers for each in self.cores):
            lines = [each for each in self.cores if not each.brokers]
            self._on_both(lines, number, order, cores.cores_target, cores.warm_up)
        for workload in self.cores:
            if workload.brokers and "kwire" in order:
                with cores.running(workload.brokers) as target:
                    self._measure(workload, target, number)
        if self.guarded:
            self._on_both(self.guarded, number, _brokers(order), guarded.GuardedTarget, warm_up)
        if self.secured:
            self._on_both(self.secured, number, _brokers(order), secured.SecuredTarget, warm_up_secured)

    def _on_both(
        self,
        lines: list[Workload],
        number: int,
        order: list[str],
        target_of: Callable[[str, Path], Target],
        warmed: Callable[[Target, float], None],
    ) -> None:
        """Measure on brokers that stay up, first warmed up, in turns."""
        home = Path(tempfile.mkdtemp(prefix="kwire-bench-", dir=self.options.dir))
        targets = {kind: target_of(kind, home / kind) for kind in order}
        try:
            for target in targets.values():
                target.start()
                say(f"warming up {target.kind} ...")
                warmed(target, self.scale)
            for workload in lines:
                for target in targets.values():
                    if target.kind in _kinds(workload, order):
                        self._measure(workload, target, number)
        finally:
            for target in targets.values():
                target.broker.kill()
            shutil.rmtree(home, ignore_errors=True)

    def _measure(self, workload: Workload, target: Target, number: int) -> None:
        line = self.lines[workload.key]
        self.done += 1
        total = sum(len(_kinds(line.workload, self.kinds)) for line in self.lines.values()) * self.options.rounds
        place = f"[{self.done}/{total} {time.monotonic() - self.started:4.0f} s] {workload.group}: {workload.title}"
        try:
            facts = workload.measure(target, self.scale)
        except Exception as error:  # the others go on
            line.failures.append(f"round {number + 1}, {target.kind}: {error!r}")
            say(f"{place}: {target.kind} FAILED: {error!r}")
            return
        line.rounds[target.kind].append(facts)
        shown = [f"{name} {results.fact_text(name, value)}" for name, value in facts.items()]
        say(f"{place}: {target.kind}: {', '.join(shown)}")


def _kinds(workload: Workload, kinds: list[str]) -> list[str]:
    """On which of these kinds a workload is measured."""
    if workload.brokers:
        return [kind for kind in kinds if kind == "kwire"]
    return kinds if workload.on_floor else _brokers(kinds)


def _brokers(kinds: list[str]) -> list[str]:
    """The kinds without the floor, which only serves what the load generator sends."""
    return [kind for kind in kinds if kind != FLOOR]


def warm_up(target: Target, scale: float) -> None:
    """Run every path for a while: a JVM compiles what it runs often."""
    for make in (workloads.Produce(), workloads.Produce(batch=128 * 1024), workloads.Consume(partitions=6)):
        make(target, scale)
    workloads.OneRecord(50, 40_000)(target, scale)
    workloads.OpenLoop(1000, 1)(target, 1)


def warm_up_secured(target: Target, scale: float) -> None:
    """The same, and the paths of TLS."""
    warm_up(target, scale)
    secured.warm_up(target, scale)


def all_workloads() -> list[Workload]:
    """All workloads, in the order of the table."""
    return [
        *workloads.throughput(),
        *extras.tools(),
        *extras.alone(),
        *cores.cores(),
        *guarded.guarded(),
        *secured.secured(),
    ]


def report(run: Run, facts: dict[str, Any]) -> int:
    """Print and write the results; 1 if a workload failed."""
    measured = [line for line in run.lines.values() if any(line.rounds.values()) or line.failures]
    lines = measured
    if run.options.record and run.options.only:
        lines = with_recorded(measured, DOCS / "benchmark.json")
    for line in measured:
        line.when, line.cpu = facts["when"], facts["cpu"]
    rounds = max((len(found) for line in lines for found in line.rounds.values()), default=0)
    words = (
        f"kwire beside Apache Kafka {KAFKA_VERSION}; {facts['cores']} cores, {rounds} round{'s' if rounds > 1 else ''}"
        f", load average before {facts['load_average'][0]:.1f}\n"
        f"{results.machines(lines)}\n"
        "CPU: the broker's processor time, per million records or per request\n"
        "floor: that of a C server that only makes the system calls a broker cannot avoid, and how often each broker "
        "takes it\n\n"
    )
    text = words + results.text_table(lines) + "\n" + results.verdict_table(lines)
    print(text)
    if run.options.text:
        run.options.text.write_text(text)
    if run.options.json:
        run.options.json.write_text(results.as_json(lines, facts) + "\n")
    if run.options.svg:
        days = " to ".join(sorted({min(line.when[:10] for line in lines), max(line.when[:10] for line in lines)}))
        footnote = f"{facts['cores']} cores, best of {rounds} rounds, {days}: scripts/bench"
        run.options.svg.write_text(picture.svg(lines, footnote))
    return 1 if any(line.failures for line in measured) else 0


def with_recorded(measured: list[Line], record: Path) -> list[Line]:
    """The measured lines, and those of the record that were not measured now, in the order of the table."""
    known = {line.workload.key: line for line in results.recorded(record, all_workloads())}
    known |= {line.workload.key: line for line in measured}
    return [known[each.key] for each in all_workloads() if each.key in known]


def show_list() -> None:
    """Print the workloads and curves with their keys."""
    from tools.benchmark.curves import CURVES

    for workload in all_workloads():
        print(f"{workload.key:20} {workload.group}: {workload.title}")
    for name, curve in CURVES.items():
        print(f"--curves {name:11} {curve.__doc__}")


def main() -> int:
    """The command line; 1 if a workload failed."""
    options = arguments()
    compiled_modules()
    if options.record and options.curves is None:
        options.text = options.text or DOCS / "benchmark.txt"
        options.json = options.json or DOCS / "benchmark.json"
        options.svg = options.svg or DOCS / "benchmark.svg"
    if options.list:
        show_list()
        return 0
    other: Callable[[], int] | None = None
    if options.micro:
        from tools.benchmark.micro import main as other
    elif options.curves is not None:
        from tools.benchmark import curves

        return curves.main(options.curves, DOCS / "curves.txt" if options.record else options.text)
    if other is not None:
        return other()
    reason = why_no_java()
    if reason and options.broker in ("both", "kafka"):
        say(f"Apache Kafka {reason}: --broker kwire measures kwire alone")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was begun is cleared away
    facts = machine()
    run = Run(options)
    run.work()
    return report(run, facts)


if __name__ == "__main__":
    sys.exit(main())
