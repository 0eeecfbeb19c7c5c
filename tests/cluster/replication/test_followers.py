"""Who keeps up: a follower that asks for what it follows, though nothing new is there to be named."""

from __future__ import annotations

from kwire.cluster.replication.followers import Follower, Heard

LAG_MS = 100


def test_a_follower_that_was_at_the_end_and_still_asks_keeps_up_when_there_is_more() -> None:
    follower, heard = Follower(0), Heard()
    follower.fetched(10, 0, 10, 1, 0, heard)
    heard.ms = 5000  # requests that name other partitions
    assert follower.keeps_up(leader_end=11, now_ms=5000 + LAG_MS, lag_max_ms=LAG_MS)
    assert not follower.keeps_up(leader_end=11, now_ms=5001 + LAG_MS, lag_max_ms=LAG_MS)


def test_a_follower_that_was_behind_does_not_keep_up_by_asking_for_others() -> None:
    follower, heard = Follower(0), Heard()
    follower.fetched(9, 0, 10, 1, 0, heard)
    heard.ms = 5000
    assert not follower.keeps_up(leader_end=11, now_ms=5000, lag_max_ms=LAG_MS)


def test_who_has_what_was_the_end_at_its_request_before_was_caught_up_then() -> None:
    follower, heard = Follower(0), Heard()
    follower.fetched(10, 0, 10, 1, 0, heard)
    heard.ms = 5000
    follower.fetched(10, 0, 20, 1, 5500, heard)
    assert follower.caught_up_ms == 5000


def test_what_was_heard_over_another_session_counts_for_nothing() -> None:
    follower = Follower(0)
    old, new = Heard(), Heard()
    follower.fetched(10, 0, 10, 1, 0, old)
    old.ms = 5000
    follower.fetched(10, 0, 20, 1, 6000, new)
    assert follower.caught_up_ms == 0
