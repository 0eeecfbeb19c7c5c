"""What the campaigns of seeds have in common: one seed after the other, shares of them on several processes, a summary
as a line of JSON. What a seed does, and what went wrong in it, is theirs to say.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable

Found = tuple[Counter[str], list[str]]
"""What happened, counted, and the failures."""


def run_all(
    seeds: Iterable[int], run_seed: Callable[[int], tuple[Counter[str], str | None]], unit: str, failures_max: int = 10
) -> Found:
    """Seed after seed, counted as ``unit``, until there are so many failures."""
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


def main(name: str, doc: str | None, run: Callable[[int, int], Found], *, count: int) -> int:
    """The command line around ``run`` (first seed and count, by default ``count``); its exit status."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=count, help="how many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1)
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
    seconds = round(time.monotonic() - started, 1)
    print(json.dumps({"campaign": name, "seed": arguments.seed, "seconds": seconds, **dict(sorted(counts.items()))}))
    for failure in failures:
        print(failure)
    return 1 if failures else 0


def silence() -> None:
    """No log: what is complained about there is daily work here."""
    from kwire.base.logging import configure

    configure(level="FATAL")
