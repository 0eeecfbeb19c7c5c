"""``kwire topic describe`` shows only the partitions that are looked for."""

from __future__ import annotations

from argparse import Namespace

import pytest

from kwire.cli.topics.listing import _in_trouble
from kwire.codec.messages.metadata_response import MetadataResponsePartition, MetadataResponseTopic


def topic() -> MetadataResponseTopic:
    """Partition 0 is well, 1 lacks an in-sync replica, 2 has no leader."""
    found = [(1, [1, 2]), (1, [1]), (-1, [1, 2])]
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, replica_nodes=[1, 2], isr_nodes=isr)
        for index, (leader, isr) in enumerate(found)
    ]
    return MetadataResponseTopic(name="t", partitions=partitions)


@pytest.mark.parametrize(
    ("under_replicated", "offline", "shown"), [(True, False, [1]), (False, True, [2]), (True, True, [1, 2])]
)
def test_only_partitions_in_the_trouble_that_is_looked_for(
    under_replicated: bool, offline: bool, shown: list[int]
) -> None:
    found = topic()
    assert _in_trouble(found, Namespace(under_replicated=under_replicated, offline=offline))
    assert [each.partition_index for each in found.partitions] == shown


def test_a_topic_that_is_well_is_left_out() -> None:
    found = topic()
    found.partitions = found.partitions[:1]
    assert not _in_trouble(found, Namespace(under_replicated=True, offline=True))
