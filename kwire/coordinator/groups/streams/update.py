"""The effect of one member's heartbeat on its group: topology, group epoch, target assignment, reconciliation.

A `MemberUpdate` reads the group and collects records. The group changes when the records are applied; only what is not
in the log (the configured topology) is replaced at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.groups.streams import records as streams_records
from kwire.coordinator.groups.streams.assignment import new_target
from kwire.coordinator.groups.streams.checks import check_tasks, invalid
from kwire.coordinator.groups.streams.group import NO_EPOCH, StreamsGroup
from kwire.coordinator.groups.streams.member import NO_TASKS, StreamsMember, Tasks
from kwire.coordinator.groups.streams.reconcile import Goal, reconcile
from kwire.coordinator.groups.streams.topology.configure import configure
from kwire.coordinator.groups.streams.topology.configured import ConfiguredTopology, Status, TopologyProblem
from kwire.coordinator.groups.streams.topology.convert import from_heartbeat, to_record

if TYPE_CHECKING:
    from kwire.codec.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
    from kwire.coordinator.groups.consumer.topics import Topics
    from kwire.coordinator.groups.streams.settings import StreamsSettings
    from kwire.coordinator.groups.streams.topology.model import StreamsTopology
    from kwire.coordinator.runtime.machine import CoordinatorRecord

_DELAYED_AT_FIRST = "Assignment delayed due to the configured initial rebalance delay."
_DELAYED_BY_INTERVAL = "Assignment delayed due to the configured assignment interval."


class MemberUpdate:
    """One heartbeat of one member. ``statuses``: what the member is told, in Kafka's order."""

    def __init__(
        self,
        group: StreamsGroup,
        request: StreamsGroupHeartbeatRequest,
        topics: Topics,
        settings: StreamsSettings,
        records: list[CoordinatorRecord],
    ) -> None:
        self.group = group
        self.records = records
        self.statuses: list[TopologyProblem] = []
        self.epoch = group.epoch
        self._request = request
        self._topics = topics
        self._settings = settings

    def bump(self, old: StreamsMember, new: StreamsMember) -> ConfiguredTopology:
        """Write the member and the topology, check the topics, and bump the group epoch if something has changed.
        Returns the topology with the topics of the cluster.

        Raises INVALID_REQUEST (another topology, tasks that do not exist) or STREAMS_INVALID_TOPOLOGY.
        """
        group = self.group
        if old != new:
            self.records.append(streams_records.member_metadata(group.group_id, new))
        topology = self._topology()
        if group.topology is not None and new.topology_epoch < group.topology.epoch:
            detail = (
                f"The member's topology epoch {new.topology_epoch} is behind the group's topology epoch"
                f" {group.topology.epoch}."
            )
            self.statuses.append(TopologyProblem(Status.STALE_TOPOLOGY, detail))
        metadata_hash, configured = self._configure(topology)
        configs = self._settings.assignment_configs
        validated_epoch = self._validate(topology, configured)
        if (
            old != new
            or metadata_hash != group.metadata_hash
            or validated_epoch != group.validated_topology_epoch
            or configs != group.assignment_configs
        ):
            self.epoch += 1
            self.records.append(
                streams_records.group_epoch(group.group_id, self.epoch, metadata_hash, validated_epoch, configs)
            )
        group.checked_epoch = self.epoch
        return configured

    def _topology(self) -> StreamsTopology:
        """The topology of the group. The first member that joins sets it."""
        known, sent = self.group.topology, self._request.topology
        if sent is None:
            if known is None:
                message = "The topology is null and the group topology is also null."
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
            return known
        topology = from_heartbeat(sent)
        if known is None:
            self.records.append(streams_records.topology(self.group.group_id, to_record(topology)))
            return topology
        if known.epoch <= topology.epoch and known != topology:
            raise invalid("Topology updates are not supported yet.")
        return known

    def _configure(self, topology: StreamsTopology) -> tuple[int, ConfiguredTopology]:
        """The hash of the topics that the topology needs, and the topology with them."""
        group = self.group
        if group.topology is not None and group.configured is not None and group.is_checked:
            return group.metadata_hash, group.configured
        metadata_hash = self._topics.metadata_hash(topology.required_topics())
        configured = group.configured
        if group.topology is None or configured is None or metadata_hash != group.metadata_hash:
            configured = group.configured = configure(topology, self._topics.partition_count)
        return metadata_hash, configured

    def _validate(self, topology: StreamsTopology, configured: ConfiguredTopology) -> int:
        """The topology epoch if its topics are there, otherwise -1. The member's tasks must exist."""
        if not configured.ready or configured.subtopologies is None:
            return NO_EPOCH
        request = self._request
        for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
            check_tasks(tasks, configured.subtopologies)
        return topology.epoch

    # -- the target assignment -----------------------------------------------------------------------------------------

    def retarget(
        self, new: StreamsMember, configured: ConfiguredTopology, wall_ms: int, *, is_delayed: bool
    ) -> tuple[int, Tasks]:
        """The epoch of the target assignment and the member's part of it. If the group epoch is newer, a new assignment
        is computed, but not more often than every `streams.assignment.interval.ms`. ``is_delayed``: the group is new,
        and still waits for members."""
        group = self.group
        if is_delayed:
            self.statuses.append(TopologyProblem(Status.ASSIGNMENT_DELAYED, _DELAYED_AT_FIRST))
            return group.assignment_epoch, NO_TASKS
        if group.assignment_epoch >= self.epoch:
            return group.assignment_epoch, group.target_of(new.member_id)
        interval_ms = self._settings.assignment_interval_ms
        if group.assignment_ms and interval_ms and wall_ms < group.assignment_ms + interval_ms:
            self.statuses.append(TopologyProblem(Status.ASSIGNMENT_DELAYED, _DELAYED_BY_INTERVAL))
            return group.assignment_epoch, group.target_of(new.member_id)
        configs = self._settings.assignment_configs
        target = new_target(group, self.epoch, configured, configs, wall_ms, new)
        self.records.extend(target.records)
        return self.epoch, target.tasks[new.member_id]

    # -- reconciliation ------------------------------------------------------------------------------------------------

    def step(self, member: StreamsMember, target: tuple[int, Tasks], reported: Tasks | None) -> StreamsMember:
        """The member after one step towards its target assignment."""
        epoch, tasks = target
        if member.is_reconciled_to(epoch):
            return member
        stepped = reconcile(member, Goal(epoch, tasks, self.group.owners, reported))
        if stepped != member:
            self.records.append(streams_records.current(self.group.group_id, stepped))
        return stepped
