"""Spark's own Kafka suites (ScalaTest, as published by Spark) against a broker of either kind.

Each suite runs in its own JVM, on its own empty broker. The outcome of each test is compared with the recorded outcome
on Apache Kafka (`compat_tests/suites/results/spark-*.json`). What lives elsewhere: the jars (`jars.py`), the
replacement for the suites' test utility (`java/`), the broker of the suite that uses Kerberos (`kerberized.py`).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compat_tests.suites.spark import jars
from compat_tests.suites.spark.kerberized import kerberized
from compat_tests.suites.suite import STATES, Outcome, Suite, arguments
from harness.processes.brokers import Broker, make_broker
from tools.compat_table import refresh_suites

FOLDER = Path(__file__).parent
PACKAGE = "org.apache.spark.sql.kafka010"
TOKEN_PACKAGE = "org.apache.spark.kafka010"
WITHOUT_BROKER = (
    "JsonUtilsSuite",
    "KafkaOffsetRangeCalculatorSuite",
    "KafkaSourceOffsetSuite",
    "KafkaSourceProviderSuite",
    "KafkaSparkConfSuite",
    "consumer.FetchedDataPoolSuite",
    "consumer.InternalKafkaConsumerPoolSuite",
    "producer.InternalKafkaProducerPoolSuite",
)
# Of the provider of delegation tokens; they need no broker either.
OF_TOKENS = (
    "KafkaConfigUpdaterSuite",
    "KafkaHadoopDelegationTokenManagerSuite",
    "KafkaRedactionUtilSuite",
    "KafkaTokenSparkConfSuite",
    "KafkaTokenUtilSuite",
)
WITH_KERBEROS = ("KafkaDelegationTokenSuite",)
# Longest first, so that two at a time end together.
WITH_BROKER = (
    "KafkaContinuousSourceSuite",
    "KafkaMicroBatchV2SourceWithConsumerSuite",
    "KafkaMicroBatchV1SourceWithConsumerSuite",
    "KafkaMicroBatchV2SourceWithAdminSuite",
    "KafkaMicroBatchV1SourceWithAdminSuite",
    "KafkaRelationSuiteV1",
    "KafkaRelationSuiteV2",
    "KafkaRelationSuiteWithAdminV1",
    "KafkaRelationSuiteWithAdminV2",
    "KafkaSourceStressForDontFailOnDataLossSuite",
    "KafkaContinuousSourceStressForDontFailOnDataLossSuite",
    "KafkaSourceStressSuite",
    "KafkaDontFailOnDataLossSuite",
    "KafkaSinkMicroBatchStreamingSuite",
    "KafkaContinuousSinkSuite",
    "KafkaSinkBatchSuiteV1",
    "KafkaSinkBatchSuiteV2",
    "KafkaOffsetReaderSuite",
    "KafkaContinuousSourceTopicDeletionSuite",
    "consumer.KafkaDataConsumerSuite",
    "ConsumerStrategySuite",
)
# Of real-time mode, which the connector has from 4.2 on.
OF_REAL_TIME = (
    "KafkaRealTimeModeSuite",
    "KafkaRealTimeIntegrationSuite",
    "KafkaRealTimeModeE2ESuite",
    "KafkaConsumerPoolRealTimeModeSuite",
)
ALL = WITH_BROKER + WITH_KERBEROS + WITHOUT_BROKER + OF_TOKENS
OF_VERSION = {jars.SPARK_VERSION: ALL, jars.NEWEST_VERSION: WITH_BROKER + OF_REAL_TIME + ALL[len(WITH_BROKER) :]}
SUITE_TIMEOUT_S = 3000.0

# The retention check runs often, because some suites wait for it. Any timestamp is taken, as by the suites' own broker,
# a Kafka 3.9: one of their records has a time in nanoseconds.
_BROKER_SETTINGS = {
    "auto.create.topics.enable": "false",
    "log.initial.task.delay.ms": "100",
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
    "log.retention.check.interval.ms": "100",
}
# The modules that Spark's own build opens, and the properties that it sets, for its tests.
_OPENED = "lang lang.invoke lang.reflect io net nio util util.concurrent util.concurrent.atomic"
_OPENED_OTHERS = "jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar"
_PROPERTIES = {
    "io.netty.tryReflectionSetAccessible": "true",
    "java.awt.headless": "true",
    "jdk.reflect.useDirectMethodHandle": "false",
    "spark.testing": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.unsafe.exceptionOnMemoryLeak": "true",
    "test.src.tables": "__not_used__",
}


class SparkSuite(Suite):
    """One of Spark's suites; each of its tests must end as on Apache Kafka.

    ``wanted``: a suite's name, or ``SUITE:TEXT|TEXT`` for those of its tests whose names contain one of the texts;
    ``version``: Spark's.
    """

    def __init__(self, wanted: str, version: str = jars.SPARK_VERSION) -> None:
        name, _, texts = wanted.partition(":")
        self.class_name = f"{TOKEN_PACKAGE if name in OF_TOKENS else PACKAGE}.{name}"
        self.needs_broker = name not in WITHOUT_BROKER + OF_TOKENS
        self.needs_kerberos = name in WITH_KERBEROS
        self.texts = texts.split("|") if texts else []
        short = name.rpartition(".")[2]
        file = f"spark-{short}" if version == jars.SPARK_VERSION else f"spark-{version}-{short}"
        super().__init__(file, f"Spark's {short}", version, FOLDER, None)

    def compare(self, kind: str, outcomes: Iterable[Outcome]) -> list[str]:
        """Print the counts beside the recorded ones; return one line for each difference."""
        recorded = {
            test: states["kafka"]
            for test, states in self.recorded().items()
            if "kafka" in states and (not self.texts or any(text in test for text in self.texts))
        }
        found = {one.test: one.state for one in outcomes}
        print(f"{self.title} on {kind}: {_counts(found.values())}; recorded of Apache Kafka: ", end="")
        print(_counts(recorded.values()) if recorded else "nothing yet", flush=True)
        reasons = {one.test: one.reason for one in outcomes}
        if not recorded:
            return [f"{test}: {state}: {reasons[test]}" for test, state in found.items() if state == "failed"]
        differing = sorted(test for test in recorded.keys() | found.keys() if recorded.get(test) != found.get(test))
        return [
            f"{test}: {found.get(test, 'not run')} (Kafka: {recorded.get(test, 'not run')}) {reasons.get(test, '')}"
            for test in differing
        ]


def run(suite: SparkSuite, kind: str, home: Path) -> list[Outcome]:
    """Run one suite on a fresh broker of a kind and print a line for each test as it ends.

    The output of the suite's JVM is in ``home/suite.log``. A suite that was aborted has a failed test "(the suite)".
    """
    home.mkdir(parents=True, exist_ok=True)
    if not suite.needs_broker:
        return _run_jvm(suite, "127.0.0.1:1", {}, home)
    if suite.needs_kerberos:
        with kerberized(kind, home) as secured:
            return _run_on(secured.broker, suite, secured.bootstrap, secured.properties, home)
    broker = make_broker(kind, home / "broker", _BROKER_SETTINGS)
    broker.start()
    try:
        return _run_on(broker, suite, broker.bootstrap, {}, home)
    finally:
        broker.kill()


def _run_on(
    broker: Broker, suite: SparkSuite, bootstrap: str, properties: Mapping[str, str], home: Path
) -> list[Outcome]:
    outcomes = _run_jvm(suite, bootstrap, properties, home)
    if not broker.is_running():
        outcomes.append(Outcome("(the suite)", "failed", f"the broker ended: {broker.log_text()[-500:]}"))
    return outcomes


def _run_jvm(suite: SparkSuite, bootstrap: str, properties: Mapping[str, str], home: Path) -> list[Outcome]:
    progress, log = home / "progress.tsv", home / "suite.log"
    (home / "tmp").mkdir(exist_ok=True)
    progress.write_text("")
    command = _command(suite, bootstrap, properties, home)
    environment = {
        **os.environ,
        "SPARK_DIST_CLASSPATH": jars.classpath(suite.version),  # of executors in processes of their own
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_TESTING": "1",
    }
    with open(log, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=home, env=environment)
    outcomes = []
    try:
        for line in _follow(progress, process):
            outcome = _outcome(line)
            outcomes.append(outcome)
            print(
                f"{outcome.state:8} {outcome.seconds:6.1f} s  {suite.name}: {outcome.test} {outcome.reason}", flush=True
            )
    finally:
        process.kill()
        status = process.wait()
    if status not in (0, 1) or (status == 1 and all(one.state != "failed" for one in outcomes)):
        tail = log.read_text(errors="replace").strip().splitlines()[-3:]
        outcomes.append(Outcome("(the suite)", "failed", f"ended with status {status}: {' '.join(tail)}"))
    return outcomes


def _command(suite: SparkSuite, bootstrap: str, more: Mapping[str, str], home: Path) -> list[str]:
    opened = [f"java.base/java.{each}" for each in _OPENED.split()]
    opened += [f"java.base/{each}" for each in _OPENED_OTHERS.split()]
    properties = {
        **_PROPERTIES,
        "java.io.tmpdir": str(home / "tmp"),
        "kwire.bootstrap": bootstrap,
        "kwire.progress": str(home / "progress.tsv"),
        "spark.test.home": str(home),
        **more,
    }
    command = ["setpriv", "--pdeathsig", "KILL"] if sys.platform == "linux" else []
    command += ["java", "-ea", "-Xmx2g", "-Xss4m", "-XX:+IgnoreUnrecognizedVMOptions", "-XX:TieredStopAtLevel=1"]
    command += [f"--add-opens={each}=ALL-UNNAMED" for each in opened]
    command += [f"-D{key}={value}" for key, value in properties.items()]
    classes, suites = jars.classpath(suite.version), jars.suites(suite.version)
    command += ["-cp", classes, "org.scalatest.tools.Runner", "-R", str(suites)]
    command += ["-s", suite.class_name, *(word for text in suite.texts for word in ("-z", text))]
    return [*command, "-C", "kwire.Progress", "-oWF"]


def _follow(progress: Path, process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield the lines of a growing file until its writer ends. Raises `TimeoutError` after `SUITE_TIMEOUT_S`."""
    deadline = time.monotonic() + SUITE_TIMEOUT_S
    with open(progress, encoding="utf-8") as lines:
        rest = ""
        while True:
            ended = process.poll() is not None
            for part in lines:
                rest += part
                if rest.endswith("\n"):
                    yield rest
                    rest = ""
            if ended:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the suite did not end within {SUITE_TIMEOUT_S:g} s")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)


