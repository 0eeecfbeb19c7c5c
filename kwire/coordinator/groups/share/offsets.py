"""The start offsets of a share group, as administrators see and change them (KIP-932).

The share coordinators keep the offsets, so each operation is one step here and requests to them before or after it. To
set offsets begins the partitions again, under the group's epoch, which fences leaders that do not know of it. To delete
offsets makes the share coordinators forget the topic; meanwhile it is noted, so that a deletion that fails can be
repeated. Both need a group without members.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.messages import delete_share_group_state_request as deletes
from kwire.codec.messages import initialize_share_group_state_request as initializes
from kwire.coordinator.groups.group import Groups
from kwire.coordinator.groups.share import records as share_records
from kwire.coordinator.groups.share.group import ShareGroup
from kwire.coordinator.groups.share.states import NamedPartitions
from kwire.coordinator.runtime.machine import Result

if TYPE_CHECKING:
    from kwire.coordinator.groups.consumer.topics import Topics
    from kwire.coordinator.groups.share.protocol import ShareProtocol


class Forgetting(NamedTuple):
    """The request by which the share coordinators forget topics, None if there are none; the topics that have no
    offsets, with their errors."""

    request: deletes.DeleteShareGroupStateRequest | None
    failed: list[tuple[str, KafkaError]]


class ShareOffsets:
    """See the module."""

    def __init__(self, groups: Groups, protocol: ShareProtocol) -> None:
        self._groups = groups
        self._protocol = protocol

    @property
    def _topics(self) -> Topics:
        return self._protocol.topics

    def initialized(self, group_id: str) -> Mapping[bytes, NamedPartitions]:
        """The partitions of a group that have offsets; none for a group that does not exist."""
        group = self._groups.find(group_id)
        return group.states.initialized if isinstance(group, ShareGroup) else {}

    def alter(
        self,
        group_id: str,
        offsets: Mapping[str, Sequence[tuple[int, int]]],
        out: Result[initializes.InitializeShareGroupStateRequest],
    ) -> None:
        """Set offsets: for each topic partitions and offsets, all of which exist. Raises GROUP_ID_NOT_FOUND for a group
        of another type, NON_EMPTY_GROUP."""
        group = self._group_to_alter(group_id)
        named: dict[bytes, NamedPartitions] = {}
        topics = []
        for name, pairs in offsets.items():
            topic_id = self._topics.id(name)
            if topic_id is None or not pairs:
                continue
            named[topic_id] = NamedPartitions(name, frozenset(index for index, _ in pairs))
            partitions = [
                initializes.PartitionData(partition=index, state_epoch=group.epoch, start_offset=offset)
                for index, offset in sorted(dict(pairs).items())
            ]
            topics.append(initializes.InitializeStateData(topic_id=topic_id, partitions=partitions))
        if named:
            out.records.append(share_records.partition_states(group_id, group.states.beginning(named)))
        out.response = initializes.InitializeShareGroupStateRequest(group_id=group_id, topics=topics)

    def _group_to_alter(self, group_id: str) -> ShareGroup:
        """The group, a new one if there is none."""
        group = self._groups.find(group_id)
        if group is None:
            return ShareGroup(group_id)
        if not isinstance(group, ShareGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        group.check_delete()
        return group

    def forget(self, group_id: str, names: Collection[str], out: Result[Forgetting]) -> None:
        """Begin to delete the offsets of topics. Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
        group = self._protocol.group(group_id)
        group.check_delete()
        states, topics, failed = group.states, [], []
        forgotten: dict[bytes, str] = {}
        for name in names:
            topic_id, count = self._topics.id(name), self._topics.partition_count(name)
            if topic_id is None or count is None:
                failed.append((name, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
                continue
            if topic_id in states.initialized:
                partitions: Collection[int] = states.initialized[topic_id].partitions
            elif topic_id in states.deleting:  # an earlier attempt failed
                partitions = range(count)
            else:
                text = "There is no offset information to delete."
                failed.append((name, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)))
                continue
            forgotten[topic_id] = name
            data = [deletes.PartitionData(partition=index) for index in sorted(partitions)]
            topics.append(deletes.DeleteStateData(topic_id=topic_id, partitions=data))
        if forgotten:
            out.records.append(share_records.partition_states(group_id, states.forgetting(forgotten)))
        request = deletes.DeleteShareGroupStateRequest(group_id=group_id, topics=topics) if topics else None
        out.response = Forgetting(request, failed)

    def forgotten(self, group_id: str, topics: Collection[bytes], out: Result[bool]) -> None:
        """The share coordinators have forgotten these topics."""
        group = self._groups.find(group_id)
        if isinstance(group, ShareGroup):
            states = group.states.forgotten(topics)
            if states != group.states:
                out.records.append(share_records.partition_states(group_id, states))
        out.response = True
