"""Coordinators that break a rule on purpose are caught by the schedules."""

from __future__ import annotations

import pytest

from scripts.schedule_mutants import MUTANTS, is_caught


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert is_caught(name) is not None, MUTANTS[name].breaks
