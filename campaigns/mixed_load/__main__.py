"""Hours of mixed load on one broker: nothing may grow, and nothing may become slower.

    .venv/bin/python -m campaigns.mixed_load --minutes 120

librdkafka's clients, over TLS and without, do all of this at once: two producers write to a topic with short retention,
which a group of two members reads; members of other groups join, read and leave; transactions are committed and
aborted, and read with read_committed; topics are created, written to and deleted. A probe produces single records at a
steady rate and measures each response.

The load stops twice, after a quarter of the time and at its end. Once the clients are gone, the broker's memory, file
descriptors, threads and asyncio tasks (from its dump, SIGUSR1) are measured; in a run of ten minutes or more half a
minute later, in which it gives back the memory that it does not use. At the end there may be at most 5 % more memory
than after the quarter, and no descriptor or task more. Descriptors of log files do not count, unless the file is
deleted: which are open depends on what was used last, and there is a limit. Threads are only reported, because a pool
makes them when it needs them, up to its limit. The probe's p99 is taken in windows of a hundredth of the time; the
median of the last third may be at most half as high again as that of the middle third. In runs of less than ten
minutes, memory may grow by 4 MB more, and p99 is only reported: caches still fill, and there are few windows. A line of
JSON at the end has all numbers; the exit status is 1 if something grew.

A client that does not go on for four minutes, or does not end, is a failure as well; standard error gets the stacks of
all threads and the broker's dump then, while it waits.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from campaigns.command_line import campaign_parser
from campaigns.mixed_load.campaign import complaints, run, thirds


def main() -> int:
    """The command line; 1 if something grew."""
    parser = campaign_parser("mixed_load", __doc__)
    parser.add_argument("--minutes", type=float, default=120.0, help="how long the load lasts in all (default: 120)")
    parser.add_argument("--debug", default="", help="librdkafka's debug contexts, written to standard error")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="kwire-mixed-load-"))
    try:
        outcome = run(options.minutes, home, options.debug)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    found = complaints(outcome)
    for line in found:
        print(line, file=sys.stderr)
    middle, last = thirds(outcome.p99_ms)
    facts = {**asdict(outcome), "p99_middle_third_ms": middle, "p99_last_third_ms": last, "complaints": found}
    print(json.dumps(facts))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
