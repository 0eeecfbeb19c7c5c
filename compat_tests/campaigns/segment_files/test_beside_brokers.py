"""A short run of `campaigns/segment_files`: files read beside busy brokers are what a consumer is given. kwire only."""

from __future__ import annotations

import pytest

from campaigns.segment_files.campaign import run_rounds

pytestmark = pytest.mark.timeout(900)  # brokers are killed and started again, each within a minute on a busy machine


def test_files_read_beside_busy_brokers_are_what_a_consumer_is_given_or_an_error() -> None:
    counts, failures = run_rounds(7, 4, ("retention", "deletion", "torn_tail", "truncation", "topic_made_again"))
    assert failures == []
    assert counts["rounds"] == 4
    assert counts["reads equal"] > 0
