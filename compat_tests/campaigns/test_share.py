"""Short runs of `campaigns/share/kafka.py` and `campaigns/share/assignor.py`."""

from __future__ import annotations

import pytest

from campaigns.share import assignor
from campaigns.share.kafka import CAMPAIGN

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


def test_a_share_partition_does_what_kafkas_does() -> None:
    counts, differences = CAMPAIGN.run(500, seed=7)

    assert differences == []
    assert counts["writes"] > 1000
    assert counts["INVALID_REQUEST"] > 100


def test_partitions_are_shared_as_by_kafka() -> None:
    counts, differences = assignor.run(500, seed=7)

    assert differences == []
    assert min(counts["new"], counts["settled"]) > 200
