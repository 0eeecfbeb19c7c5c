"""``scripts/bench``: kwire beside Apache Kafka on this machine.

Both brokers are started, warmed up and measured in turns, workload by workload; the order changes from round to round.
Printed: the best round and the median of each line, what kwire has of Kafka's value (ratios of the best rounds, which
hang least on what else the machine does), and which bounds are kept. Progress goes to standard error. The exit status
is 1 when a workload failed; a bound that is missed is told, and no failure.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.kafka_jars import KAFKA_VERSION, cache_root, why_no_java
from tools.benchmark import extras, generator, picture, results, workloads
from tools.benchmark.results import KINDS, Line
from tools.benchmark.targets import Target
from tools.benchmark.workloads import Workload

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
QUICK_SCALE = 0.25


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--rounds", type=int, default=1, help="a round is about eight minutes (default: 1)")
    parser.add_argument("--only", action="append", metavar="KEY", help="only workloads whose key begins so; repeat it")
    parser.add_argument("--quick", action="store_true", help="a quarter of the work: for a first look")
    parser.add_argument("--scale", type=float, help="this much of the work (1: all)")
    parser.add_argument("--broker", choices=("both", *KINDS), default="both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the picture")
    parser.add_argument("--text", type=Path, metavar="FILE", help="write the table as well")
    parser.add_argument(
        "--record", action="store_true", help="write docs/benchmark.{txt,json,svg} (or, with --curves, docs/curves.txt)"
    )
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: the temporary directory)")
    parser.add_argument("--list", action="store_true", help="the workloads and their keys")
    parser.add_argument(
        "--curves", nargs="*", metavar="CURVE", help="measure how kwire's costs grow instead; see --list"
    )
    parser.add_argument("--micro", action="store_true", help="time codec, append and fetch inside one process instead")
    return parser.parse_args()


class Run:
    """One run of the benchmark."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.scale = asked.scale or (QUICK_SCALE if asked.quick else 1.0)
        self.kinds = list(KINDS) if asked.broker == "both" else [asked.broker]
        self.together = [each for each in workloads.throughput() + extras.tools() if self._wanted(each)]
        self.alone = [each for each in extras.alone() if self._wanted(each)]
        self.lines = {each.key: Line(each) for each in self.together + self.alone}
        self.done = 0
        self.started = time.monotonic()

    def _wanted(self, workload: Workload) -> bool:
        return not self.asked.only or any(workload.key.startswith(prefix) for prefix in self.asked.only)

    def work(self) -> None:
        generator.generator()
        for number in range(self.asked.rounds):
            order = self.kinds if number % 2 == 0 else self.kinds[::-1]
            self._round(number, order)

    def _round(self, number: int, order: list[str]) -> None:
        for workload in self.alone:
            for kind in order:
                with ExitStack() as stack:
                    target = stack.enter_context(extras.fresh(kind))
                    self._measure(workload, target, number)
        if not self.together:
            return
        home = Path(tempfile.mkdtemp(prefix="kwire-bench-", dir=self.asked.dir))
        targets = {kind: Target(kind, home / kind) for kind in order}
        try:
            for target in targets.values():
                target.start()
                say(f"warming up {target.kind} ...")
                warm_up(target, self.scale)
            for workload in self.together:
                for target in targets.values():
                    self._measure(workload, target, number)
        finally:
            for target in targets.values():
                target.broker.kill()
            shutil.rmtree(home, ignore_errors=True)

    def _measure(self, workload: Workload, target: Target, number: int) -> None:
        line = self.lines[workload.key]
        self.done += 1
        total = (len(self.together) + len(self.alone)) * len(self.kinds) * self.asked.rounds
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


def warm_up(target: Target, scale: float) -> None:
    """Every path once at length: a JVM compiles what it runs often."""
    for make in (workloads.Produce(), workloads.Produce(batch=128 * 1024), workloads.Consume(partitions=6)):
        make(target, scale)
    workloads.OneRecord(50, 40_000)(target, scale)
    workloads.OpenLoop(1000, 1)(target, 1)


def machine() -> dict[str, Any]:
    model = next(
        (
            row.partition(":")[2].strip()
            for row in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in row
        ),
        platform.processor(),
    )
    return {
        "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.release(),
        "python": platform.python_version(),
        "kafka": KAFKA_VERSION,
        "load_average": os.getloadavg(),
    }


def report(run: Run, facts: dict[str, Any]) -> int:
    lines = [line for line in run.lines.values() if line.rounds["kwire"] or line.rounds["kafka"] or line.failures]
    words = (
        f"kwire beside Apache Kafka {KAFKA_VERSION}; {facts['cores']} cores ({facts['cpu']}), {facts['when']}, "
        f"{run.asked.rounds} round{'s' if run.asked.rounds > 1 else ''}; "
        f"load average before {facts['load_average'][0]:.1f}\n"
        "CPU: the broker's processor time, per million records or per request\n\n"
    )
    text = words + results.text_table(lines) + "\n" + results.verdict_table(lines)
    print(text)
    if run.asked.text:
        run.asked.text.write_text(text)
    if run.asked.json:
        run.asked.json.write_text(results.as_json(lines, facts) + "\n")
    if run.asked.svg:
        footnote = f"{facts['cores']} cores, best of {run.asked.rounds} rounds, {facts['when'][:10]}: scripts/bench"
        run.asked.svg.write_text(picture.svg(lines, footnote))
    return 1 if any(line.failures for line in lines) else 0


def show_list() -> None:
    from tools.benchmark.curves import CURVES

    for workload in workloads.throughput() + extras.tools() + extras.alone():
        print(f"{workload.key:20} {workload.group}: {workload.title}")
    for name, curve in CURVES.items():
        print(f"--curves {name:11} {curve.__doc__}")


def compiled_modules() -> None:
    """Let the brokers find their modules compiled, as after an installation, whatever the environment here says."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(cache_root() / "compiled")


def main() -> int:
    asked = arguments()
    compiled_modules()
    if asked.record:
        asked.text = asked.text or DOCS / ("curves.txt" if asked.curves is not None else "benchmark.txt")
        asked.json = asked.json or DOCS / "benchmark.json"
        asked.svg = asked.svg or DOCS / "benchmark.svg"
    if asked.list:
        show_list()
        return 0
    other: Callable[[], int] | None = None
    if asked.micro:
        from tools.benchmark.micro import main as other
    elif asked.curves is not None:
        from tools.benchmark import curves

        return curves.main(asked.curves, asked.text)
    if other is not None:
        return other()
    reason = why_no_java()
    if reason and asked.broker != "kwire":
        say(f"Apache Kafka {reason}: --broker kwire measures kwire alone")
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was begun is cleared away
    facts = machine()
    run = Run(asked)
    run.work()
    return report(run, facts)


if __name__ == "__main__":
    sys.exit(main())
