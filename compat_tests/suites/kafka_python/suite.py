"""kafka-python's own integration tests: fetched as the source package of the installed version, run with pytest.

The unpacked sources (in the cache) are not changed; the files that they lack are in `stand_in`. The suite's fixtures
use the broker at KAFKA_URI. In mode 4.3 the client is configured with the version that it would infer from the broker;
in mode 2.6 it uses the older versions of the APIs. In mode "secured" the cases for SASL and TLS run, whose fixtures
start a broker for each case by the scripts of a Kafka distribution (`distribution`).
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from compat_tests.suites.kafka_python import distribution
from compat_tests.suites.suite import Outcome, Suite, arguments, carry_out
from harness.downloads import downloaded, untar
from harness.kafka_jars import cache_root, locked
from harness.processes.brokers import make_broker

FOLDER = Path(__file__).parent
MODES = ("4.3", "2.6")
SECURED = "secured"
SECURED_FILES = ("test_sasl_integration.py", "test_ssl_integration.py")
SETTINGS = {
    "node.id": "0",
    "num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    # One test needs ACLs; for all others everything is allowed.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}


def suite(mode: str) -> Suite:
    """The suite in one mode ("4.3", "2.6" or "secured")."""
    version = importlib.metadata.version("kafka-python")
    if mode == SECURED:
        title = "kafka-python's integration tests for SASL and TLS"
        return Suite(f"kafka_python-{mode}", title, version, FOLDER, f"allowed-{mode}.txt")
    allowed = "allowed.txt" if mode == MODES[0] else f"allowed-{mode}.txt"
    title = f"kafka-python's integration tests (client at {mode})"
    return Suite(f"kafka_python-{mode}", title, version, FOLDER, allowed)


def sources() -> Path:
    """The unpacked source package, fetched with pip on first use."""
    version = importlib.metadata.version("kafka-python")
    unpacked = cache_root() / f"kafka-python-{version}"
    with locked("kafka-python"):
        if not unpacked.exists():
            _fetch(version, unpacked)
    return unpacked / f"kafka_python-{version}"


def _fetch(version: str, unpacked: Path) -> None:
    print(f"fetching the sources of kafka-python {version} (once) ...", file=sys.stderr, flush=True)
    partial = unpacked.with_suffix(".partial")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    downloaded("kafka-python", [*command, "--dest", str(partial), f"kafka-python=={version}"])
    (archive,) = partial.glob("*.tar.gz")
    untar(archive, partial)
    partial.rename(unpacked)


def run(kind: str, mode: str, tests: list[str]) -> list[Outcome]:
    """Run the tests (all, or those whose names contain one of ``tests``) on a broker of their own; in mode "secured"
    each on one of its own."""
    with tempfile.TemporaryDirectory(prefix="kafka-python-") as folder:
        home = Path(folder)
        if mode == SECURED:
            return _run_secured(kind, tests, home)
        broker = make_broker(kind, home / "broker", SETTINGS)
        if kind == "kwire":  # set as for Apache Kafka, because a test checks the property's source
            broker.choose_ports()
            broker.settings["advertised.listeners"] = f"PLAINTEXT://{broker.bootstrap}"
        broker.start()
        try:
            return _run_external(broker.bootstrap, mode, tests, home)
        finally:
            broker.stop()


def _run_secured(kind: str, tests: list[str], home: Path) -> list[Outcome]:
    distribution.write(home / "kafka", kind)
    environment = {
        "KAFKA_VERSION": MODES[0],
        "KAFKA_ROOT": str(home / "kafka"),
        "PROJECT_ROOT": str(FOLDER / "stand_in"),  # the templates of the brokers' files
    }
    return _pytest(environment, [str(_integration() / name) for name in SECURED_FILES], tests, home)


def _run_external(bootstrap: str, mode: str, tests: list[str], home: Path) -> list[Outcome]:
    environment = {
        "KAFKA_URI": f"kafka://{bootstrap}",
        "KAFKA_VERSION": mode,
        "KAFKA_ROOT": str(home),  # must be a folder; the tests start nothing from it
    }
    folder = _integration()
    return _pytest(environment, [f"--ignore={folder / SECURED_FILES[1]}", str(folder)], tests, home)


def _integration() -> Path:
    return sources() / "test" / "integration"


def _pytest(environment: dict[str, str], files: list[str], tests: list[str], home: Path) -> list[Outcome]:
    root, report = sources(), home / "report.xml"
    own = {"KAFKA_PYTHON_SOURCES": str(root), "PYTHONPATH": str(FOLDER / "stand_in")}
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-o", "log_level=WARNING"]
    command += ["-c", str(root / "pyproject.toml"), f"--rootdir={root}", f"--junitxml={report}", "-W", "ignore"]
    command += [*files, *(["-k", " or ".join(tests)] if tests else [])]
    everything = {**os.environ, **own, **environment}
    done = subprocess.run(command, env=everything, cwd=home, capture_output=True, text=True, check=False, timeout=600)
    if not report.exists():
        raise RuntimeError(f"pytest ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return [_outcome(case) for case in ElementTree.parse(report).iter("testcase")]


def _outcome(case: ElementTree.Element) -> Outcome:
    module = str(case.get("classname")).rpartition(".")[2]
    test, seconds = f"{module}::{case.get('name')}", float(case.get("time", 0))
    for tag, state in (("error", "failed"), ("failure", "failed"), ("skipped", "skipped")):
        found = case.find(tag)
        if found is not None:
            words = str(found.get("message")).splitlines()
            return Outcome(test, state, words[0] if words else "", seconds)
    return Outcome(test, "passed", "", seconds)


def main() -> int:
    """The command line."""
    parser = arguments(__package__, "kafka-python's own integration tests")
    parser.add_argument(
        "--mode", choices=(*MODES, SECURED), default=MODES[0], help="the version that the client speaks"
    )
    options = parser.parse_args()
    return carry_out(
        suite(options.mode),
        options.broker,
        lambda: run(options.broker, options.mode, options.tests),
        options.record,
    )
