"""Kafka's published tests and what they need, fetched once through Maven, and the classes of `java/`.

What lives elsewhere: which classes of tests run (`classes.py`), running them (`suite.py`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from harness.kafka_jars import KAFKA_VERSION, SCALA_VERSION, compile_java, maven_jars, streams_classpath

JUNIT_VERSION = "1.13.1"
MOCKITO_VERSION = "5.20.0"
_JAVA = Path(__file__).parent / "java"
_TESTS = (
    f"kafka_{SCALA_VERSION}",
    "kafka-clients",
    "kafka-clients-integration-tests",
    "kafka-coordinator-common",
    "kafka-group-coordinator",
    "kafka-metadata",
    "kafka-raft",
    "kafka-server",
    "kafka-server-common",
    "kafka-share-coordinator",
    "kafka-storage",
    "kafka-tools",
    "kafka-transaction-coordinator",
)
_DEPENDENCIES: list[tuple[str, ...]] = [
    *(("org.apache.kafka", name, KAFKA_VERSION, "test") for name in _TESTS),
    ("org.apache.kafka", f"kafka_{SCALA_VERSION}", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    *(("org.apache.kafka", f"kafka-test-common-{name}", KAFKA_VERSION) for name in ("runtime", "internal-api", "util")),
    ("org.junit.platform", "junit-platform-console-standalone", JUNIT_VERSION),
    ("org.mockito", "mockito-core", MOCKITO_VERSION),
    ("org.mockito", "mockito-junit-jupiter", MOCKITO_VERSION),
    ("org.hamcrest", "hamcrest", "3.0"),
]


def tests() -> str:
    """The class path of Kafka's tests as they are. Raises `JarsUnavailable`."""
    folder = maven_jars(f"kafka-tests-{KAFKA_VERSION}", f"the tests of Kafka {KAFKA_VERSION} (100 MB)", _DEPENDENCIES)
    return f"{folder}/*:{streams_classpath()}"


@cache
def tests_on_other_brokers() -> str:
    """The same, with the classes of `java/` first. Raises `JarsUnavailable` and `subprocess.CalledProcessError`."""
    return f"{compile_java(_JAVA.glob('*.java'), tests)}:{tests()}"
