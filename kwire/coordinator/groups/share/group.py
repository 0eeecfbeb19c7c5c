"""The state of one share group (KIP-932): its members, its epochs, and the partitions that are initialised.

The state changes only by applying records. The operations are in `share.protocol`. The epochs are those of consumer
groups: ``epoch`` (the group epoch) is bumped when subscriptions, topics or initialised partitions change;
``assignment_epoch`` is the group epoch for which the target assignment was computed; each member has its own epoch. A
member takes over its target assignment at once: nobody has to revoke anything, because partitions are shared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.groups.group import ExpiryBase, Group
from kwire.coordinator.groups.share import records as share_records
from kwire.coordinator.groups.share.member import NOTHING, ShareMember
from kwire.coordinator.groups.share.states import NO_STATES

if TYPE_CHECKING:
    from kwire.coordinator.groups.share.states import PartitionStates
    from kwire.coordinator.runtime.machine import CoordinatorRecord

FIRST_EPOCH: Final = 1
"""The epoch of a new group. Member epoch 0 means that a member joins."""
NO_EPOCH: Final = -1


class ShareGroup(Group):
    """See the module.

    ``target``: member id -> its target assignment. ``states``: what the share coordinators know. What follows is not in
    the log: ``checked_epoch`` (the group epoch in which the topics were last checked; None: they have to be checked)
    and ``tried_ms`` (topic id -> when its partitions were last sent to the share coordinators).
    """

    __slots__ = (
        "assignment_epoch",
        "assignment_ms",
        "checked_epoch",
        "epoch",
        "members",
        "metadata_hash",
        "states",
        "target",
        "tried_ms",
    )

    type_name: ClassVar[str] = "share"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Mapping[bytes, frozenset[int]]] = {}
        self.states: PartitionStates = NO_STATES
        self.checked_epoch: int | None = None
        self.tried_ms: dict[bytes, int] = {}

    @property
    def state_name(self) -> str:
        """The group state in ListGroups and ShareGroupDescribe."""
        return "Stable" if self.members else "Empty"

    @property
    def listed_protocol_type(self) -> str:
        """The protocol type in ListGroups: always "share"."""
        return "share"

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def is_checked(self) -> bool:
        """Whether the topics have not changed since they were last checked."""
        return self.checked_epoch is not None and self.epoch >= self.checked_epoch

    @property
    def topics(self) -> frozenset[str]:
        """The names of all topics to which members subscribe."""
        return frozenset(name for member in self.members.values() for name in member.topics)

    def member(self, member_id: str) -> ShareMember:
        """The member with this id. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def is_assignment_behind(self) -> bool:
        """Whether the target assignment lacks initialised partitions of subscribed topics, or has others."""
        names = self.topics
        assigned: dict[bytes, set[int]] = {}
        for partitions in self.target.values():
            for topic, indexes in partitions.items():
                assigned.setdefault(topic, set()).update(indexes)
        return bool(self.members) and any(
            one.name in names and assigned.get(topic, set()) != one.partitions
            for topic, one in self.states.initialized.items()
        )

    # -- checks for offsets and administration: a share group has no committed offsets ---------------------------------

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, version: int, transactional: bool = False
    ) -> None:
        """Always raises GROUP_ID_NOT_FOUND."""
        raise self._no_consumer_group()

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Always raises GROUP_ID_NOT_FOUND."""
        raise self._no_consumer_group()

    def check_offset_delete(self) -> None:
        """Always raises GROUP_ID_NOT_FOUND."""
        raise self._no_consumer_group()

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic."""
        return topic in self.topics

    @property
    def expires(self) -> bool:
        """A share group stays until it is deleted."""
        return False

    def offset_expiry_base(self) -> ExpiryBase | None:
        """There are no offsets that could expire."""
        return None

    def counts(self) -> dict[str, int]:
        """The epochs of the group and of its target assignment, and the members."""
        return {"epoch": self.epoch, "assigned": self.assignment_epoch, "members": len(self.members)}

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group and its members."""
        group_id, written = self.group_id, share_records
        records = [written.current_tombstone(group_id, member_id) for member_id in self.members]
        records += [written.target_tombstone(group_id, member_id) for member_id in self.members]
        records.append(written.target_epoch_tombstone(group_id))
        records += [written.member_tombstone(group_id, member_id) for member_id in self.members]
        records.append(written.partition_states_tombstone(group_id))
        records.append(written.group_tombstone(group_id))
        return records

    def _no_consumer_group(self) -> KafkaError:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a consumer group.")

    # -- changes, by applying records ----------------------------------------------------------------------------------

    def apply_epoch(self, value: Any) -> None:
        """Apply the record of the group epoch."""
        self.epoch = value.epoch
        self.metadata_hash = value.metadata_hash

    def apply_member(self, member_id: str, value: Any | None) -> None:
        """Apply the record of what a member has sent about itself; a tombstone removes the member."""
        if value is None:
            self.members.pop(member_id, None)
            return
        known = self.members.get(member_id) or ShareMember(member_id)
        self.members[member_id] = known._replace(
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )

    def apply_current(self, member_id: str, value: Any | None) -> None:
        """Apply the record of a member's current assignment; a tombstone empties it."""
        known = self.members.get(member_id)
        if value is None:
            if known is not None:
                self.members[member_id] = known._replace(epoch=-1, previous_epoch=-1, assigned=NOTHING)
            return
        self.members[member_id] = (known or ShareMember(member_id))._replace(
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned={one.topic_id: frozenset(one.partitions) for one in value.assigned_partitions},
        )

    def apply_target(self, member_id: str, value: Any | None) -> None:
        """Apply the record of a member's target assignment."""
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = {one.topic_id: frozenset(one.partitions) for one in value.topic_partitions}

    def apply_target_epoch(self, value: Any | None) -> None:
        """Apply the record of the target assignment's epoch."""
        self.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
        self.assignment_ms = 0 if value is None else value.assignment_timestamp

    def apply_states(self, value: Any | None) -> None:
        """Apply the record of what the share coordinators know."""
        self.states = NO_STATES if value is None else share_records.read_states(value)
