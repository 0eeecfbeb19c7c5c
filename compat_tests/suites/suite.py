"""What the suites that other projects wrote for Apache Kafka have in common; here they run unmodified.

Each suite is a package with the same files:

* `__main__.py`: the command ``python -m compat_tests.suites.NAME [--broker kafka|kwire] [--record] [TEST ...]``.
* `suite.py`: how the suite is fetched, built and run.
* `test_suite.py`: the part of it, or all of it, that runs with the compatibility tests.
* `allowed.txt`: the tests that have passed on kwire and must continue to pass; the list only grows. Spark's suites have
  none, because each of their tests must end as on Apache Kafka.
* `findings.md`: its table rows ``| test | state | cause |`` explain every test that does not pass on both brokers.

The outcomes of the last recorded runs are in `compat_tests/suites/results/<suite>.json`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.kafka_jars import KAFKA_VERSION
from tools.compat_table import refresh_suites

RESULTS = Path(__file__).parent / "results"
STATES = ("passed", "failed", "skipped")
_OF_MANY = ("(the class)", "(the program)", "(the suite)")
_ROW = re.compile(r"^\| `(?P<test>[^`|]+)` \| (?P<state>[^|]*) \| (?P<cause>.*) \|$", re.M)


class CannotBuild(Exception):
    """A tool or a header that a suite needs is missing, or its build failed; the message says which."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test of a suite ended. ``state``: one of `STATES`; ``reason``: why it did not pass."""

    test: str
    state: str
    reason: str = ""
    seconds: float = 0.0

    @property
    def is_of_many(self) -> bool:
        """Whether this is no test but what ran many of them and failed: ``CLASS.(the class)``, ``(the program)``."""
        return self.test.endswith(_OF_MANY)


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of findings.md. A test whose ``state`` contains "unsteady" fails at times, on Apache Kafka as well."""

    state: str
    cause: str

    @property
    def unsteady(self) -> bool:
        """Whether the test fails at times on both brokers."""
        return "unsteady" in self.state


class Suite:
    """One suite, run in one way.

    ``name``: that of its results file; ``folder``: the suite's package; ``allowed``: the file there that lists the
    tests that must pass, None without such a list.
    """

    def __init__(self, name: str, title: str, version: str, folder: Path, allowed: str | None = "allowed.txt") -> None:
        self.name = name
        self.title = title
        self.version = version
        self.folder = folder
        self._allowed = None if allowed is None else folder / allowed
        self._results = RESULTS / f"{name}.json"

    def allowed(self) -> list[str]:
        """The tests that have passed on kwire and must continue to pass."""
        return self._allowed.read_text().split() if self._allowed is not None and self._allowed.exists() else []

    def findings(self) -> dict[str, Finding]:
        """The explained tests: those that do not pass on both brokers."""
        path = self.folder / "findings.md"
        rows = _ROW.finditer(path.read_text()) if path.exists() else ()
        return {row["test"]: Finding(row["state"].strip(), row["cause"].strip()) for row in rows}

    def recorded(self) -> dict[str, dict[str, str]]:
        """Test -> broker kind -> state, from the last recorded run on each kind."""
        recorded: dict[str, dict[str, str]] = self._read().get("tests", {})
        return recorded

    def compare(self, kind: str, outcomes: Iterable[Outcome]) -> list[str]:
        """Print the outcomes beside the recorded ones; return one line for each outcome that is wrong.

        On kwire the tests of `allowed` must pass, and a failure of any other test must be explained in findings.md. On
        Apache Kafka a test must end as recorded unless it is unsteady.
        """
        wrong = []
        recorded, findings, allowed = self.recorded(), self.findings(), set(self.allowed())
        unsteady = {test for test, finding in findings.items() if finding.unsteady}
        outcomes = list(outcomes)
        for one in outcomes:
            before = recorded.get(one.test, {})
            others = ", ".join(f"{name} {state}" for name, state in sorted(before.items()))
            print(f"{one.state:8} {one.seconds:7.1f} s  {one.test:60} [{others}] {one.reason}", flush=True)
            if kind == "kwire" and one.test in allowed and one.state != "passed":
                wrong.append(f"{one.test} has passed before: {one.state}: {one.reason}")
            elif one.state == "failed" and one.test not in findings:
                wrong.append(f"{one.test} failed and is not in findings.md: {one.reason}")
            elif kind == "kafka" and before.get(kind, one.state) != one.state and one.test not in unsteady:
                wrong.append(f"{one.test}: {one.state} on Apache Kafka, recorded was {before[kind]}")
        counts = {state: sum(one.state == state for one in outcomes) for state in STATES}
        print(f"{self.title} {self.version} on {kind}: " + ", ".join(f"{n} {state}" for state, n in counts.items()))
        return wrong

    def record(self, kind: str, outcomes: Iterable[Outcome]) -> None:
        """Write the outcomes into the results file and add the tests that passed on kwire, but for unsteady ones, to
        allowed.txt. The recorded outcomes of tests that were not run stay."""
        outcomes = list(outcomes)
        written = self._read()
        tests: dict[str, dict[str, str]] = written.get("tests", {})
        reasons: dict[str, str] = {each["test"]: each["reason"] for each in written.get("skipped", [])}
        for one in outcomes:
            tests.setdefault(one.test, {})[kind] = one.state
            if one.state == "skipped":
                reasons[one.test] = one.reason
        tests = dict(sorted(tests.items()))
        findings = self.findings()
        written |= {"suite": self.title, "version": self.version, kind: _side(kind, tests)}
        written["red"] = [
            {"test": test, "reason": findings[test].cause if test in findings else "not explained yet"}
            for test, states in tests.items()
            if "failed" in states.values()
        ]
        skipped = [test for test, states in tests.items() if "skipped" in states.values()]
        written["skipped"] = [{"test": test, "reason": reasons[test]} for test in skipped]
        written["tests"] = tests
        order = ("suite", "version", "kafka", "kwire", "red", "skipped", "tests")
        RESULTS.mkdir(exist_ok=True)
        self._results.write_text(json.dumps({key: written[key] for key in order if key in written}, indent=1) + "\n")
        if kind == "kwire" and self._allowed is not None:
            unsteady = {test for test, finding in findings.items() if finding.unsteady}
            passed = {one.test for one in outcomes if one.state == "passed" and one.test not in unsteady}
            self._allowed.write_text("".join(f"{test}\n" for test in sorted({*self.allowed(), *passed})))

    def _read(self) -> dict[str, Any]:
        if not self._results.exists():
            return {}
        written: dict[str, Any] = json.loads(self._results.read_text())
        return written


def second_attempt(
    outcomes: list[Outcome], expected: Iterable[str], run: Callable[[list[str]], list[Outcome]]
) -> list[Outcome]:
    """The outcomes after those of ``expected`` that have not passed, or were not run at all, have run once more.

    Some tests wait for a fixed time only, which is too short when the machine is busy. What has passed stays passed
    (``run`` may run more than it is given), and everything else is as in the second run.
    """
    passed = {one.test: one for one in outcomes if one.state == "passed"}
    missing = sorted(set(expected) - passed.keys())
    if not missing:
        return outcomes
    print(f"run again: {', '.join(missing)}", file=sys.stderr, flush=True)
    tests = {one.test: one for one in outcomes if not one.is_of_many}
    return list((tests | {one.test: one for one in run(missing)} | passed).values())


def _side(kind: str, tests: dict[str, dict[str, str]]) -> dict[str, object]:
    counts = {state: sum(states.get(kind) == state for states in tests.values()) for state in STATES}
    side: dict[str, object] = {**counts, "date": time.strftime("%Y-%m-%d")}
    if kind == "kafka":
        return {"version": KAFKA_VERSION, **side}
    command = ["git", "rev-parse", "--short", "HEAD"]
    head = subprocess.run(command, cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    return {**side, "commit": head.stdout.strip()}


def arguments(package: str, description: str) -> argparse.ArgumentParser:
    """The options that every suite's command has. ``package``: what ``python -m`` runs."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=description)
    parser.add_argument("--broker", choices=("kafka", "kwire"), default="kwire", help="which broker (default: kwire)")
    parser.add_argument("--record", action="store_true", help="write the outcomes to results/ and allowed.txt")
    parser.add_argument("tests", nargs="*", metavar="TEST", help="only these tests (default: all)")
    return parser


def carry_out(suite: Suite, kind: str, run: Callable[[], list[Outcome]], record: bool) -> int:
    """Run a suite, compare its outcomes and, with ``record``, write them down; returns the exit status of its command.

    The status is 1 if an outcome is wrong, if no test ran, or if the suite cannot be built.
    """
    try:
        outcomes = run()
    except CannotBuild as reason:
        print(reason, file=sys.stderr)
        return 1
    wrong = suite.compare(kind, outcomes)
    if record:
        suite.record(kind, outcomes)
        refresh_suites()
    for line in wrong:
        print(f"WRONG  {line}")
    return 1 if wrong or not outcomes else 0
