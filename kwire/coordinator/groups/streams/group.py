"""The state of one streams group (KIP-1071): its topology, its members, its epochs, and the owners of tasks.

The state changes only by applying records. The operations are in `streams.protocol`. The epochs are those of consumer
groups: ``epoch`` (the group epoch) is bumped with every change of members, topology, topics or configuration;
``assignment_epoch`` is the group epoch for which the target assignment was computed; each member has its own epoch.

* Empty: the group has no members.
* NotReady: topics of the topology are missing, or do not fit together.
* Assigning: the target assignment is older than the group epoch.
* Reconciling: some member has not reached the target assignment yet.
* Stable: all members have reached it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.groups.group import ExpiryBase, Group
from kwire.coordinator.groups.streams import records as streams_records
from kwire.coordinator.groups.streams.member import NO_TASKS, NOTHING, MemberState, StreamsMember, Tasks
from kwire.coordinator.groups.streams.owners import TaskOwners
from kwire.coordinator.groups.streams.topology.convert import from_record

if TYPE_CHECKING:
    from kwire.coordinator.groups.streams.topology.configured import ConfiguredTopology
    from kwire.coordinator.groups.streams.topology.model import StreamsTopology
    from kwire.coordinator.runtime.machine import CoordinatorRecord

EPOCH_COMMIT_SINCE: Final = 9
"""The version of OffsetCommit from which on it carries member epochs."""
FIRST_EPOCH: Final = 1
"""The epoch of a new group. Member epoch 0 means that a member joins."""
NO_EPOCH: Final = -1
"""No target assignment, or no topology that fits the topics."""


class StreamsGroup(Group):
    """See the module.

    ``target``: member id -> its target assignment. ``assignment_configs``: the configuration of the last bump.
    What follows is not in the log: ``configured`` (the topology with the topics of the cluster), ``checked_epoch`` (the
    group epoch in which the topics were last checked; None: they have to be checked), ``shutdown_member`` (the member
    that has requested a shutdown of the application), and ``endpoint_epoch`` (bumped when the tasks behind an endpoint
    change).
    """

    __slots__ = (
        "assignment_configs",
        "assignment_epoch",
        "assignment_ms",
        "checked_epoch",
        "configured",
        "endpoint_epoch",
        "epoch",
        "members",
        "metadata_hash",
        "owners",
        "required",
        "shutdown_member",
        "sources",
        "target",
        "topology",
        "validated_topology_epoch",
    )

    type_name: ClassVar[str] = "streams"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_topology_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_ms = 0
        self.topology: StreamsTopology | None = None
        self.required: frozenset[str] = frozenset()
        self.sources: frozenset[str] = frozenset()
        self.members: dict[str, StreamsMember] = {}
        self.target: dict[str, Tasks] = {}
        self.owners = TaskOwners()
        self.configured: ConfiguredTopology | None = None
        self.checked_epoch: int | None = None
        self.shutdown_member: str | None = None
        self.endpoint_epoch = 0

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The group state in ListGroups and StreamsGroupDescribe."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def listed_protocol_type(self) -> str:
        """The protocol type in ListGroups: always "streams"."""
        return "streams"

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def is_checked(self) -> bool:
        """Whether the topics have not changed since they were last checked."""
        return self.checked_epoch is not None and self.epoch >= self.checked_epoch

    def member(self, member_id: str) -> StreamsMember:
        """The member with this id. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def target_of(self, member_id: str) -> Tasks:
        """The target assignment of a member."""
        return self.target.get(member_id, NO_TASKS)

    def request_shutdown(self, member_id: str) -> None:
        """A member has failed and wants the whole application to end. The first such member counts."""
        if self.shutdown_member is None:
            self.shutdown_member = member_id

    # -- checks for offsets and administration -------------------------------------------------------------------------

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, version: int, transactional: bool = False
    ) -> None:
        """Raises UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION or STALE_MEMBER_EPOCH. Older epochs are checked per partition
        (`check_partition_commit`)."""
        if epoch < 0 and not self.members:
            return  # an administrator, or a consumer that assigns itself
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return
        member = self.member(member_id)
        if not transactional and version < EPOCH_COMMIT_SINCE:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "Members of streams groups commit with version 9 or later.")
        if epoch > member.epoch:
            raise _stale(f"Epoch {epoch} is newer than that of the member, {member.epoch}.")

    def check_partition_commit(self, member_id: str, epoch: int, topic: str, topic_id: bytes, partition: int) -> None:
        """A member with an older epoch may commit the offsets of active tasks that it has had since that epoch. Raises
        STALE_MEMBER_EPOCH for the whole request."""
        member = self.members.get(member_id)
        if member is None or epoch >= member.epoch:
            return
        if self.topology is None:
            raise _stale("The group has no topology.")
        subtopology_id = self.topology.subtopology_of(topic)
        if subtopology_id is None:
            raise _stale(f"Topic {topic} is not in the topology.")
        since = member.active_epoch(subtopology_id, partition)
        if since is None:
            raise _stale(f"Task {subtopology_id}-{partition} is not a task of the member.")
        if epoch < since:
            raise _stale(f"Epoch {epoch} is older than that of task {subtopology_id}-{partition}, {since}.")

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raises UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH if the request names a member."""
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            raise _stale(f"Epoch {epoch} is not that of the member, {member.epoch}.")

    def check_offset_delete(self) -> None:
        """Always allowed: subscriptions are known."""
        return

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the topology reads the topic."""
        return bool(self.members) and topic in self.sources

    def offset_expiry_base(self) -> ExpiryBase | None:
        """The commit time."""
        return lambda committed: committed.commit_ms

    def counts(self) -> dict[str, int]:
        """The epochs of the group and of its target assignment, and the members."""
        return {"epoch": self.epoch, "assigned": self.assignment_epoch, "members": len(self.members)}

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group and its members."""
        group_id, written = self.group_id, streams_records
        records = [written.current_tombstone(group_id, member_id) for member_id in self.members]
        records += [written.target_tombstone(group_id, member_id) for member_id in self.members]
        records.append(written.target_epoch_tombstone(group_id))
        records += [written.member_tombstone(group_id, member_id) for member_id in self.members]
        records.append(written.group_tombstone(group_id))
        records.append(written.topology_tombstone(group_id))
        return records

    # -- changes, by applying records ----------------------------------------------------------------------------------

    def put(self, member: StreamsMember) -> None:
        """Add a member, or replace its former state."""
        self.owners.remove(self.members.get(member.member_id))
        self.members[member.member_id] = member
        self.owners.add(member)

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        self.owners.remove(self.members.pop(member_id, None))
        if not self.members:
            self.shutdown_member = None

    def apply_epoch(self, value: Any) -> None:
        """Apply the record of the group epoch."""
        self.epoch = value.epoch
        self.metadata_hash = value.metadata_hash
        self.validated_topology_epoch = value.validated_topology_epoch
        self.assignment_configs = {one.key: one.value for one in value.last_assignment_configs or ()}

    def apply_topology(self, value: Any | None) -> None:
        """Apply the record of the topology."""
        self.topology = None if value is None else from_record(value)
        parts = () if self.topology is None else tuple(self.topology.subtopologies.values())
        self.required = frozenset() if self.topology is None else frozenset(self.topology.required_topics())
        self.sources = frozenset(topic for part in parts for topic in part.inputs)

    def apply_member(self, member_id: str, value: Any | None) -> None:
        """Apply the record of what a member has sent about itself; a tombstone removes the member."""
        if value is None:
            self.remove(member_id)
            return
        known = self.members.get(member_id) or StreamsMember(member_id)
        endpoint = value.user_endpoint
        self.put(
            known._replace(
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                topology_epoch=value.topology_epoch,
                process_id=value.process_id,
                endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
                client_tags={tag.key: tag.value for tag in value.client_tags},
            )
        )

    def apply_current(self, member_id: str, value: Any | None) -> None:
        """Apply the record of a member's current assignment; a tombstone empties it."""
        known = self.members.get(member_id)
        if value is None:
            if known is not None:
                self.put(known._replace(epoch=-1, previous_epoch=-1, assigned=NOTHING, revoking=NOTHING))
            return
        known = known or StreamsMember(member_id, process_id=None)
        read, epoch = streams_records.read_owned, value.member_epoch
        self.put(
            known._replace(
                epoch=epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState(value.state),
                assigned=read(value.active_tasks, value.standby_tasks, epoch),
                revoking=read(value.active_tasks_pending_revocation, value.standby_tasks_pending_revocation, epoch),
            )
        )

    def apply_target(self, member_id: str, value: Any | None) -> None:
        """Apply the record of a member's target assignment."""
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = streams_records.read_target(value)

    def apply_target_epoch(self, value: Any | None) -> None:
        """Apply the record of the target assignment's epoch."""
        self.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
        self.assignment_ms = 0 if value is None else value.assignment_timestamp


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)
