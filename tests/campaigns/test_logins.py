"""A small run of the campaign of hostile logins, and the mutants that it must notice."""

from __future__ import annotations

import pytest

from campaigns import logins
from campaigns.mutants.logins import MUTANTS


def test_hostile_logins_find_nothing() -> None:
    counts, failures = logins.run_seeds(1, 5)
    assert not failures
    assert {"complete", "failed", "invalid", "open"} < counts.keys()


def test_a_seed_replays_exactly() -> None:
    assert logins.run_seed(7) == logins.run_seed(7)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert MUTANTS[name].finding() is not None, MUTANTS[name].breaks
