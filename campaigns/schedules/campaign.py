"""Groups and transactions on a virtual clock: seeded schedules of members and producers, and what must hold in them.

    .venv/bin/python campaigns/schedules/campaign.py --count 100000 --seed 1 --jobs 2
    .venv/bin/python campaigns/schedules/campaign.py --seed 4711 --count 1        # that one again, exactly

The coordinators, their handlers and the partitions' logs are the broker's own, on a simulated disk and virtual time
(`campaigns/schedules/world.py`, which also says what goes wrong). Odd seeds are schedules of transactional producers
(`campaigns/schedules/transactions.py`), even ones of members of groups (`campaigns/schedules/groups.py`); both say what
must hold.

Ends with status 1 and the seeds at fault.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from campaigns import seeds as campaign
from campaigns.schedules import groups, transactions
from campaigns.schedules.world import Violation

CHUNK = 250


def run_seed(seed: int, *, verbose: bool = False) -> tuple[Counter[str], str | None]:
    """One schedule; what happened in it, counted, and what went wrong."""
    schedule = transactions.Schedule(seed) if seed % 2 else groups.Schedule(seed)
    schedule.world.verbose = verbose
    counts = schedule.world.counts
    try:
        schedule.run()
    except Violation as violation:
        return counts, f"seed {seed}: {violation}"
    except Exception:
        return counts, f"seed {seed}: {traceback.format_exc(limit=-8)}"
    return counts, None


def run_seeds(first: int, count: int, step: int = 1, *, failures_max: int = 10) -> campaign.Found:
    """Many schedules, one after the other."""
    return campaign.run_all(range(first, first + count * step, step), run_seed, "schedules", failures_max)


def _part(part: tuple[int, int, int]) -> campaign.Found:
    return run_seeds(*part)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=("groups", "transactions"), help="of the seeds from the first one on")
    parser.add_argument("--verbose", action="store_true", help="show what happens in the one seed")
    arguments = parser.parse_args()
    if arguments.verbose:
        print(run_seed(arguments.seed, verbose=True)[1])
        return 0
    started = time.monotonic()
    first, step = arguments.seed, 1
    if arguments.only is not None:
        first, step = first + (first % 2 != (arguments.only == "transactions")), 2
    counts_of_parts = [min(CHUNK, arguments.count - done) for done in range(0, arguments.count, CHUNK)]
    parts = [(first + position * CHUNK * step, count, step) for position, count in enumerate(counts_of_parts)]
    counts: Counter[str] = Counter()
    failures: list[str] = []
    with multiprocessing.get_context("spawn").Pool(arguments.jobs, silence) as pool:
        for happened, found in pool.imap_unordered(_part, parts):
            counts += happened
            failures += found
            for failure in found:
                print(failure, flush=True)
            rate = counts["schedules"] / (time.monotonic() - started)
            print(f"\r{counts['schedules']} schedules, {rate:.0f}/s, {len(failures)} findings", end="", file=sys.stderr)
    print(file=sys.stderr)
    seconds = round(time.monotonic() - started, 1)
    summary = {"campaign": "schedules", "seed": arguments.seed, "seconds": seconds, **dict(sorted(counts.items()))}
    print(json.dumps(summary))
    for failure in failures:
        print(failure)
    return 1 if failures else 0


def silence() -> None:
    """No log, and little collecting."""
    campaign.silence()
    gc.set_threshold(50_000)  # a schedule leaves little behind that is not freed without it


if __name__ == "__main__":
    sys.exit(main())
