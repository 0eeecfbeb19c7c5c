"""Brokers that break a rule of replication on purpose are caught by the simulated cluster. Here only those that are
noticed soon; `campaigns/mutants/cluster.py` has all of them."""

from __future__ import annotations

import pytest

from campaigns.mutants.cluster import MUTANTS

SOON = ("ack-before-replication", "isr-without-compare-and-set", "elected-outside-isr")


@pytest.mark.parametrize("name", SOON)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert MUTANTS[name].finding(1) is not None, MUTANTS[name].breaks
