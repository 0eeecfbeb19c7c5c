"""Some hundreds of the schedules that `campaigns/schedules` runs by the hundred thousand."""

from __future__ import annotations

import pytest

from campaigns.schedules.campaign import run_seed, run_seeds

FOUND_SOMETHING = [
    2,  # a reload kept the metadata of a classic member's first generation
    4,  # a timer that the log refused was lost
    94,  # cooperative members were taken what they held by an upgrade in the middle of a rebalance
    324,  # a consumer group of classic members only never got its assignment
    330,  # a static member that could not be replaced had no session any more
    658,  # a downgrade left a member without what it was waiting for
    738,  # an upgrade by a static member took an incomplete assignment for a complete one
    5000214,  # nobody waited for the SyncGroup of a member of a downgraded group
    5001936,  # nor for that of a member of an upgraded one
    3003932,  # none: a heartbeat while the groups are loaded is answered, whoever sends it
    3004868,  # an upgrade gave away what a member had not given up, whose SyncGroup answer was an error
    3005332,  # the same for one whose SyncGroup answer was lost
    12001188,  # a member whose heartbeat's answer was lost was never told what it owns
    12007114,  # none: the topic of a position was deleted before the commit was answered
    12016934,  # nobody looked at the topics of a downgraded group that had not rebalanced
    12036828,  # none: whoever loads a group does not wait for a SyncGroup
    12058284,  # a static member restarted before it gave up its partitions, which nobody got
    1000034,  # an assignment that could not be written was forgotten with the one before it
    13014792,
    13023372,
    31007312,  # a downgrade forgot what a member had not given up yet; the next upgrade gave that away
    31020452,  # none: the late copy of a heartbeat took the news of an assignment away
    31030931,  # a fenced producer's abort was answered with the epoch of the one that fenced it
    31031543,
]


@pytest.mark.parametrize("block", range(4))
def test_what_must_hold_holds_in_every_schedule(block: int) -> None:
    counts, failures = run_seeds(10_000 + block * 30, 30)
    assert not failures, failures[0]
    assert counts["groups at rest"] == 15 and counts["committed"] > 40


@pytest.mark.parametrize("seed", FOUND_SOMETHING)
def test_what_was_found_stays_mended(seed: int) -> None:
    assert run_seed(seed)[1] is None


def test_a_seed_is_replayed_exactly() -> None:
    assert run_seed(17) == run_seed(17) and run_seed(18) == run_seed(18)
