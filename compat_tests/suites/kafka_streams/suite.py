"""Kafka Streams' own integration tests and those of its tools, as published on Maven Central, run with JUnit's
console launcher.

On Apache Kafka the tests run as they are: each class starts its brokers within its own JVM. On kwire one class of
theirs is replaced (`java/KafkaClusterTestKit.java`), so that the brokers are processes of kwire (`brokers.py`). Each
test class has a JVM of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from compat_tests.suites.junit import run_class
from compat_tests.suites.suite import CannotBuild, Outcome, Suite, arguments, carry_out
from harness.kafka_jars import (
    KAFKA_VERSION,
    SCALA_VERSION,
    JarsUnavailable,
    compile_java,
    maven_jars,
    streams_classpath,
)

FOLDER = Path(__file__).parent
_PACKAGES = {
    "org.apache.kafka.tools": "ResetIntegrationTest",
    "org.apache.kafka.tools.streams": """
        DeleteStreamsGroupOffsetTest DeleteStreamsGroupTest DescribeStreamsGroupTest ListStreamsGroupTest
        ResetStreamsGroupOffsetTest
    """,
}
TOOLS = {name: package for package, names in _PACKAGES.items() for name in names.split()}
"""The classes that test the tools for Streams, with their packages; all others are in `PACKAGE`."""
PACKAGE = "org.apache.kafka.streams.integration"
SUITE = Suite("kafka_streams", "Kafka Streams' integration tests", KAFKA_VERSION, FOLDER)
CLASS_TIMEOUT_S = 900.0

NOT_APPLICABLE = {
    "KafkaStreamsTelemetryIntegrationTest": "its brokers load a reporter of metrics from the JVM of the test",
}
"""The classes that cannot run with brokers in other processes, each with its reason."""

JUNIT_VERSION = "1.13.1"
_TESTED = (
    ("kafka-streams-integration-tests", "test"),
    ("kafka-streams", "test"),
    ("kafka-streams-test-utils",),
    ("kafka-clients", "test"),
    ("kafka-server-common", "test"),
    (f"kafka_{SCALA_VERSION}", "test"),
    ("kafka-tools", "test"),
    ("kafka-tools",),
    ("kafka-test-common-runtime",),
    ("kafka-test-common-internal-api",),
    ("kafka-test-common-util",),
)
_JARS = (
    *(("org.apache.kafka", name, KAFKA_VERSION, *classifier) for name, *classifier in _TESTED),
    ("org.junit.platform", "junit-platform-console-standalone", JUNIT_VERSION),
    ("org.hamcrest", "hamcrest", "3.0"),
    ("org.mockito", "mockito-core", "5.14.2"),
    ("org.mockito", "mockito-junit-jupiter", "5.14.2"),
)


def jars() -> str:
    """The class path of the tests. Raises `JarsUnavailable`."""
    folder = maven_jars(f"kafka-streams-tests-{KAFKA_VERSION}", "Kafka Streams' integration tests", _JARS)
    return f"{streams_classpath()}:{folder}/*"


def run(kind: str, wanted: Iterable[str] = ()) -> list[Outcome]:
    """Run test classes or single tests (``CLASS``, ``CLASS.METHOD``) on brokers of a kind; all classes by default."""
    try:
        path = jars()
        if kind == "kwire":
            path = f"{compile_java(FOLDER.glob('java/*.java'), jars)}:{path}"
    except (JarsUnavailable, subprocess.CalledProcessError) as error:
        raise CannotBuild(str(error)) from error
    chosen: dict[str, list[str]] = {}
    for each in wanted or classes(kind):
        name, _, method = each.partition(".")
        chosen.setdefault(name, []).append(method)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="kafka-streams-") as home:
        for name, methods in chosen.items():
            found = _run_class(path, name, methods, Path(home) / name)
            for one in found:
                print(f"{one.state:8} {one.seconds:7.1f} s  {one.test} {one.reason}", file=sys.stderr, flush=True)
            outcomes += found
    return outcomes


def classes(kind: str) -> list[str]:
    """The names of the test classes that have been recorded, without those that cannot run on brokers of a kind."""
    names = dict.fromkeys(test.partition(".")[0] for test in SUITE.recorded())
    return [name for name in names if kind == "kafka" or name not in NOT_APPLICABLE]


def _run_class(path: str, name: str, methods: list[str], home: Path) -> list[Outcome]:
    whole = f"{TOOLS.get(name, PACKAGE)}.{name}"
    selected = [f"--select-method={whole}#{method}" if method else f"--select-class={whole}" for method in methods]
    brokers = [sys.executable, "-m", "compat_tests.suites.kafka_streams.brokers", str(home)]
    return run_class(name, selected, path, home, brokers=brokers, timeout_s=CLASS_TIMEOUT_S)


def main() -> int:
    """The command; see `suite.arguments`."""
    parser = arguments("compat_tests.suites.kafka_streams", "Run Kafka Streams' own integration tests.")
    options = parser.parse_args()
    return carry_out(SUITE, options.broker, lambda: run(options.broker, options.tests), options.record)
