"""librdkafka's own test suite, run test by test; `build` fetches and builds it.

Each test number runs in a process of the suite's `test-runner`, several at a time, on one broker; the tests of the
scenario `noautocreate` have a separate broker. Tests that need no broker (mocks, unit tests) are left out. The suite
calls some of Kafka's scripts (`kafka-topics.sh`, `kafka-acls.sh`, a producer in Java), so there is a folder in the form
of Kafka's distribution, made from Kafka's jars.

With three brokers, tests can create topics with three replicas, and there are racks. With ``--security``, the tests'
clients use TLS, and log in with ``--mechanism`` (`security`). Java is needed for a few tests.

The tests of share consumers are those of a later version of librdkafka, which has share consumers (``--share``).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from compat_tests.suites.librdkafka.build import LIBRDKAFKA, WITH_SHARE_CONSUMERS, folder_of_tests
from compat_tests.suites.librdkafka.security import MECHANISMS, PROTOCOLS, Entrance, Realm, Security, secured
from compat_tests.suites.suite import Outcome, Suite, arguments, carry_out
from harness.kafka_jars import KAFKA_VERSION, cache_root, kafka_jars_dir, locked
from harness.processes.brokers import Broker, make_broker
from harness.processes.certificates import Certificates
from harness.processes.clusters import Cluster
from harness.processes.ports import free_port
from harness.processes.proxy import Proxy
from harness.processes.secured import add_scram_users, make_secured, security_settings

FOLDER = Path(__file__).parent
# The settings of the suite's own test clusters. The others are Kafka's defaults, also where kwire's differ.
SETTINGS = {
    "num.partitions": "4",
    "group.min.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "3000",
    "log.segment.delete.delay.ms": "60000",
}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
# Its own requests come without a login; the clients' do not, so that ACLs are for them alone.
SECURED_AUTHORIZER = {**AUTHORIZER, "super.users": "User:ANONYMOUS"}
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
# The tests of share consumers wait 4 s for records that nobody has acknowledged.
SHARE_SETTINGS = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "3000",
}
OPEN = {"auto.create.topics.enable": "true", "min.insync.replicas": "1"}
SCENARIOS = {"default": {}, "noautocreate": {"auto.create.topics.enable": "false"}}
# 0097 wants an error of TLS. librdkafka reports one of the connection if the broker's half of the handshake is there
# before librdkafka looks for the first time, which on loopback is a matter of chance, with either broker.
DELAYED_S = {"0097": 0.02}
_TEST = re.compile(r"_TEST\((\w+),\s*(.*?)\)(?=,\s*(?:_TEST|\{NULL|#|/\*))", re.S)
_SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-run-class.sh": "",
}


def suite(brokers: int = 1, security: Security | None = None) -> Suite:
    """The suite at the pinned version, on one broker or three. With security, each test must end as on Apache Kafka."""
    if security is not None:
        name = f"librdkafka-{security.name}" if brokers == 1 else f"librdkafka-3-{security.name}"
        title = f"librdkafka's own tests{'' if brokers == 1 else ' on three brokers'} over {security.title}"
        return Suite(name, title, LIBRDKAFKA, FOLDER, None)
    if brokers == 1:
        return Suite("librdkafka", "librdkafka's own tests", LIBRDKAFKA, FOLDER)
    return Suite("librdkafka-3", "librdkafka's own tests on three brokers", LIBRDKAFKA, FOLDER, "allowed-3.txt")


def share_suite() -> Suite:
    """The tests of share consumers; each must end as on Apache Kafka."""
    title = "librdkafka's own tests of share consumers"
    return Suite("librdkafka-share", title, WITH_SHARE_CONSUMERS, FOLDER, None)


class ThreeBrokers:
    """A cluster instead of one broker; each of its brokers is in its own rack. With a realm, each has a listener for
    it beside PLAINTEXT, all with the same certificate."""

    def __init__(self, kind: str, home: Path, settings: Mapping[str, str], realm: Realm | None) -> None:
        certificates = Certificates.make(home / "certificates")
        own = {} if realm is None else {**security_settings(certificates), **realm.broker}
        self._cluster = Cluster(kind, home, {**SELECTOR, **OPEN, **settings, **own})
        self._realm = realm
        self._certificates = certificates
        self._ports = {number: free_port() for number in self._cluster.nodes}
        for number, node in self._cluster.nodes.items():
            node.settings["broker.rack"] = f"RACK{number}"
            if realm is not None:
                node.settings |= self._listeners(kind, node, self._ports[number], realm.security)

    @staticmethod
    def _listeners(kind: str, node: Broker, port: int, security: Security) -> dict[str, str]:
        name = security.listener
        listeners = f"PLAINTEXT://{node.bootstrap},{name}://{node.host}:{port}"
        protocols = f"PLAINTEXT:PLAINTEXT,{name}:{security.protocol}"
        if kind == "kafka":
            protocols += ",CONTROLLER:PLAINTEXT"
        return {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": protocols,
        }

    def start(self) -> Entrance:
        """Start the cluster; where its clients connect."""
        self._cluster.start()
        plaintext = self._cluster.bootstrap
        if self._realm is None:
            return Entrance(plaintext, plaintext)
        add_scram_users(plaintext.partition(",")[0])
        addresses = [f"{node.host}:{self._ports[number]}" for number, node in self._cluster.nodes.items()]
        files = self._cluster.home / "client"
        return self._realm.entrance(",".join(addresses), plaintext, self._certificates, files)

    def stop(self) -> None:
        """Stop the cluster."""
        self._cluster.end()


@cache
def tests_by_number(version: str = LIBRDKAFKA) -> dict[str, dict[str, str]]:
    """Number -> test name -> scenario, of the tests that need a broker; from the suite's own table. Of the version that
    has share consumers only their tests."""
    sources = (folder_of_tests(version) / "test.c").read_text()
    table = sources.partition("struct test tests[] = {")[2].partition("{NULL}")[0]
    numbers: dict[str, dict[str, str]] = {}
    for name, rest in _TEST.findall(table):
        if version == WITH_SHARE_CONSUMERS and "_share_" not in name:
            continue
        if "TEST_F_LOCAL" not in rest and "TEST_F_MANUAL" not in rest:
            scenario = re.search(r'\.scenario = "(\w+)', rest)
            numbers.setdefault(name[:4], {})[name] = scenario[1] if scenario else "default"
    return numbers


def distribution() -> Path:
    """A folder in the form of Kafka's distribution: `libs` and the scripts that the suite calls."""
    home = cache_root() / f"kafka-distribution-{KAFKA_VERSION}"
    with locked("kafka-distribution"):
        (home / "bin").mkdir(parents=True, exist_ok=True)
        if not (home / "libs").exists():
            (home / "libs").symlink_to(kafka_jars_dir())
        for name, main in _SCRIPTS.items():
            script = home / "bin" / name
            jars = home / "libs"
            options = f"-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={jars}"
            options += "/log4j2.properties"
            script.write_text(f'#!/bin/sh\nexec java {options} -cp "{jars}/*:$CLASSPATH" {main} "$@"\n')
            script.chmod(0o755)
    return home


