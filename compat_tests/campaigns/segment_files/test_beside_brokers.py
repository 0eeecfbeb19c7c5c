"""A short run of `campaigns/segment_files`: files read beside busy brokers are what a consumer is given. kwire only."""

from __future__ import annotations

from campaigns.segment_files.campaign import run_rounds


def test_files_read_beside_busy_brokers_are_what_a_consumer_is_given_or_an_error() -> None:
    counts, failures = run_rounds(7, 5, ("retention", "deletion", "torn_tail", "truncation", "topic_made_again"))
    assert failures == []
    assert counts["rounds"] == 5
    assert counts["reads equal"] > 0
