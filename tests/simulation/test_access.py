"""Access control in a simulated cluster: nothing is served that was forbidden before the request was sent."""

from __future__ import annotations

import pytest

from campaigns import simulated_cluster
from campaigns.mutants.access import MUTANTS


@pytest.mark.parametrize("first", [1, 6])
def test_nothing_forbidden_is_served_while_brokers_fail(first: int) -> None:
    for seed in range(first, first + 5):
        outcome = simulated_cluster.run(seed, access=True)
        assert outcome.wrong == [], seed
        assert outcome.counts["refused"], "the asker was never forbidden anything"
        assert outcome.counts["served"], "the asker was never allowed anything"


@pytest.mark.parametrize("name", ["acl-change-unconfirmed", "decision-kept"])
def test_a_mutant_does_not_survive(name: str) -> None:
    assert MUTANTS[name].finding(1) is not None, MUTANTS[name].breaks
