"""Members that speak the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup there.

While a group migrates, both kinds live in it. JoinGroup brings the member's subscription and what it owns, and steps it
towards the target assignment, as a heartbeat does for the others; the generation is the member's epoch. SyncGroup gives
it its partitions. Heartbeat sends it back to JoinGroup whenever there is a step to take. No request is ever parked.
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
from kwire.coordinator.groups.consumer.member_update import Advance
from kwire.coordinator.groups.consumer.migration import Migration, assignment_bytes, parse_subscription
from kwire.coordinator.groups.consumer.protocol import ConsumerProtocol, perform
from kwire.coordinator.groups.consumer.reconcile import Reported
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import GroupSettings
from kwire.coordinator.runtime.machine import Caller, Instant, Result


class ClassicMembers:
    """The classic operations on a shard's consumer groups."""

    def __init__(self, protocol: ConsumerProtocol, migration: Migration, settings: GroupSettings) -> None:
        self._protocol = protocol
        self._migration = migration
        self._settings = settings

    # --- JoinGroup -------------------------------------------------------------------------------------------------

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        out: Result[JoinGroupResponse],
        now: Instant,
    ) -> None:
        """A member joins, or joins again. The answer is an error or the member's next step."""
        try:
            self._join(group, request, caller, out, now)
        except KafkaError as error:
            out.records.clear()
            out.applied = None
            out.answer = refusal(error.code, "")

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
            out.answer = refusal(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return
        subscription = _subscription(protocols)
        predecessor = group.static_member(request.group_instance_id)
        old = self._sender(group, request, member_id, subscription, out)
        new = _wanted(old, request, caller, subscription, protocols)
        topics = self._protocol.cluster
        reported = _owned(subscription, topics)
        advance = Advance(group, topics, self._settings, now, out.records)
        changed = advance.subscribe(old, new, self._protocol.new_topics_revision)
        if predecessor is not None and self._migration.may_downgrade(group, [predecessor.member_id], joining=1):
            self._downgrade(group, advance, predecessor, new, reported, changed, out, now)
            return
        member = advance.step(new, advance.retarget(old, new), reported, subscription_changed=changed)
        out.answer = _joined(member)

        def applied(out: Result[Any], now: Instant) -> None:
            self._protocol.cancel("join", group.group_id, member_id)
            self._protocol.heard_of(group.group_id, member_id, now, request.session_timeout_ms)
            self._protocol.schedule("sync", group.group_id, member_id, request.rebalance_timeout_ms, now)
            if advance.needs_regex_refresh:
                self._protocol.refresh_regexes(group.group_id, now)

        perform(out, now, applied)

    def _sender(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        member_id: str,
        subscription: ConsumerProtocolSubscription,
        out: Result[Any],
    ) -> ConsumerMember:
        """Who asks. One that was removed and says that it still has partitions learns, as in a classic group, that they
        are not its own any more; Apache Kafka lets it in, so that they may have two owners until its SyncGroup."""
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
        advance: Advance,
        predecessor: ConsumerMember,
        new: ConsumerMember,
        reported: Reported,
        changed: bool,
        out: Result[JoinGroupResponse],
        now: Instant,
    ) -> None:
        """The last member of the consumer protocol comes back as one of the classic protocol."""
        others = [one for one in group.members.values() if one is not predecessor]
        late = [one.member_id for one in others if self._protocol.is_scheduled("sync", group.group_id, one.member_id)]
        # A member on its way would never be told what else is its own.
        stale = group.assignment_epoch < advance.epoch or not all(
            one.is_reconciled_to(group.assignment_epoch) for one in others
        )
        member = new
        if not stale:
            target = group.assignment_epoch, group.target_of(new)
            member = advance.step(new, target, reported, subscription_changed=changed)
        out.records.clear()
        out.answer = _joined(member)
        self._migration.downgrade(
            group,
            [predecessor.member_id],
            self._protocol.cluster,
            out,
            now,
            self._protocol.forget,
            joining=member,
            rebalance=stale,
            unsynced=[member.member_id, *late],
        )

    # --- SyncGroup and Heartbeat ------------------------------------------------------------------------------------

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, out: Result[SyncGroupResponse], now: Instant
    ) -> None:
        """What the member owns in its generation."""
        try:
            member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
            self._check_protocol(member, request)
            # Who has to give partitions up is told so by what is left of its assignment.
            if member.epoch < group.assignment_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._await_join(group, member, now)
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        except KafkaError as error:
            out.answer = SyncGroupResponse(error_code=error.code)
            return
        assert member.classic is not None
        self._protocol.cancel("sync", group.group_id, member.member_id)
        self._protocol.heard_of(group.group_id, member.member_id, now, member.classic.session_timeout_ms)
        assigned = {topic_id: list(partitions) for topic_id, partitions in member.assigned.items()}
        metadata = member.classic.protocols[0][1] if member.classic.protocols else b""
        out.answer = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(assigned, metadata, self._protocol.cluster),
        )

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, out: Result[HeartbeatResponse], now: Instant
    ) -> None:
        """The member is alive; REBALANCE_IN_PROGRESS wherever a JoinGroup would bring it a step on."""
        try:
            member = self._member(group, request.member_id, request.group_instance_id, request.generation_id)
        except KafkaError as error:
            out.answer = HeartbeatResponse(error_code=error.code)
            return
        assert member.classic is not None
        self._protocol.heard_of(group.group_id, member.member_id, now, member.classic.session_timeout_ms)
        error_code = ErrorCode.NONE
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member))
            or _nobody_else_looks(group)
        ):
            self._await_join(group, member, now)
            error_code = ErrorCode.REBALANCE_IN_PROGRESS
        out.answer = HeartbeatResponse(error_code=error_code)

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

    # --- LeaveGroup ------------------------------------------------------------------------------------------------

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, out: Result[LeaveGroupResponse], now: Instant
    ) -> None:
        """Members leave by id, or (administration) by group instance id; each has its own error."""
        leaving: dict[str, ConsumerMember] = {}
        answers = []
        for identity in request.members:
            error = ErrorCode.NONE
            try:
                member = self._leaving(group, identity)
                leaving[member.member_id] = member
            except KafkaError as refused:
                error = refused.code
            answers.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        out.answer = LeaveGroupResponse(members=answers)
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


def _nobody_else_looks(group: ConsumerGroup) -> bool:
    """Whether the group or its topics have changed, and no member of the consumer protocol is there to take it on (a
    group that may not be downgraded). Apache Kafka leaves such a group as it is until somebody joins."""
    behind = group.epoch > group.assignment_epoch or group.checked_epoch is None
    return behind and group.speaks_only_classic_without(())


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether somebody else still owns a partition that the member should have."""
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


def _wanted(
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
