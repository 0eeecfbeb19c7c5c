"""Code that breaks a promise on purpose is caught by the campaigns."""

from __future__ import annotations

import pytest

from scripts.mutants import MUTANTS, is_caught


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert is_caught(name) is not None, MUTANTS[name].breaks
