"""A small run of the campaign of changing ACLs, what it takes for stale, and the mutants that it must notice."""

from __future__ import annotations

import pytest

from campaigns.acls import changes
from campaigns.acls.changes import Answer, Change, History
from campaigns.mutants.acl_changes import MUTANTS


def test_no_request_is_answered_by_a_decision_older_than_a_change() -> None:
    counts, failures = changes.run_seeds(1, 3, seconds=0.7)  # a process may stand still during one of them
    assert not failures
    assert min(counts["changes"], counts["refused"], counts["allowed"]) > 0


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert MUTANTS[name].finding(1) is not None, MUTANTS[name].breaks


def test_an_answer_is_stale_if_it_was_sent_after_the_change_and_is_not_overtaken_by_the_next() -> None:
    history = History()
    history.changes = [Change(1.0, 1.1, True), Change(2.0, 2.1, False)]
    allowed = [(0.9, 1.2), (1.05, 1.2), (1.2, 1.3), (1.2, 2.05), (1.95, 1.97), (2.2, 2.3)]
    history.answers = [Answer(sent, done, "x", False) for sent, done in allowed]
    assert [(round(late, 3), answer.sent_s) for late, answer in history.stale()] == [(0.1, 1.2), (0.85, 1.95)]
    assert [answer.sent_s for _, answer in history.stale(0.5)] == [1.95]
