"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that use the classic protocol in a consumer group.

While a group migrates, it has members of both protocols. JoinGroup carries the member's subscription and its owned
partitions, and moves the member one step towards its target assignment, as ConsumerGroupHeartbeat does for the others.
The generation is the member epoch. SyncGroup returns the member's partitions. Heartbeat returns REBALANCE_IN_PROGRESS
whenever another step is due. No request is parked.
"""

from __future__ import annotations

from typing import Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.errors import CodecError
from kwire.codec.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.heartbeat_response import HeartbeatResponse
from kwire.codec.messages.join_group_request import JoinGroupRequest
from kwire.codec.messages.join_group_response import JoinGroupResponse
from kwire.codec.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.codec.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from kwire.codec.messages.sync_group_request import SyncGroupRequest
from kwire.codec.messages.sync_group_response import SyncGroupResponse
from kwire.coordinator.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from kwire.coordinator.groups.classic.join import MEMBER_ID_REQUIRED_SINCE
from kwire.coordinator.groups.classic.rebalance import refusal
from kwire.coordinator.groups.consumer.group import NOTHING, ConsumerGroup
from kwire.coordinator.groups.consumer.member import ClassicFacts, ConsumerMember, MemberState
from kwire.coordinator.groups.consumer.member_update import MemberUpdate
from kwire.coordinator.groups.consumer.migration import Migration, assignment_bytes, parse_subscription
from kwire.coordinator.groups.consumer.protocol import ConsumerProtocol, perform
from kwire.coordinator.groups.consumer.reconcile import Reported
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import GroupSettings
from kwire.coordinator.runtime.machine import Caller, Instant, Result


class ClassicMembers:
    """The classic requests for all consumer groups of a shard."""

    def __init__(self, protocol: ConsumerProtocol, migration: Migration, settings: GroupSettings) -> None:
        self._protocol = protocol
        self._migration = migration
        self._settings = settings

    # -- JoinGroup -----------------------------------------------------------------------------------------------------

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        out: Result[JoinGroupResponse],
        now: Instant,
    ) -> None:
        """JoinGroup. The response is an error, or the member after its next step."""
        try:
            self._join(group, request, caller, out, now)
        except KafkaError as error:
            out.records.clear()
            out.applied = None
            out.response = refusal(error.code, "")

    def _join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        out: Result[JoinGroupResponse],
        now: Instant,
    ) -> None:
        protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
        if self._migration.is_disabled:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.member_id or self._protocol.new_member_id()
        self._protocol.check_room(group, member_id)
        if not group.supports_classic(request.protocol_type, [name for name, _ in protocols]):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_new = not request.member_id
        if is_new and request.group_instance_id is None and caller.api_version >= MEMBER_ID_REQUIRED_SINCE:
            out.response = refusal(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return
        subscription = _subscription(protocols)
        predecessor = group.static_member(request.group_instance_id)
        old = self._sender(group, request, member_id, subscription, out)
        new = _updated(old, request, caller, subscription, protocols)
        topics = self._protocol.topics
        reported = _owned(subscription, topics)
        update = MemberUpdate(group, topics, self._settings, now, out.records)
        changed = update.subscribe(old, new, self._protocol.new_topics_revision)
        if predecessor is not None and self._migration.may_downgrade(group, [predecessor.member_id], joining=1):
            self._downgrade(group, update, predecessor, new, reported, changed, out, now)
            return
        member = update.step(new, update.retarget(old, new), reported, subscription_changed=changed)
        out.response = _joined(member)

        def applied(out: Result[Any], now: Instant) -> None:
            self._protocol.cancel("join", group.group_id, member_id)
            self._protocol.restart_session(group.group_id, member_id, now, request.session_timeout_ms)
            self._protocol.schedule("sync", group.group_id, member_id, request.rebalance_timeout_ms, now)
            if update.needs_regex_refresh:
                self._protocol.refresh_regexes(group.group_id, caller, now)

        perform(out, now, applied)

    def _sender(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        member_id: str,
        subscription: ConsumerProtocolSubscription,
        out: Result[Any],
    ) -> ConsumerMember:
        """The member that has sent the request, as the group has it, or a new one. A member that was removed but
        reports owned partitions gets UNKNOWN_MEMBER_ID, as in a classic group. Apache Kafka accepts it, so that its
        partitions may have two owners until its SyncGroup."""
        instance_id = request.group_instance_id
        if instance_id is None:
            known = group.members.get(member_id)
            if known is None and request.member_id and subscription.owned_partitions:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            return known or ConsumerMember(member_id)
        if request.member_id:
            return self._protocol.static_owner(group, member_id, instance_id)
        return self._protocol.static_member(group, member_id, instance_id, out.records, classic=True)

    def _downgrade(
        self,
        group: ConsumerGroup,
        update: MemberUpdate,
        predecessor: ConsumerMember,
        new: ConsumerMember,
        reported: Reported,
        changed: bool,
        out: Result[JoinGroupResponse],
        now: Instant,
    ) -> None:
        """The last member of the consumer protocol returns as a member of the classic protocol: downgrade the group."""
        others = [one for one in group.members.values() if one is not predecessor]
        late = [one.member_id for one in others if self._protocol.is_scheduled("sync", group.group_id, one.member_id)]
        # A member that is not reconciled would never get the rest of its partitions without a rebalance.
        stale = group.assignment_epoch < update.epoch or not all(
            one.is_reconciled_to(group.assignment_epoch) for one in others
        )
        member = new
        if not stale:
            target = group.assignment_epoch, group.target_of(new)
            member = update.step(new, target, reported, subscription_changed=changed)
        out.records.clear()
        out.response = _joined(member)
        self._migration.downgrade(
            group,
            [predecessor.member_id],
            self._protocol.topics,
            out,
            now,
            self._protocol.forget,
            joining=member,
            rebalance=stale,
            unsynced=[member.member_id, *late],
        )

    # -- SyncGroup and Heartbeat ---------------------------------------------------------------------------------------

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, out: Result[SyncGroupResponse], now: Instant
    ) -> None:
        """SyncGroup: the member's partitions in its generation."""
        try:
            member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
            self._check_protocol(member, request)
            # A member that has to revoke partitions gets the partitions that it keeps.
            if member.epoch < group.assignment_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._await_join(group, member, now)
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as error:
            out.response = SyncGroupResponse(error_code=error.code)
            return
        assert member.classic is not None
        self._protocol.cancel("sync", group.group_id, member.member_id)
        self._protocol.restart_session(group.group_id, member.member_id, now, member.classic.session_timeout_ms)
        assigned = {topic_id: list(partitions) for topic_id, partitions in member.assigned.items()}
        metadata = member.classic.protocols[0][1] if member.classic.protocols else b""
        out.response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(assigned, metadata, self._protocol.topics),
        )

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, out: Result[HeartbeatResponse], now: Instant
    ) -> None:
        """Heartbeat: restarts the session. REBALANCE_IN_PROGRESS if JoinGroup would move the member a step further."""
        try:
            member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        except KafkaError as error:
            out.response = HeartbeatResponse(error_code=error.code)
            return
        assert member.classic is not None
        self._protocol.restart_session(group.group_id, member.member_id, now, member.classic.session_timeout_ms)
        error_code = ErrorCode.NONE
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_partitions(group, member))
            or _needs_classic_member(group)
        ):
            self._await_join(group, member, now)
            error_code = ErrorCode.REBALANCE_IN_PROGRESS
        out.response = HeartbeatResponse(error_code=error_code)

    def _await_join(self, group: ConsumerGroup, member: ConsumerMember, now: Instant) -> None:
        if not self._protocol.is_scheduled("join", group.group_id, member.member_id):
            self._protocol.schedule("join", group.group_id, member.member_id, member.rebalance_timeout_ms, now)

    def _member(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = self._protocol.static_owner(group, member_id, instance_id)
        if member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if member.epoch != generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def _check_protocol(self, member: ConsumerMember, request: SyncGroupRequest) -> None:
        assert member.classic is not None
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.protocol_name not in (None, member.classic.protocols[0][0]):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    # -- LeaveGroup ----------------------------------------------------------------------------------------------------

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, out: Result[LeaveGroupResponse], now: Instant
    ) -> None:
        """LeaveGroup: members leave by member id or, at an administrator's request, by group instance id. Each has an
        error of its own."""
        leaving: dict[str, ConsumerMember] = {}
        responses = []
        for identity in request.members:
            error = ErrorCode.NONE
            try:
                member = self._leaving(group, identity)
                leaving[member.member_id] = member
            except KafkaError as refused:
                error = refused.code
            responses.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        out.response = LeaveGroupResponse(members=responses)
        self._protocol.fence(group, list(leaving.values()), out, now)

    def _leaving(self, group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
        if identity.group_instance_id is None:
            return group.member(identity.member_id)
        if identity.member_id:
            return self._protocol.static_owner(group, identity.member_id, identity.group_instance_id)
        member = group.static_member(identity.group_instance_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member


def _needs_classic_member(group: ConsumerGroup) -> bool:
    """Whether the group or its topics have changed and only members of the classic protocol are left to compute a new
    assignment (in a group that may not be downgraded). Apache Kafka leaves such a group unchanged until a member
    joins."""
    behind = group.epoch > group.assignment_epoch or group.checked_epoch is None
    return behind and group.has_only_classic_without(())


def _waits_for_partitions(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still owns a partition of the member's target assignment."""
    for topic_id, partitions in group.target.get(member.member_id, NOTHING).items():
        owned = member.assigned.get(topic_id, {})
        if any(partition not in owned and group.owner(topic_id, partition) is not None for partition in partitions):
            return True
    return False


def _subscription(protocols: tuple[tuple[str, bytes], ...]) -> ConsumerProtocolSubscription:
    try:
        return parse_subscription(protocols[0][1])
    except CodecError:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None


def _owned(subscription: ConsumerProtocolSubscription, topics: Topics) -> Reported:
    known = ((topics.id(topic.topic), topic.partitions) for topic in subscription.owned_partitions)
    return [(topic_id, partitions) for topic_id, partitions in known if topic_id is not None]


def _updated(
    old: ConsumerMember,
    request: JoinGroupRequest,
    caller: Caller,
    subscription: ConsumerProtocolSubscription,
    protocols: tuple[tuple[str, bytes], ...],
) -> ConsumerMember:
    return old._replace(
        instance_id=old.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or old.rack_id,
        rebalance_timeout_ms=(
            old.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicFacts(request.session_timeout_ms, protocols),
    )


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0][0],
    )
