"""Break promises on purpose, one at a time, and see that a campaign notices each: the proof that campaigns can fail.

    .venv/bin/python -m campaigns.mutants                  # all families
    .venv/bin/python -m campaigns.mutants --list           # families and mutants, with what each breaks
    .venv/bin/python -m campaigns.mutants logs one-marker-missing

Each mutant is a patch of the running code for the length of a small campaign, which must then find something. The exit
status is 1 if a mutant survives.
"""

from __future__ import annotations

import gc
import sys
import time
from typing import NamedTuple

from campaigns.archive import mutants as backups
from campaigns.command_line import campaign_parser
from campaigns.mutants import (
    access,
    acl_changes,
    acls,
    cluster,
    logins,
    logs,
    quotas,
    schedules,
    share,
    share_cluster,
    share_state,
    streams_groups,
    tls,
    transactions,
)
from campaigns.mutants.mutant import Mutant
from campaigns.schemas import mutants as schemas
from campaigns.seeds import silence
from campaigns.segment_files import mutants as segment_files

COLLECT_AFTER = 50_000
"""The garbage collector's threshold: schedules leave few reference cycles behind."""


class Family(NamedTuple):
    """Mutants of one part of kwire, by name. ``first``: the seed that their campaigns start with."""

    mutants: dict[str, Mutant]
    first: int = 0


FAMILIES = {
    "logs": Family(logs.LOG_MUTANTS),
    "transactions": Family(transactions.TRANSACTION_MUTANTS),
    "schedules": Family(schedules.MUTANTS),
    "cluster": Family(cluster.MUTANTS, first=1),
    "logins": Family(logins.MUTANTS),
    "tls": Family(tls.MUTANTS),
    "acls": Family(acls.MUTANTS, first=1),
    "acl-changes": Family(acl_changes.MUTANTS, first=1),
    "access": Family(access.MUTANTS, first=1),
    "backups": Family(backups.MUTANTS, first=1),
    "quotas": Family(quotas.MUTANTS, first=1),
    "schemas": Family(schemas.MUTANTS, first=1),
    "segment-files": Family(segment_files.MUTANTS, first=1),
    "share": Family(share.MUTANTS, first=1),
    "share-state": Family(share_state.MUTANTS, first=1),
    "share-cluster": Family(share_cluster.MUTANTS, first=1),
    "streams-groups": Family(streams_groups.MUTANTS, first=1),
}


def show_list() -> None:
    """Print every mutant under its family."""
    for family, (mutants, _) in FAMILIES.items():
        print(f"{family} ({len(mutants)} mutants)")
        for name, mutant in mutants.items():
            print(f"    {name:40} breaks: {mutant.breaks}")


def chosen(words: list[str]) -> list[tuple[str, Mutant, int]]:
    """Name, mutant and first seed of all that the words name: families or mutants; without words, all of them."""
    found = []
    for family, (mutants, first) in FAMILIES.items():
        for name, mutant in mutants.items():
            if not words or family in words or name in words:
                found.append((name, mutant, first))
    return found


def main() -> int:
    """The command line; 1 if a mutant survives."""
    parser = campaign_parser("mutants", __doc__)
    names = {*FAMILIES, *(name for mutants, _ in FAMILIES.values() for name in mutants)}
    parser.add_argument("names", nargs="*", metavar="FAMILY|NAME", help=f"{', '.join(FAMILIES)}, or a mutant's name")
    parser.add_argument("--list", action="store_true", help="list families and mutants, and run none")
    parser.add_argument("--seed", type=int, help="the first seed (default: the family's)")
    arguments = parser.parse_args()
    if unknown := [word for word in arguments.names if word not in names]:
        parser.error(f"neither a family nor a mutant: {', '.join(unknown)} (see --list)")
    if arguments.list:
        show_list()
        return 0
    silence()
    gc.set_threshold(COLLECT_AFTER)
    survivors = 0
    for name, mutant, first in chosen(arguments.names):
        started = time.monotonic()
        finding = mutant.finding(first if arguments.seed is None else arguments.seed)
        survivors += finding is None
        outcome = "SURVIVES" if finding is None else f"caught: {_in_a_line(finding)}"
        print(f"{name} (breaks {mutant.breaks}), {time.monotonic() - started:.1f} s: {outcome}", flush=True)
    return 1 if survivors else 0


def _in_a_line(finding: str) -> str:
    """The first line of a finding; of a traceback, the last."""
    return finding.splitlines()[-1 if "Trace" in finding else 0][:160]


if __name__ == "__main__":
    sys.exit(main())
