"""ShareGroupDescribe: the description of one share group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.codec.messages.share_group_describe_response import Assignment, DescribedGroup, Member, TopicPartitions
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.share.group import ShareGroup
from kwire.coordinator.groups.share.member import ShareMember
from kwire.coordinator.runtime.java_hash import hash_map_order, timeline_map_order

ASSIGNOR: Final = "simple"


def describe(group: ShareGroup, topics: Topics) -> DescribedGroup:
    """The group with its members. Deleted topics are left out of their assignments."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(group.members[member_id], topics) for member_id in timeline_map_order(group.members)],
    )


def _member(member: ShareMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=hash_map_order(sorted(member.topics)),
        assignment=Assignment(topic_partitions=_partitions(member.assigned, topics)),
    )


def _partitions(assigned: Mapping[bytes, frozenset[int]], topics: Topics) -> list[TopicPartitions]:
    described = []
    for topic_id, indexes in assigned.items():
        name = topics.name(topic_id)
        if name is not None:
            described.append(TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes)))
    return described
