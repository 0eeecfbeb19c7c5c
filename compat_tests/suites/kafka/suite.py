"""Kafka's own integration tests, as published on Maven Central, run with JUnit's console launcher.

On Apache Kafka the tests run as they are: each starts its brokers within its own JVM. On kwire one class of theirs is
replaced (`java/RaftClusterInvocationContext.java`), so that the brokers of each test are new processes of kwire
(`brokers.py`). A test that looks for something only a broker in its own JVM has is skipped there, with its name as the
reason. Each class of tests has a JVM of its own. What lives elsewhere: the jars (`jars.py`), the list of the classes
(`classes.py`).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from compat_tests.suites.junit import run_class
from compat_tests.suites.kafka import jars
from compat_tests.suites.kafka.classes import CLASSES, full_name
from compat_tests.suites.suite import CannotBuild, Outcome, Suite, arguments, carry_out
from harness.kafka_jars import KAFKA_VERSION, JarsUnavailable

FOLDER = Path(__file__).parent
CLASS_TIMEOUT_S = 2400.0
SUITE = Suite("kafka", "Kafka's own tests", KAFKA_VERSION, FOLDER)
_SETTINGS = {
    "junit.jupiter.extensions.autodetection.enabled": "true",
    "junit.jupiter.execution.timeout.default": "180 s",
}


def run(kind: str, wanted: Iterable[str] = (), keep: Path | None = None) -> list[Outcome]:
    """Run tests on brokers of a kind: ``CLASS`` or ``CLASS.METHOD``, all of `CLASSES` by default.

    ``keep``: a folder in which the reports, the output and the brokers' data stay. Raises `CannotBuild`.
    """
    try:
        path = jars.tests() if kind == "kafka" else jars.tests_on_other_brokers()
    except (JarsUnavailable, subprocess.CalledProcessError) as error:
        raise CannotBuild(f"{error} {getattr(error, 'stderr', '')}") from error
    chosen: dict[str, list[str]] = {}
    for each in wanted or CLASSES:
        name, _, method = each.partition(".")
        chosen.setdefault(name, []).append(method)
    outcomes = []
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-tests-")))
        for name, methods in chosen.items():
            found = _run_class(path, name, methods, folder / f"{name}-{kind}", keep is not None)
            for one in found:
                print(f"{one.state:8} {one.seconds:7.1f} s  {one.test} {one.reason}", file=sys.stderr, flush=True)
            outcomes += found
    return outcomes


def _run_class(path: str, name: str, methods: list[str], home: Path, keep: bool) -> list[Outcome]:
    whole = full_name(name)
    options = [f"--select-class={whole}"]
    options += [rf"--include-methodname=^\Q{whole}#{method}\E$" for method in methods if method]
    options += [f"--config={key}={value}" for key, value in _SETTINGS.items()]
    brokers = [sys.executable, "-m", "compat_tests.suites.kafka.brokers", str(home), *(["keep"] if keep else [])]
    return run_class(name, options, path, home, brokers=brokers, timeout_s=CLASS_TIMEOUT_S)


def main() -> int:
    """The command line."""
    parser = arguments("compat_tests.suites.kafka", "Kafka's own integration tests.")
    parser.epilog = "TEST is a class (PlaintextConsumerPollTest) or CLASS.METHOD; --class and --method are the same"
    parser.add_argument("--class", dest="classes", action="append", default=[], help="only this class of tests")
    parser.add_argument("--method", dest="methods", action="append", default=[], help="only this method of the class")
    parser.add_argument("--keep", type=Path, help="keep reports, output and brokers' data in this folder")
    options = parser.parse_args()
    if options.methods and len(options.classes) != 1:
        parser.error("--method needs one --class")
    named = [f"{options.classes[0]}.{method}" for method in options.methods] or options.classes
    wanted = [*options.tests, *named]
    return carry_out(SUITE, options.broker, lambda: run(options.broker, wanted, options.keep), options.record)
