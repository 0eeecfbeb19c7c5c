"""One class of JUnit tests, run by JUnit's console launcher in a JVM of its own, and the outcomes in its reports."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from compat_tests.suites.suite import Outcome
from harness.kafka_jars import java_command
from harness.paths import ROOT

HEAP = "1500m"
_ABORTED = "org.opentest4j.TestAbortedException: "
_ENDS = (("failure", "failed"), ("error", "failed"), ("skipped", "skipped"))


def run_class(
    name: str, options: Iterable[str], path: str, home: Path, *, brokers: Sequence[str], timeout_s: float
) -> list[Outcome]:
    """Run what ``options`` of the launcher select of a class; its output and reports stay in ``home``.

    ``path``: the class path; ``brokers``: the command that starts brokers, for the classes that replace Kafka's.
    Where no test ran, "CLASS.(the class)" has failed.
    """
    home.mkdir(parents=True, exist_ok=True)
    command = java_command(
        *("-cp", path, "org.junit.platform.console.ConsoleLauncher", "execute", *options),
        *(f"--reports-dir={home / 'reports'}", "--details=none", "--disable-banner"),
        heap=HEAP,
        options=["-Dkwire.suite.brokers=" + "\n".join(brokers), f"-Djava.io.tmpdir={home}"],
    )
    begun = time.monotonic()
    with open(home / "output.log", "wb") as log, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, stdout=log, stderr=log, cwd=ROOT, timeout=timeout_s, check=False)
    found = [one for report in sorted((home / "reports").glob("*.xml")) for one in read(report)]
    if not found:
        last = (home / "output.log").read_text(errors="replace")[-2000:]
        return [Outcome(f"{name}.(the class)", "failed", last, time.monotonic() - begun)]
    return found


def read(report: Path) -> Iterator[Outcome]:
    """The outcomes in one of JUnit's reports: ``CLASS.METHOD``, with the number of the invocation where there are
    several."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = case.attrib["classname"].rpartition(".")[2]
        method = case.attrib["name"].replace("(ClusterInstance)", "").replace("()", "").replace(" ", "")
        state, reason = "passed", ""
        for tag, end in _ENDS:
            element = case.find(tag)
            if element is not None:
                text = element.attrib.get("message") or element.text or ""
                state, reason = end, next(iter(text.strip().splitlines()), "").removeprefix(_ABORTED)
        yield Outcome(f"{name}.{method}", state, reason[:300], float(case.attrib.get("time", "0")))
