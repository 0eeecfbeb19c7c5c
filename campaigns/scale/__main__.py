"""Simulated clusters of many brokers and partitions: what each step of their life costs, and how costs grow.

    .venv/bin/python -m campaigns.scale --brokers 3 10 --partitions 1000 10000
    .venv/bin/python -m campaigns.scale --brokers 50 --partitions 10000 --record
    .venv/bin/python -m campaigns.scale --brokers 3 --partitions 1000 4000 --calls

Each size runs in a process of its own, kwire's own brokers on simulated time, disks and network. Printed are counts,
which are the same in every run, and the processor time and the memory of the whole cluster. With ``--record`` the
results go to docs/scale.json (other sizes in it stay), docs/scale.txt and docs/scale.svg. With ``--calls`` calls of
kwire's functions are counted, which takes twice as long, and those are listed that grow most from the smallest to the
largest number of partitions. A size that needs more than ``--memory-gb`` fails.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from campaigns.command_line import campaign_parser
from campaigns.scale.life import Outcome, Size, live_apart
from campaigns.scale.report import Row, picture, table
from harness.paths import ROOT

DOCS = ROOT / "docs"
LISTED = 25
CALLS_MIN = 1000


def main(arguments: list[str] | None = None) -> int:
    """The command line; 1 if a size failed."""
    parser = campaign_parser("scale", __doc__)
    parser.add_argument("--brokers", type=int, nargs="+", default=[3])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1000])
    parser.add_argument("--topic-partitions", type=int, default=100, help="of each topic (default: 100)")
    parser.add_argument("--memory-gb", type=float, default=20.0, help="what one size may take (default: 20)")
    parser.add_argument("--calls", action="store_true", help="count calls of functions")
    parser.add_argument(
        "--record", type=Path, nargs="?", const=DOCS, help="write scale.{json,txt,svg} to docs, or to another directory"
    )
    options = parser.parse_args(arguments)
    rows, outcomes, failed = [], [], False
    for brokers in options.brokers:
        for partitions in options.partitions:
            size = Size(brokers, partitions, min(options.topic_partitions, partitions))
            started = time.monotonic()
            try:
                outcome = live_apart(size, options.memory_gb, count_calls=options.calls)
            except Exception as error:
                print(f"{size}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
                failed = True
                continue
            print(f"{size}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
            outcomes.append(outcome)
            rows.append(_row(outcome))
            if options.record:
                record([_row(outcome)], options.record)
    if rows:
        print(table(rows))
    if options.calls and len(outcomes) > 1:
        print("\n".join(growing(outcomes[0], outcomes[-1])))
    return 1 if failed else 0


def _row(outcome: Outcome) -> Row:
    size = outcome.size
    return {
        "brokers": size.brokers,
        "partitions": size.partitions,
        "topic_partitions": size.topic_partitions,
        "when": time.strftime("%Y-%m-%d", time.gmtime()),
        "image_bytes": round(outcome.image_bytes),
        "steps": [step.as_dict() for step in outcome.steps],
    }


def growing(small: Outcome, large: Outcome) -> list[str]:
    """The functions whose calls grow most from one size to a larger one: the exponent, and the calls at both."""
    ratio = math.log(large.size.partitions / small.size.partitions)
    lines = []
    for step, calls in large.calls.items():
        before = Counter(small.calls[step])
        found = sorted(
            (
                (math.log(count / max(before[name], 1)) / ratio, before[name], count, name)
                for name, count in calls.items()
                if count >= CALLS_MIN
            ),
            reverse=True,
        )
        lines += [
            f"{step}:",
            *(f"  {power:5.2f} {old:>10,} {new:>12,}  {name}" for power, old, new, name in found[:LISTED]),
        ]
    return lines


def record(rows: list[Row], directory: Path) -> None:
    """Write the results beside those of other sizes in ``directory``: scale.json, scale.txt, scale.svg."""
    path = directory / "scale.json"
    known: dict[tuple[int, int], Any] = {}
    if path.exists():
        known = {(row["brokers"], row["partitions"]): row for row in json.loads(path.read_text())}
    known |= {(row["brokers"], row["partitions"]): row for row in rows}
    every = [known[key] for key in sorted(known)]
    path.write_text(json.dumps(every, indent=1) + "\n")
    (directory / "scale.txt").write_text(table(every).rstrip() + "\n")
    dates = sorted({row["when"] for row in every})
    when = f"{dates[0]} to {dates[-1]}" if len(dates) > 1 else dates[0]
    footnote = f"dashed: linear, or constant · simulated, three replicas · {when}"
    (directory / "scale.svg").write_text(picture(every, footnote))


if __name__ == "__main__":
    sys.exit(main())
