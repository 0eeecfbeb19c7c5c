"""Keeping up: followers whose fetches name no partition because nothing has changed."""

from __future__ import annotations

from kwire.cluster.replication.followers import Follower, LastFetch

LAG_MS = 100


def test_a_follower_that_was_at_the_log_end_and_still_fetches_keeps_up_after_an_append() -> None:
    follower, last_fetch = Follower(0), LastFetch()
    follower.fetched(10, 0, 10, 1, 0, last_fetch)
    last_fetch.ms = 5000  # requests that name other partitions
    assert follower.keeps_up(leader_end=11, now_ms=5000 + LAG_MS, lag_max_ms=LAG_MS)
    assert not follower.keeps_up(leader_end=11, now_ms=5001 + LAG_MS, lag_max_ms=LAG_MS)


def test_a_follower_that_lags_does_not_keep_up_by_fetching_other_partitions() -> None:
    follower, last_fetch = Follower(0), LastFetch()
    follower.fetched(9, 0, 10, 1, 0, last_fetch)
    last_fetch.ms = 5000
    assert not follower.keeps_up(leader_end=11, now_ms=5000, lag_max_ms=LAG_MS)


def test_a_follower_that_reaches_the_log_end_of_its_last_fetch_had_caught_up_then() -> None:
    follower, last_fetch = Follower(0), LastFetch()
    follower.fetched(10, 0, 10, 1, 0, last_fetch)
    last_fetch.ms = 5000
    follower.fetched(10, 0, 20, 1, 5500, last_fetch)
    assert follower.caught_up_ms == 5000


def test_fetches_over_another_session_do_not_count() -> None:
    follower = Follower(0)
    old, new = LastFetch(), LastFetch()
    follower.fetched(10, 0, 10, 1, 0, old)
    old.ms = 5000
    follower.fetched(10, 0, 20, 1, 6000, new)
    assert follower.caught_up_ms == 0
