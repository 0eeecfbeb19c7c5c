"""Code that breaks a promise on purpose is caught by the campaigns."""

from __future__ import annotations

import pytest

from scripts.mutants import LOG_MUTANTS, is_caught


@pytest.mark.parametrize("name", LOG_MUTANTS)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert is_caught(name) is not None, LOG_MUTANTS[name].breaks
