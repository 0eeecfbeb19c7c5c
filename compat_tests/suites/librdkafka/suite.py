"""librdkafka's own test suite: its source comes with the crate `rdkafka-sys`, is built once and run test by test.

Each test number runs in a process of the suite's `test-runner`, several at a time, on one broker; the tests of the
scenario `noautocreate` have a separate broker. Tests that need no broker (mocks, unit tests) are left out. The suite
calls some of Kafka's scripts (`kafka-topics.sh`, `kafka-acls.sh`, a producer in Java), so there is a folder in the form
of Kafka's distribution, made from Kafka's jars.

With three brokers, tests can create topics with three replicas, and there are racks.

Needs gcc, g++, make, pkg-config and the development packages of OpenSSL, zlib and zstd; Java for a few tests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path

from compat_tests.suites.suite import CannotBuild, Outcome, Suite, arguments, carry_out
from harness.downloads import APT_OPTIONS, attempted
from harness.kafka_jars import KAFKA_VERSION, cache_root, kafka_jars_dir, locked
from harness.processes.brokers import Broker, make_broker
from harness.processes.clusters import Cluster

FOLDER = Path(__file__).parent
CRATE, LIBRDKAFKA = "4.10.0+2.12.1", "2.12.1"
CRATE_SHA256 = "e234cf318915c1059d4921ef7f75616b5219b10b46e9f3a511a15eb4b56a3f77"
# The settings of the suite's own test clusters. The others are Kafka's defaults, also where kwire's differ.
SETTINGS = {
    "num.partitions": "4",
    "group.min.session.timeout.ms": "6000",
    "group.initial.rebalance.delay.ms": "3000",
    "log.segment.delete.delay.ms": "60000",
}
KAFKA_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
OPEN = {"auto.create.topics.enable": "true", "min.insync.replicas": "1"}
SCENARIOS = {"default": {}, "noautocreate": {"auto.create.topics.enable": "false"}}
PACKAGES = {"openssl/ssl.h": "libssl-dev", "zlib.h": "zlib1g-dev", "zstd.h": "libzstd-dev"}
_OPTIONAL = {"rapidjson/document.h": "rapidjson-dev"}  # three tests need it to parse statistics
_TEST = re.compile(r"_TEST\((\w+),\s*(.*?)\)(?=,\s*(?:_TEST|\{NULL|#|/\*))", re.S)
_SCRIPTS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-run-class.sh": "",
}


def suite(brokers: int = 1) -> Suite:
    """The suite at the pinned version, on one broker or three."""
    if brokers == 1:
        return Suite("librdkafka", "librdkafka's own tests", LIBRDKAFKA, FOLDER)
    return Suite("librdkafka-3", "librdkafka's own tests on three brokers", LIBRDKAFKA, FOLDER, "allowed-3.txt")


class ThreeBrokers:
    """A cluster instead of one broker; each of its brokers is in its own rack."""

    def __init__(self, kind: str, home: Path, settings: Mapping[str, str]) -> None:
        self._cluster = Cluster(kind, home, {**SELECTOR, **OPEN, **settings})
        for number, node in self._cluster.nodes.items():
            node.settings["broker.rack"] = f"RACK{number}"

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return self._cluster.bootstrap

    def start(self) -> None:
        """Start the cluster."""
        self._cluster.start()

    def stop(self) -> None:
        """Stop the cluster."""
        self._cluster.end()


def why_not() -> str | None:
    """None if the suite can be built or has been, otherwise the names of what is missing."""
    if (_built() / ".complete").exists():
        return None
    missing = [tool for tool in ("gcc", "g++", "make", "pkg-config") if shutil.which(tool) is None]
    if shutil.which("g++"):
        missing += [package for header, package in PACKAGES.items() if not _has_header(header)]
    return f"needs {', '.join(missing)}" if missing else None


def _has_header(header: str) -> bool:
    command = ["g++", "-E", "-include", header, "-x", "c++", "/dev/null"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _built() -> Path:
    return cache_root() / f"librdkafka-{LIBRDKAFKA}"


def tests_folder() -> Path:
    """The folder with the built `test-runner`; builds it on first use (two minutes). Raises `CannotBuild`."""
    with locked("librdkafka"):
        if not (_built() / ".complete").exists():
            _install_packages()
            reason = why_not()
            if reason:
                raise CannotBuild(reason)
            _build(_built())
    return _built() / "tests"


def _install_packages() -> None:
    """Install the headers from the system's packages, if permitted."""
    packages = {**PACKAGES, **_OPTIONAL}
    wanted = [package for header, package in packages.items() if shutil.which("g++") and not _has_header(header)]
    if not wanted or not shutil.which("apt-get") or os.geteuid() != 0:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *wanted]):
        subprocess.run(["apt-get", "-qq", *APT_OPTIONS, *words], env=environment, capture_output=True, check=False)


