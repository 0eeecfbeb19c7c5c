"""What a mutant is: a promise broken on purpose, and the campaign that has to notice. And the command line that runs
mutants. The mutants themselves are in `mutants` (logs), `transaction_mutants`, `schedule_mutants` (groups, producers)
and `cluster_mutants`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from campaigns import seeds as campaign

Campaign = Callable[[int, int], tuple[Any, list[str]]]
"""First seed and count -> what happened, and the failures."""

AT_A_TIME = 10


@dataclass(frozen=True)
class Mutant:
    """A name, what it breaks, how, and the campaign that must notice within so many seeds."""

    breaks: str
    apply: Callable[[], Any]
    campaign: Campaign
    seeds: int

    def finding(self, first: int = 0) -> str | None:
        """The first finding of the campaign, from a seed on, with the mutant at work; None if it survives."""
        with self.apply():
            for begin in range(first, first + self.seeds, AT_A_TIME):
                failures = self.campaign(begin, AT_A_TIME)[1]
                if failures:
                    return failures[0]
        return None


@contextmanager
def together(*patches: AbstractContextManager[Any]) -> Iterator[None]:
    """Several patches as one."""
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


def main(
    doc: str | None, mutants: Mapping[str, Mutant], *, first: int = 0, silence: Callable[[], None] = campaign.silence
) -> int:
    """The command line: tell what becomes of the mutants that are named, or of all; 1 if one survives."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(mutants), metavar="NAME", help=", ".join(mutants))
    parser.add_argument("--seed", type=int, default=first, help="the first one")
    arguments = parser.parse_args()
    silence()
    survivors = 0
    for name in arguments.names:
        started = time.monotonic()
        finding = mutants[name].finding(arguments.seed)
        survivors += finding is None
        how = "SURVIVES" if finding is None else f"caught: {_in_a_line(finding)}"
        print(f"{name} (breaks {mutants[name].breaks}), {time.monotonic() - started:.1f} s: {how}", flush=True)
    return 1 if survivors else 0


def _in_a_line(finding: str) -> str:
    """What it says first; of a traceback, last."""
    return finding.splitlines()[-1 if "Trace" in finding else 0][:160]