class Brokers:
    """The brokers of one run, a broker or a cluster for each scenario; `stack` stops them."""

    def __init__(self, kind: str, folder: Path, count: int, security: Security | None, stack: ExitStack) -> None:
        self._kind = kind
        self._folder = folder
        self._count = count
        self._stack = stack
        self._realm = stack.enter_context(secured(security, kind, folder)) if security is not None else None

    def started(self, scenario: str) -> Entrance:
        """Start what the tests of a scenario run on; where they connect."""
        home, settings = self._folder / scenario, {**SETTINGS, **SHARE_SETTINGS, **SCENARIOS[scenario]}
        if self._realm is not None:
            settings |= SECURED_AUTHORIZER
        elif self._count == 1:  # three of Apache Kafka need super users for each other, which the tests would be, too
            settings |= AUTHORIZER
        if self._count == 3:
            cluster = ThreeBrokers(self._kind, home, settings, self._realm)
            self._stack.callback(cluster.stop)
            return cluster.start()
        if self._realm is not None:
            secured_broker = make_secured(self._kind, home, {**settings, **self._realm.broker})
            self._stack.callback(secured_broker.stop)
            secured_broker.start()
            address = secured_broker.address(self._realm.security.listener)
            return self._realm.entrance(address, secured_broker.bootstrap, secured_broker.certificates, home / "client")
        broker = make_broker(self._kind, home, settings)
        self._stack.callback(broker.stop)
        broker.start()
        return Entrance(broker.bootstrap, broker.bootstrap)


