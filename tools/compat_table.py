"""Write the generated parts of COMPAT.md: the table of API keys and versions, and the results of others' suites.

    .venv/bin/python -m tools.compat_table            starts Apache Kafka 4.3.1, rewrites both
    .venv/bin/python -m tools.compat_table --check    changes nothing; the exit status is 1 if the file is out of date
    .venv/bin/python -m tools.compat_table --suites   only the suites, without starting anything

Kafka's API versions come from a running broker, kwire's from its registry of handlers. The suites' results come from
their recorded runs in `compat_tests/suites/results`. `compat_tests/documents/test_documents.py` checks both.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.paths import ROOT
from harness.processes.brokers import make_broker
from harness.wire_client import WireClient
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.protocol import ApiKey
from kwire.handlers.registry import Registry

COMPAT = ROOT / "COMPAT.md"
START, END = "<!-- api table: tools/compat_table.py -->", "<!-- end of api table -->"
SUITES_START, SUITES_END = "<!-- others' suites: tools/compat_table.py -->", "<!-- end of others' suites -->"
RESULTS = ROOT / "compat_tests" / "suites" / "results"
Ranges = dict[int, tuple[int, int]]


def advertised(bootstrap: str) -> Ranges:
    """First and last version by API key, from a running broker."""
    with WireClient(bootstrap) as client:
        request = ApiVersionsRequest(client_software_name="compat-table", client_software_version="1")
        keys = client.call(request, 4).api_keys
    return {one.api_key: (one.min_version, one.max_version) for one in keys}


def kwire_ranges() -> Ranges:
    """The same from kwire's handlers, without a broker: like Kafka's, one to which no client's metrics are pushed."""
    return {key: (first, last) for key, first, last in Registry.advertised(with_telemetry=False)}


def api_name(key: int) -> str:
    """Kafka's name of an API: PRODUCE -> Produce."""
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


def render(kafka: Ranges, kwire: Ranges) -> str:
    """The table as Markdown."""
    lines = ["| key | API | Kafka 4.3 | kwire |", "| --- | --- | --- | --- |"]
    for key in sorted(kafka.keys() | kwire.keys()):
        lines.append(f"| {key} | {api_name(key)} | {_span(kafka.get(key))} | {_span(kwire.get(key))} |")
    whole = sum(kwire.get(key) == span for key, span in kafka.items())
    lines += ["", f"{whole} of the {len(kafka)} APIs that Kafka 4.3 advertises are served in every version."]
    return "\n".join(lines)


def _span(versions: tuple[int, int] | None) -> str:
    return "-" if versions is None else f"{versions[0]} - {versions[1]}"


def written(column: str) -> Ranges:
    """The versions in COMPAT.md, from the column "Kafka 4.3" or "kwire"."""
    index = {"Kafka 4.3": 3, "kwire": 4}[column]
    ranges: Ranges = {}
    for line in COMPAT.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if re.match(r"\| \d+ \|", line) and cells[index] != "-":
            low, high = cells[index].split(" - ")
            ranges[int(cells[1])] = (int(low), int(high))
    return ranges


def suites() -> list[dict[str, Any]]:
    """The recorded results of others' suites, by name and version."""
    results = (json.loads(path.read_text()) for path in RESULTS.glob("*.json"))
    return sorted(results, key=lambda each: (each["suite"], each["version"]))


def render_suites(results: list[dict[str, Any]]) -> str:
    """Results as Markdown: a table, then every test that failed or was skipped, with the reason."""
    lines = ["| suite | version | on Apache Kafka | on kwire | kwire at |", "| --- | --- | --- | --- | --- |"]
    for each in results:
        kwire = each.get("kwire", {})
        at = f"{kwire['date']}, {kwire['commit']}" if kwire else "-"
        lines.append(
            f"| {each['suite']} | {each['version']} | {_side(each, 'kafka')} | {_side(each, 'kwire')} | {at} |"
        )
    lines += ["", "Passed / failed / skipped. By name:", "", *_by_name(results)]
    return "\n".join(lines)


def _side(result: dict[str, Any], kind: str) -> str:
    side = result.get(kind)
    return f"{side['passed']} / {side['failed']} / {side['skipped']}" if side else "not run"


def _by_name(results: list[dict[str, Any]]) -> Iterator[str]:
    """Every test that failed or was skipped: tests of a suite with one reason share a line, as do suites in which the
    same tests ended alike."""
    suites: dict[str, list[str]] = {}
    for each in results:
        for ends_and_reason, tests in _alike(each).items():
            names = ", ".join(f"`{test}`" for test in tests)
            suites.setdefault(f"{names} {ends_and_reason}", []).append(each["suite"])
    for what, names_of_suites in suites.items():
        yield f"- {'; '.join(names_of_suites)}: {what}"


def _alike(result: dict[str, Any]) -> dict[str, list[str]]:
    """The tests of a suite that failed or were skipped, by how they ended and why."""
    alike: dict[str, list[str]] = {}
    for one in [*result.get("red", ()), *result.get("skipped", ())]:
        ends = ", ".join(f"{kind} {end}" for kind, end in sorted(result["tests"].get(one["test"], {}).items()))
        alike.setdefault(f"({ends}): {one['reason']}", []).append(one["test"])
    return alike


def refresh_suites() -> None:
    """Put the recorded results into COMPAT.md, as a recording run does at its end."""
    text = COMPAT.read_text()
    COMPAT.write_text(put(text, SUITES_START, SUITES_END, render_suites(suites())))


def put(text: str, start: str, end: str, content: str) -> str:
    """The text with what is between two marks replaced."""
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"COMPAT.md has no {start} ... {end}")
    return f"{before}{start}\n\n{content}\n\n{end}{after}"


def advertised_by_kafka() -> Ranges:
    """The versions that Apache Kafka advertises, from a broker started for this purpose."""
    with tempfile.TemporaryDirectory(prefix="kwire-compat-") as folder:
        kafka = make_broker("kafka", Path(folder))
        kafka.start()
        try:
            return advertised(kafka.bootstrap)
        finally:
            kafka.kill()


def main() -> int:
    """The command line; with --check, 1 if COMPAT.md is out of date."""
    parser = argparse.ArgumentParser(description="what is generated in COMPAT.md")
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--suites", action="store_true", help="only the results of others' suites")
    arguments = parser.parse_args()
    text = COMPAT.read_text()
    new = put(text, SUITES_START, SUITES_END, render_suites(suites()))
    if not arguments.suites:
        new = put(new, START, END, render(advertised_by_kafka(), kwire_ranges()))
    if new == text:
        return 0
    if arguments.check:
        print("COMPAT.md is not true; run tools/compat_table.py", file=sys.stderr)
        return 1
    COMPAT.write_text(new)
    print("COMPAT.md: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
