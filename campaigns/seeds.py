"""What campaigns of seeds share: running one seed after the other, on several processes, and a summary in JSON.

Each campaign defines what a seed does, and what counts as a failure.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable

from campaigns.command_line import campaign_parser, report

Found = tuple[Counter[str], list[str]]
"""Counts of what happened, and the failures."""


def run_all(
    seeds: Iterable[int], run_seed: Callable[[int], tuple[Counter[str], str | None]], unit: str, failures_max: int = 10
) -> Found:
    """Run seeds until ``failures_max`` have failed. Each seed counts as one ``unit``."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for seed in seeds:
        happened, failure = run_seed(seed)
        counts += happened
        counts[unit] += 1
        if failure is not None:
            failures.append(failure)
            if len(failures) >= failures_max:
                break
    return counts, failures


def main(module: str, name: str, doc: str | None, run: Callable[[int, int], Found], *, count: int) -> int:
    """The command line of the campaign `campaigns.MODULE` around ``run`` (first seed and count, by default ``count``);
    its exit status. ``name`` stands in the summary."""
    parser = campaign_parser(module, doc)
    parser.add_argument("--count", type=int, default=count, help="how many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the seeds")
    arguments = parser.parse_args()
    started = time.monotonic()
    share = -(-arguments.count // arguments.jobs)
    parts = [
        (first, min(share, arguments.seed + arguments.count - first))
        for first in range(arguments.seed, arguments.seed + arguments.count, share)
    ]
    with multiprocessing.get_context("spawn").Pool(arguments.jobs, silence) as pool:
        results = pool.starmap(run, parts)
    counts = sum((part for part, _ in results), Counter[str]())
    failures = [failure for _, part in results for failure in part]
    return report({"campaign": name, "seed": arguments.seed}, started, (counts, failures), len(failures))


def silence() -> None:
    """Turn the log off: a campaign causes on purpose what the log warns of."""
    from kwire.base.logging import configure

    configure(level="FATAL")
