"""A small run of the campaign of hostile TLS streams, and the mutants that it must notice."""

from __future__ import annotations

import random

import pytest

from campaigns.mutants.tls import MUTANTS
from campaigns.tls import campaign


def test_hostile_streams_find_nothing() -> None:
    counts, failures = campaign.run_seeds(1, 5)
    assert not failures
    assert {each.split(",")[0] for each in counts} == {*campaign.KINDS, "seeds"}


def test_messages_that_openssl_has_after_a_close_notify_are_sent_and_not_waited_for() -> None:
    seed, stream = 7105, 794
    assert campaign.run_stream(random.Random(seed * campaign.STREAMS + stream))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert MUTANTS[name].finding() is not None, MUTANTS[name].breaks
