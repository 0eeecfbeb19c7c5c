"""Random schedules of group members and transactional producers on a virtual clock, and their invariants.

    .venv/bin/python -m campaigns.schedules --count 100000 --seed 1 --jobs 2
    .venv/bin/python -m campaigns.schedules --seed 4711 --count 1        # repeat one schedule exactly

The coordinators, handlers and logs are the broker's own, on a simulated disk and virtual time. `world` describes the
failures. Odd seeds are schedules of transactional producers (`transactions`), even seeds of group members (`groups`);
both modules describe their invariants.

If an invariant is violated, the exit status is 1 and the seeds are printed.
"""

from __future__ import annotations

import gc
import multiprocessing
import sys
import time
import traceback
from collections import Counter

from campaigns import seeds
from campaigns.command_line import campaign_parser, report
from campaigns.schedules import groups, transactions
from campaigns.schedules.world import Violation

CHUNK = 250


def run_seed(seed: int, *, verbose: bool = False) -> tuple[Counter[str], str | None]:
    """Run one schedule. Returns the counts of events, and the violation if there is one."""
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


def run_seeds(first: int, count: int, step: int = 1, *, failures_max: int = 10) -> seeds.Found:
    """Run many schedules, one after the other."""
    return seeds.run_all(range(first, first + count * step, step), run_seed, "schedules", failures_max)


def _part(part: tuple[int, int, int]) -> seeds.Found:
    return run_seeds(*part)


def main() -> int:
    """The command line; 1 if a seed fails."""
    parser = campaign_parser("schedules", __doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=("groups", "transactions"), help="run only these schedules")
    parser.add_argument("--verbose", action="store_true", help="print the events of one seed")
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
    return report({"campaign": "schedules", "seed": arguments.seed}, started, (counts, failures), len(failures))


def silence() -> None:
    """Switch the log off, and collect garbage less often."""
    seeds.silence()
    gc.set_threshold(50_000)  # a schedule leaves few reference cycles


if __name__ == "__main__":
    sys.exit(main())
