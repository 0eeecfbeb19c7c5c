"""The campaigns catch code that breaks a guarantee on purpose."""

from __future__ import annotations

import pytest

from campaigns.mutants.logs import LOG_MUTANTS


@pytest.mark.parametrize("name", LOG_MUTANTS)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert LOG_MUTANTS[name].finding() is not None, LOG_MUTANTS[name].breaks