def _build(folder: Path) -> None:
    print(f"building librdkafka {LIBRDKAFKA} and its tests in {folder} (once) ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    _unpack(folder)
    steps = (["./configure", "--disable-curl"], ["make", "-j2", "libs"], ["make", "-j2", "-C", "tests", "build"])
    for step in steps:
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotBuild(f"{' '.join(step)}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    (folder / ".complete").write_text("")


def _unpack(folder: Path) -> None:
    """The crate's `librdkafka` folder, checked against the pinned digest."""
    with tempfile.TemporaryDirectory(dir=cache_root()) as place:
        address = f"https://static.crates.io/crates/rdkafka-sys/rdkafka-sys-{CRATE}.crate"
        crate = Path(place) / "crate.tar.gz"

        def fetch() -> None:
            with urllib.request.urlopen(address, timeout=120) as response:
                crate.write_bytes(response.read())
            if sha256(crate.read_bytes()).hexdigest() != CRATE_SHA256:
                raise CannotBuild(f"{address} is not what it was")

        attempted(address, fetch, OSError, HTTPException, CannotBuild)
        with tarfile.open(crate) as tar:
            tar.extractall(place, filter="data")
        (Path(place) / f"rdkafka-sys-{CRATE}" / "librdkafka").rename(folder)


@cache
def tests_by_number() -> dict[str, dict[str, str]]:
    """Number -> test name -> scenario, of the tests that need a broker; from the suite's own table."""
    table = (tests_folder() / "test.c").read_text().partition("struct test tests[] = {")[2].partition("{NULL}")[0]
    numbers: dict[str, dict[str, str]] = {}
    for name, rest in _TEST.findall(table):
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


def run(kind: str, tests: list[str], quick: bool, jobs: int, limit_s: float, count: int = 1) -> list[Outcome]:
    """Run the tests (all, or the given numbers or names) and return how each ended."""
    chosen = {
        number: names
        for number, names in tests_by_number().items()
        if not tests or any(test.startswith(number) for test in tests)
    }
    with tempfile.TemporaryDirectory(prefix="librdkafka-") as folder:
        brokers: dict[str, Broker | ThreeBrokers] = {}
        try:
            for scenario in {each for names in chosen.values() for each in names.values()}:
                settings = {**SETTINGS, **SCENARIOS[scenario]}
                if count == 3:  # no authorizer: a cluster would need further settings for it
                    brokers[scenario] = ThreeBrokers(kind, Path(folder) / scenario, settings)
                else:
                    settings |= KAFKA_SETTINGS if kind == "kafka" else {}
                    brokers[scenario] = make_broker(kind, Path(folder) / scenario, settings)
                brokers[scenario].start()
            runs = [(n, s) for n, names in chosen.items() for s in SCENARIOS if s in names.values()]
            with ThreadPoolExecutor(jobs) as pool:
                tasks = [
                    pool.submit(
                        _run_number, number, scenario, brokers[scenario].bootstrap, Path(folder), quick, limit_s
                    )
                    for number, scenario in runs
                ]
            return [outcome for task in tasks for outcome in task.result()]
        finally:
            for broker in brokers.values():
                broker.stop()


def _run_number(number: str, scenario: str, bootstrap: str, folder: Path, quick: bool, limit_s: float) -> list[Outcome]:
    """Run all tests of a number and a scenario in one process of the runner."""
    report, config = folder / f"{number}-{scenario}.json", folder / f"{number}-{scenario}.conf"
    # Double timeouts, as in the suite's own test clusters.
    config.write_text(f"bootstrap.servers={bootstrap}\nbroker.address.family=v4\ntest.timeout.multiplier=2\n")
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "TESTS": number,
        "TEST_SCENARIO": scenario,
        "TEST_REPORT": str(report),
        "RDKAFKA_TEST_CONF": str(config),
        "TEST_KAFKA_VERSION": f"{KAFKA_VERSION}.0",
        "KAFKA_PATH": str(distribution()),
        "BROKERS": bootstrap,
    }
    environment.pop("CI", None)
    command = ["./test-runner", "-p1", "-L", *(["-Q"] if quick else [])]
    output = folder / f"{number}-{scenario}.txt"
    with open(output, "wb") as out:
        process = subprocess.Popen(
            command, cwd=tests_folder(), env=environment, stdout=out, stderr=out, start_new_session=True
        )
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.poll() is None or status is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    _keep(output)
    names = [name for name, its in tests_by_number()[number].items() if its == scenario]
    return _outcomes(names, report, status, output.read_text(errors="replace"))


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
    options: argparse.Namespace = parser.parse_args()
    return carry_out(
        suite(options.brokers),
        options.broker,
        lambda: run(options.broker, options.tests, options.quick, options.jobs, options.limit, options.brokers),
        options.record,
    )
