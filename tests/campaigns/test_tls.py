"""A small run of the campaign of hostile TLS streams, and the mutants that it must notice."""

from __future__ import annotations

import random

import pytest

from campaigns.mutants.tls import MUTANTS
from campaigns.tls import campaign
from campaigns.tls.line import BrokenRule


def test_hostile_streams_find_nothing() -> None:
    counts, failures = campaign.run_seeds(1, 5)
    assert not failures
    assert {each.split(",")[0] for each in counts} == {*campaign.KINDS, "seeds"}


def test_messages_that_openssl_has_after_a_close_notify_are_sent_and_not_waited_for() -> None:
    seed, stream = 7105, 794
    assert campaign.run_stream(random.Random(seed * campaign.STREAMS + stream))


@pytest.mark.parametrize("cut", range(1, 8))
def test_an_alert_may_have_any_version_and_be_cut(cut: int) -> None:
    campaign.check_records(bytes.fromhex("1500000002022f")[:cut])
    campaign.check_records(bytes.fromhex("1603030001ff" + "1500000002022f"[: cut * 2]))


@pytest.mark.parametrize("sent", ["1600", "17000000010a", "150000001500", "48545450", "1503030002022f00"])
def test_anything_else_is_no_record(sent: str) -> None:
    with pytest.raises(BrokenRule):
        campaign.check_records(bytes.fromhex(sent))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_does_not_survive(name: str) -> None:
    assert MUTANTS[name].finding() is not None, MUTANTS[name].breaks
