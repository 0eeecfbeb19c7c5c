"""What the command lines of campaigns share: ``python -m campaigns.NAME`` with the module's docstring as its help, and
the report at the end: a line of JSON, then what was found. The exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from typing import Final

Found = tuple[Mapping[str, int], list[str]]
"""Counts of what happened, and what was found."""

FINDINGS_MAX: Final = 20
"""Findings that are printed."""


def campaign_parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """A parser without options for the campaign `campaigns.NAME`. Parsing comes first: `--help` starts nothing."""
    return argparse.ArgumentParser(
        prog=f"python -m campaigns.{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def report(facts: Mapping[str, object], started: float, found: Found, findings_max: int = FINDINGS_MAX) -> int:
    """Print what was run, for how long (``started``: `time.monotonic` then) and what was found; the exit status."""
    counts, findings = found
    seconds = round(time.monotonic() - started, 1)
    print(json.dumps({**facts, "seconds": seconds, **dict(sorted(counts.items())), "findings": len(findings)}))
    for finding in findings[:findings_max]:
        print(finding)
    return 1 if findings else 0


def main_of_cases(name: str, doc: str | None, run: Callable[[int, int], Found], *, cases: int, what: str) -> int:
    """The command line of a campaign of random cases around ``run`` (number of cases and seed); its exit status.
    ``cases``: how many by default; ``what`` they are."""
    parser = campaign_parser(name, doc)
    parser.add_argument("--cases", type=int, default=cases, help=f"how many {what} (default: {cases:,})")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.monotonic()
    found = run(arguments.cases, arguments.seed)
    return report({"campaign": name, "seed": arguments.seed, "cases": arguments.cases}, started, found)
