"""Write the table of API keys and versions in COMPAT.md: what Apache Kafka advertises beside what kwire does.

    .venv/bin/python scripts/compat_table.py            starts Apache Kafka 4.3.1, rewrites the table
    .venv/bin/python scripts/compat_table.py --check    changes nothing, ends with 1 when the table is not true

Kafka's side is asked from a started broker, kwire's side is its registry of handlers. `compat_tests/clients` hold the
written table to both brokers.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from compat_tests.brokers import make_broker
from compat_tests.wire import WireClient
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.protocol import ApiKey
from kwire.handlers.registry import Registry

COMPAT = ROOT / "COMPAT.md"
START, END = "<!-- api table: scripts/compat_table.py -->", "<!-- end of api table -->"
Ranges = dict[int, tuple[int, int]]


def advertised(bootstrap: str) -> Ranges:
    """API key -> first and last version, as a running broker says."""
    with WireClient(bootstrap) as client:
        request = ApiVersionsRequest(client_software_name="compat-table", client_software_version="1")
        keys = client.call(request, 4).api_keys
    return {one.api_key: (one.min_version, one.max_version) for one in keys}


def kwire_ranges() -> Ranges:
    """The same from kwire's handlers, without a broker."""
    return {key: (first, last) for key, first, last in Registry.load().advertised()}


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
    """What COMPAT.md says in the column "Kafka 4.3" or "kwire"."""
    index = {"Kafka 4.3": 3, "kwire": 4}[column]
    ranges: Ranges = {}
    for line in COMPAT.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if re.match(r"\| \d+ \|", line) and cells[index] != "-":
            low, high = cells[index].split(" - ")
            ranges[int(cells[1])] = (int(low), int(high))
    return ranges


def main() -> int:
    parser = argparse.ArgumentParser(description="the table of API versions in COMPAT.md")
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kwire-compat-") as folder:
        kafka = make_broker("kafka", Path(folder))
        kafka.start()
        try:
            theirs = advertised(kafka.bootstrap)
        finally:
            kafka.kill()
    text = COMPAT.read_text()
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    table = f"{before}{START}\n\n{render(theirs, kwire_ranges())}\n\n{END}{after}"
    if table == text:
        return 0
    if arguments.check:
        print("the table in COMPAT.md is not true; run scripts/compat_table.py", file=sys.stderr)
        return 1
    COMPAT.write_text(table)
    print("COMPAT.md: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