def run(
    kind: str,
    tests: list[str],
    quick: bool,
    jobs: int,
    limit_s: float,
    count: int = 1,
    security: Security | None = None,
    parts: Mapping[str, str] | None = None,
    version: str = LIBRDKAFKA,
) -> list[Outcome]:
    """Run the tests (all, or the given numbers or names) and return how each ended. ``parts``: of the tests of a number
    only those subtests whose names contain a text."""
    chosen = {
        number: names
        for number, names in tests_by_number(version).items()
        if not tests or any(test.startswith(number) for test in tests)
    }
    with tempfile.TemporaryDirectory(prefix="librdkafka-") as folder, ExitStack() as stack:
        brokers = Brokers(kind, Path(folder), count, security, stack)
        scenarios = {each for names in chosen.values() for each in names.values()}
        entrances = {scenario: brokers.started(scenario) for scenario in SCENARIOS if scenario in scenarios}
        runs = [(n, s) for n, names in chosen.items() for s in SCENARIOS if s in names.values()]
        runner = Runner(version, Path(folder), quick, limit_s, parts or {})
        with ThreadPoolExecutor(jobs) as pool:
            tasks = [pool.submit(runner.number, number, scenario, entrances[scenario]) for number, scenario in runs]
        return [outcome for task in tasks for outcome in task.result()]


@contextmanager
def _delayed(number: str, entrance: Entrance) -> Iterator[Entrance]:
    """The entrance of a test, behind a proxy if the test is in `DELAYED_S`."""
    if number not in DELAYED_S:
        yield entrance
        return
    proxy = Proxy(int(entrance.bootstrap.rpartition(":")[2]), DELAYED_S[number])
    try:
        yield replace(entrance, bootstrap=proxy.address)
    finally:
        proxy.refuse()