def _outcome(line: str) -> Outcome:
    state, milliseconds, name, reason = line.rstrip("\n").split("\t")
    known = {"passed": "passed", "ignored": "skipped"}
    test = "(the suite)" if state == "aborted" else name
    return Outcome(test, known.get(state, "failed"), reason, int(milliseconds) / 1000)


def _counts(states: Iterable[str]) -> str:
    states = list(states)
    return ", ".join(f"{states.count(state)} {state}" for state in STATES)


def run_all(suites: Iterable[SparkSuite], kind: str, record: bool, jobs: int, keep: Path | None) -> list[str]:
    """Run suites, ``jobs`` at a time; return one line for each test that differs from the record of Apache Kafka."""
    lock = threading.Lock()
    wrong: list[str] = []

    def one(suite: SparkSuite, folder: Path) -> None:
        outcomes = run(suite, kind, folder / f"{kind}-{suite.name}")
        with lock:
            differences = suite.compare(kind, outcomes)
            if record:
                suite.record(kind, outcomes)
            wrong.extend(f"{suite.name}: {each}" for each in differences)

    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kwire-spark-")))
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        for future in [pool.submit(one, suite, folder) for suite in suites]:
            future.result()
    return wrong


def main() -> int:
    """The command line."""
    parser = arguments(__package__, "Spark's own Kafka suites, compared with what they gave on Apache Kafka")
    parser.epilog = (
        "TEST is a suite (KafkaRelationSuiteV1), or some tests of it by parts of their names"
        " ('KafkaRelationSuiteV1:read_committed|minPartitions')"
    )
    default = jars.SPARK_VERSION
    parser.add_argument("--spark", choices=jars.VERSIONS, default=default, help=f"which Spark (default: {default})")
    parser.add_argument("--jobs", type=int, default=1, help="how many suites run at a time (default: 1)")
    parser.add_argument("--keep", type=Path, help="keep logs and data in this folder")
    options = parser.parse_args()
    known = OF_VERSION[options.spark]
    unknown = [name for name in options.tests if name.partition(":")[0] not in known]
    if unknown:
        parser.error(f"no such suite: {', '.join(unknown)}; there are: {', '.join(known)}")
    started = time.monotonic()
    suites = [SparkSuite(name, options.spark) for name in options.tests or known]
    wrong = run_all(suites, options.broker, options.record, options.jobs, options.keep)
    if options.record:
        refresh_suites()
    for line in wrong:
        print(f"DIFFERENT  {line}")
    print(f"{len(suites)} suites on {options.broker} in {time.monotonic() - started:.0f} s: {len(wrong)} differences")
    return 1 if wrong else 0
