"""Campaigns that ask a Java class of Apache Kafka and kwire the same random questions: no difference is allowed.

A case is made from a random source; it has a question, as a line for the oracle, and kwire's answer. What lives
elsewhere: the cases (`campaigns.acls.decisions`, `campaigns.quotas.precedence`), the JVM (`harness`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from campaigns.command_line import FINDINGS_MAX, main_of_cases
from harness.processes.java_oracle import JavaOracle

BATCH: Final = 500
"""Cases that share a random source, and that are asked about at once."""


class Case(Protocol):
    """What is asked."""

    def question(self) -> str:
        """The line for the oracle."""

    def answer(self) -> str:
        """What kwire answers; the oracle's answer must be the same."""


class OracleCampaign(NamedTuple):
    """``source``: the oracle's Java program; ``make``: a case from a random source; ``counts_of``: what is reported of
    an answer, by name; ``what``: what ``--cases`` counts; ``judge``: whose classes the oracle asks; ``jars``: a class
    path that it needs besides Kafka's."""

    name: str
    description: str | None
    source: Path
    make: Callable[[random.Random], Case]
    counts_of: Callable[[str], dict[str, int]]
    what: str
    judge: str = "Kafka"
    jars: Callable[[], str] | None = None

    def run(self, cases: int, seed: int) -> tuple[Counter[str], list[str]]:
        """Ask about so many cases; the counts, and the differences."""
        counts: Counter[str] = Counter()
        differences: list[str] = []
        with JavaOracle(self.source, jars=self.jars) as oracle:
            for number, start in enumerate(range(0, cases, BATCH)):
                chance = random.Random(f"{seed}/{number}")
                batch = [self.make(chance) for _ in range(min(BATCH, cases - start))]
                questions = [case.question() for case in batch]
                for case, question, theirs in zip(batch, questions, oracle.ask(questions), strict=True):
                    ours = case.answer()
                    counts.update(self.counts_of(ours))
                    if ours != theirs:
                        differences.append(f"{question}: {self.judge} {theirs}, kwire {ours}")
                if len(differences) >= FINDINGS_MAX:
                    break
        return counts, differences

    def run_seeds(self, first: int, count: int) -> tuple[Counter[str], list[str]]:
        """`run` with a batch of cases for each seed from ``first`` on, until one has differences; for mutants."""
        counts: Counter[str] = Counter()
        for seed in range(first, first + count):
            more, differences = self.run(BATCH, seed)
            counts += more
            if differences:
                return counts, differences
        return counts, []

    def main(self) -> int:
        """Run from the command line; return the exit status."""
        return main_of_cases(self.name, self.description, self.run, cases=10_000, what=f"sets of {self.what}")
