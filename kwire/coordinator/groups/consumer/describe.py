"""ConsumerGroupDescribe: the description of one consumer group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.codec.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kwire.coordinator.groups.consumer.group import NOTHING, ConsumerGroup
from kwire.coordinator.groups.consumer.member import ConsumerMember
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.runtime.java_hash import timeline_map_order

CLASSIC_MEMBER = 0
"""MemberType of a member that uses the classic protocol."""
CONSUMER_MEMBER = 1
"""MemberType of a member that uses the consumer protocol."""


def describe(group: ConsumerGroup, topics: Topics, default_assignor: str) -> DescribedGroup:
    """The group with its members. Deleted topics are left out of their assignments."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_member(group, group.members[each], topics) for each in timeline_map_order(group.members)],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Member:
    owned: dict[bytes, list[int]] = {}
    for part in (member.assigned, member.revoking):
        for topic_id, partitions in part.items():
            owned.setdefault(topic_id, []).extend(partitions)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(group.target.get(member.member_id, NOTHING), topics),
        member_type=CLASSIC_MEMBER if member.uses_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Iterable[int]], topics: Topics) -> Assignment:
    described = []
    for topic_id, indexes in partitions.items():
        name = topics.name(topic_id)
        if name is not None:
            described.append(TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes)))
    return Assignment(topic_partitions=described)
