"""Transactions whose promises are broken on purpose are caught."""

from __future__ import annotations

import pytest

from campaigns.mutants.transactions import TRANSACTION_MUTANTS


@pytest.mark.parametrize("name", TRANSACTION_MUTANTS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_mutant_does_not_survive(name: str) -> None:
    assert TRANSACTION_MUTANTS[name].finding() is not None, TRANSACTION_MUTANTS[name].breaks