class Runner:
    """Runs the tests of one number in a process of the suite's ``test-runner``. ``folder``: for its files."""

    def __init__(self, version: str, folder: Path, quick: bool, limit_s: float, parts: Mapping[str, str]) -> None:
        self._version = version
        self._folder = folder
        self._options = ["-Q"] if quick else []
        self._limit_s = limit_s
        self._parts = parts

    def number(self, number: str, scenario: str, given: Entrance) -> list[Outcome]:
        """Run all tests of a number and a scenario."""
        chosen = {"SUBTESTS": self._parts[number]} if number in self._parts else {}
        given = replace(given, environment={**given.environment, **chosen})
        with _delayed(number, given) as entrance:
            return self._run(number, scenario, entrance)

    def _run(self, number: str, scenario: str, entrance: Entrance) -> list[Outcome]:
        start = self._folder / f"{number}-{scenario}"
        report, output = start.with_suffix(".json"), start.with_suffix(".txt")
        environment = self._environment(number, scenario, entrance, report)
        command = ["./test-runner", "-p1", "-L", *self._options]
        with open(output, "wb") as out:
            process = subprocess.Popen(
                command,
                cwd=folder_of_tests(self._version),
                env=environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            try:
                status = process.wait(self._limit_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if process.poll() is None or status is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        _keep(output)
        names = [name for name, its in tests_by_number(self._version)[number].items() if its == scenario]
        return _outcomes(names, report, status, output.read_text(errors="replace"))

    def _environment(self, number: str, scenario: str, entrance: Entrance, report: Path) -> dict[str, str]:
        config = report.with_suffix(".conf")
        # Double timeouts, as in the suite's own test clusters.
        lines = {"bootstrap.servers": entrance.bootstrap, "broker.address.family": "v4", "test.timeout.multiplier": "2"}
        config.write_text("".join(f"{name}={value}\n" for name, value in {**lines, **entrance.client}.items()))
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": "../src:../src-cpp",
            "TESTS": number,
            "TEST_MODE": "busy",  # any but "bare": durations that another program can prolong are warnings
            "TEST_SCENARIO": scenario,
            "TEST_REPORT": str(report),
            "RDKAFKA_TEST_CONF": str(config),
            "TEST_KAFKA_VERSION": f"{KAFKA_VERSION}.0",
            "KAFKA_PATH": str(distribution()),
            "BROKERS": entrance.scripts,
            **entrance.environment,
            "KRB5CCNAME": f"FILE:{self._folder}/{number}-{scenario}.tickets",
        }
        environment.pop("CI", None)
        return environment


def _keep(output: Path) -> None:
    """Copy the runner's output to the folder KWIRE_SUITE_OUTPUT, if that is set."""
    if "KWIRE_SUITE_OUTPUT" in os.environ:
        place = Path(os.environ["KWIRE_SUITE_OUTPUT"])
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(output, place)


def _outcomes(names: list[str], report: Path, status: int | None, output: str) -> list[Outcome]:
    if not report.exists() or not report.stat().st_size:
        reason = "did not end in time" if status is None else f"the runner ended with {status}"
        return [Outcome(name, "failed", reason) for name in names]
    found = json.loads(re.sub(r"[\x00-\x1f]", " ", report.read_text(errors="replace")))["tests"]
    return [_outcome(name, found[name], output) for name in names]


def _outcome(name: str, found: dict[str, object], output: str) -> Outcome:
    state = {"PASSED": "passed", "SKIPPED": "skipped"}.get(str(found["state"]), "failed")
    reason = "" if state == "passed" else _why(output, name)
    return Outcome(name, state, reason, float(str(found["duration"])))


def _why(output: str, name: str) -> str:
    """The runner's reason why a test did not pass."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines()
    for number, line in enumerate(lines[:-1]):
        if line.startswith(f'### Test "{name}'):
            return f"{line.partition(' failed at ')[2].partition(' at ')[0]} {lines[number + 1].strip()[:300]}"
    for line in lines:
        cells = line.split("|")
        if len(cells) > 4 and cells[1].strip() == name and cells[4].strip():
            return cells[4].strip()
    return lines[-1] if lines else ""


def main() -> int:
    """The command line."""
    parser = arguments(__package__, "librdkafka's own tests that need a broker, by number (0045) or name")
    parser.add_argument("--quick", action="store_true", help="the suite's own quick mode: less data, fewer rounds")
    parser.add_argument("--jobs", type=int, default=4, help="tests at a time (default: 4)")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one test number (default: 900)")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="how many (default: 1)")
    parser.add_argument("--share", action="store_true", help="the tests of share consumers, of a later version")
    parser.add_argument("--security", choices=PROTOCOLS, help="the protocol of the clients (default: PLAINTEXT)")
    parser.add_argument("--mechanism", choices=MECHANISMS, help="how they log in, with a protocol of SASL")
    options: argparse.Namespace = parser.parse_args()
    security = chosen_security(parser, options)
    if options.share and (security is not None or options.brokers != 1):
        parser.error("--share is for one broker without --security")
    return carry_out(
        share_suite() if options.share else suite(options.brokers, security),
        options.broker,
        lambda: run(
            options.broker,
            options.tests,
            options.quick,
            options.jobs,
            options.limit,
            options.brokers,
            security,
            version=WITH_SHARE_CONSUMERS if options.share else LIBRDKAFKA,
        ),
        options.record,
    )


def chosen_security(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Security | None:
    """What ``--security`` and ``--mechanism`` say; ends the command if they do not fit."""
    protocol, mechanism = options.security, options.mechanism
    if (mechanism is not None) != (protocol is not None and protocol.startswith("SASL")):
        parser.error("--mechanism is needed with --security SASL_PLAINTEXT or SASL_SSL, and only there")
    return None if protocol is None else Security(protocol, mechanism or "")
