"""Coordinators that break a rule on purpose are caught by the schedules."""

from __future__ import annotations

import pytest

from campaigns.mutants.schedules import MUTANTS


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert MUTANTS[name].finding() is not None, MUTANTS[name].breaks
