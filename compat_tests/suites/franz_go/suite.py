"""franz-go's own tests of its client (package `kgo`): fetched as the Go module, built once, run on three brokers.

They produce, consume and copy in transactions, with groups of all kinds, share groups included, and many members at
once, and check that each record arrives once and in order, or is accepted once. Topics have three replicas. The
settings are Kafka's defaults; those of the cluster are in `harness/processes/clusters.py`. With ``--tls`` all clients
use TLS, and the two tests of SCRAM run as well (`entrances`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from compat_tests.suites.franz_go import entrances
from compat_tests.suites.suite import CannotBuild, Outcome, Suite, arguments, carry_out
from harness.downloads import CommandFailed, downloaded
from harness.kafka_jars import cache_root, locked

FOLDER = Path(__file__).parent
MODULE, VERSION = "github.com/twmb/franz-go", "v1.22.2"
RECORDS = 100_000
SETTINGS = {"auto.create.topics.enable": "true"}
LEFT_OUT = {False: "SCRAM", True: "TestIssue769"}  # with TLS or without (findings.md)
SCRAM = 256
LIMIT_S = 900
_ENDED = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+) \((\d+\.\d+)s\)$", re.M)
_DONE = re.compile(r"^(?:PASS|FAIL)$", re.M)
_TURN = re.compile(r"^=== (?:RUN|CONT|NAME) +(\w+)$", re.M)
_MESSAGE = re.compile(r"^ +\w+_test\.go:\d+: (.*)$", re.M)
_CLEANING = re.compile("deleting (topic|group)", re.I)
_STATES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def suite(tls: bool = False) -> Suite:
    """The suite at the pinned version, with TLS or without."""
    version = VERSION.removeprefix("v")
    if tls:
        return Suite("franz_go-tls", "franz-go's own tests with TLS and SCRAM", version, FOLDER, "allowed-tls.txt")
    return Suite("franz_go", "franz-go's own tests", version, FOLDER)


def program() -> Path:
    """The compiled tests, in the folder of their sources; built on first use (a minute). Raises `CannotBuild`."""
    if shutil.which("go") is None:
        raise CannotBuild("needs go on PATH, not found")
    home = cache_root() / f"franz-go-{VERSION}"
    folder = home / "pkg" / "kgo"
    with locked("franz-go"):
        if not (folder / "kgo.test").exists():
            _build(home)
    return folder / "kgo.test"


def _build(home: Path) -> None:
    print(f"building the tests of franz-go {VERSION} in {home} (once) ...", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=cache_root()) as place:
        (Path(place) / "go.mod").write_text("module fetch\n")
        downloaded = _go("mod", "download", "-json", f"{MODULE}@{VERSION}", cwd=Path(place))
    shutil.copytree(json.loads(downloaded)["Dir"], home, copy_function=shutil.copyfile)
    for folder in (home, *home.rglob("*")):
        folder.chmod(0o755 if folder.is_dir() else 0o644)  # the module cache is read-only
    _go("test", "-c", "-o", "kgo.test", ".", cwd=home / "pkg" / "kgo")


def _go(*words: str, cwd: Path) -> str:
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    try:
        return downloaded(f"go {words[0]}", ["go", *words], cwd=cwd, env=environment)
    except CommandFailed as error:
        raise CannotBuild(str(error)) from None


def run(kind: str, tests: list[str], records: int = RECORDS, tls: bool = False, scram: int = SCRAM) -> list[Outcome]:
    """Run the tests (all, or those with one of these names) on three new brokers. ``scram``: 256 or 512, for those of
    SCRAM."""
    tests_program = program()
    command = [str(tests_program), "-test.v", f"-test.timeout={LIMIT_S}s", f"-test.skip={LEFT_OUT[tls]}"]
    if tests:
        command.append(f"-test.run=^({'|'.join(tests)})$")
    with (
        tempfile.TemporaryDirectory(prefix="franz-go-") as folder,
        _entrance(kind, Path(folder), tls, scram) as entrance,
        tempfile.TemporaryFile("w+") as output,
    ):
        environment = {**os.environ, **entrance, "KGO_TEST_RECORDS": str(records)}
        with contextlib.suppress(subprocess.TimeoutExpired):  # the tests that have ended count, too
            subprocess.run(
                command,
                cwd=tests_program.parent,
                env=environment,
                stdout=output,
                stderr=output,
                timeout=LIMIT_S + 60,
                check=False,
            )
        output.seek(0)
        return _outcomes(output.read())


def _entrance(kind: str, home: Path, tls: bool, scram: int) -> AbstractContextManager[dict[str, str]]:
    return entrances.secured(kind, home, SETTINGS, scram) if tls else entrances.plaintext(kind, home, SETTINGS)


def _outcomes(output: str) -> list[Outcome]:
    """The outcome of each test that ended, and a failure if the program itself did not end in order."""
    found = []
    for state, test, seconds in _ENDED.findall(output):
        reason = "" if state == "PASS" else _why(output, test)
        found.append(Outcome(test, _STATES[state], reason, float(seconds)))
    if not _DONE.search(output):
        found.append(Outcome("(the program)", "failed", " ".join(output[-300:].split())))
    return sorted(found, key=lambda one: one.test)


def _why(output: str, test: str) -> str:
    """The first message of a failed test, apart from its clean-up; the output of parallel tests is interleaved."""
    parts = _TURN.split(output)
    own = "\n".join(text for name, text in zip(parts[1::2], parts[2::2], strict=True) if name == test)
    return next((line[:300] for line in _MESSAGE.findall(own) if not _CLEANING.search(line)), "")


def main() -> int:
    """The command line."""
    parser = arguments(__package__, "franz-go's own tests of its client, on three brokers")
    parser.add_argument(
        "--records", type=int, default=RECORDS, help=f"how many records each test copies (default: {RECORDS})"
    )
    parser.add_argument("--tls", action="store_true", help="over TLS, with the tests of SCRAM")
    parser.add_argument("--scram", type=int, choices=(256, 512), default=SCRAM, help=f"their digest (default: {SCRAM})")
    options = parser.parse_args()
    return carry_out(
        suite(options.tls),
        options.broker,
        lambda: run(options.broker, options.tests, options.records, options.tls, options.scram),
        options.record,
    )
