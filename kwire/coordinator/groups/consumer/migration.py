"""Migration of a group with members between the protocols (`group.consumer.migration.policy`).

Upgrade: when the first member of the consumer protocol joins a classic group, it becomes a consumer group. The other
members still use the classic protocol there (`consumer.classic`). Downgrade: when the last member of the consumer
protocol has left, the remaining members form a classic group again, which rebalances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.errors import CodecError
from kwire.codec.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kwire.codec.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.codec.protocol import decode, encode
from kwire.coordinator.assignors.model import Partitions
from kwire.coordinator.groups.classic import records as classic_records
from kwire.coordinator.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicMember
from kwire.coordinator.groups.classic.rebalance import Rebalancer
from kwire.coordinator.groups.consumer.group import NOTHING, ConsumerGroup
from kwire.coordinator.groups.consumer.member import ClassicFacts, ConsumerMember, MemberState
from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import Groups, GroupSettings, GroupState
from kwire.coordinator.groups.records import NO_TIMESTAMP

if TYPE_CHECKING:
    from kwire.coordinator.runtime.machine import CoordinatorRecord, Instant, Result

_UP = ("upgrade", "bidirectional")
_DOWN = ("downgrade", "bidirectional")
_CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
    "before re-attempting the upgrade"
)
"""Why such a group stays classic, in Kafka's words; its clients log them."""


class Migration:
    """Upgrades and downgrades of all groups of a shard."""

    def __init__(self, groups: Groups, rebalancer: Rebalancer, settings: GroupSettings) -> None:
        self._groups = groups
        self._rebalancer = rebalancer
        self._settings = settings

    @property
    def _policy(self) -> str:
        return self._settings.group_consumer_migration_policy.lower()

    @property
    def is_disabled(self) -> bool:
        """Whether the policy forbids migration in both directions."""
        return self._policy == "disabled"

    # -- upgrade -------------------------------------------------------------------------------------------------------

    def upgrade(self, classic: ClassicGroup, topics: Topics, records: list[CoordinatorRecord]) -> ConsumerGroup:
        """The consumer group that replaces a classic group. Its records are added to ``records``; nothing changes
        before they are applied. Raises GROUP_ID_NOT_FOUND if the group cannot be upgraded."""
        self._check_upgrade(classic)
        group = ConsumerGroup(classic.group_id)
        group.epoch = group.assignment_epoch = classic.generation
        try:
            for member in classic.members.values():
                converted, target = _as_consumer(classic, member, topics)
                group.put(converted)
                group.target[member.member_id] = target
            _keep_what_is_held(classic, group, topics)
        except CodecError as error:
            raise _cannot_upgrade(classic, f"the embedded consumer protocol is malformed: {error}") from None
        if classic.state is GroupState.STABLE and _is_complete(group, topics):
            group.metadata_hash = topics.metadata_hash(group.names)
        # Otherwise the first check of the topics finds a different hash, and a new assignment is computed.
        records.extend(classic.tombstones())
        records.extend(group.records())
        return group

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        if self._policy not in _UP:
            raise _cannot_upgrade(classic, "online upgrade is disabled")
        if not classic.uses_consumer_protocol:
            raise _cannot_upgrade(classic, "the group does not use the consumer embedded protocol")
        if len(classic.members) > self._settings.group_consumer_max_size:
            raise _cannot_upgrade(classic, "the group size exceeds the consumer group maximum size")

    def dissolve(self, classic: ClassicGroup, out: Result[Any]) -> None:
        """The classic group was replaced: answer its parked requests with REBALANCE_IN_PROGRESS."""
        for member_id in list(classic.members):
            self._rebalancer.fail_parked(classic, member_id, out, "", ErrorCode.REBALANCE_IN_PROGRESS)

    # -- downgrade -----------------------------------------------------------------------------------------------------

    def may_downgrade(self, group: ConsumerGroup, gone: Sequence[str], joining: int = 0) -> bool:
        """Whether the group is to be downgraded once the members ``gone`` have left and ``joining`` members have
        joined."""
        remaining = len(group.members) - len(gone) + joining
        return (
            remaining > 0
            and group.has_only_classic_without(gone)
            and self._policy in _DOWN
            and remaining <= self._settings.group_max_size
        )

    def downgrade(
        self,
        group: ConsumerGroup,
        gone: Sequence[str],
        topics: Topics,
        out: Result[Any],
        now: Instant,
        forget: Callable[[ConsumerGroup], None],
        joining: ConsumerMember | None = None,
        rebalance: bool = True,
        unsynced: Sequence[str] = (),
    ) -> None:
        """Replace the group by a classic group without the members ``gone``. ``joining``: the static member that
        replaces the one in ``gone``. The classic group rebalances unless its assignment is still valid (``rebalance``);
        then the members ``unsynced`` still have to send SyncGroup."""
        # The missing timestamp shows a broker that loads the group that it has not rebalanced since.
        classic = ClassicGroup(group.group_id, NO_TIMESTAMP)
        classic.generation = group.epoch
        classic.protocol_type = CONSUMER_PROTOCOL_TYPE
        remaining = [member for member_id, member in group.members.items() if member_id not in gone]
        for member in remaining if joining is None else [*remaining, joining]:
            classic.add(_as_classic(member), CONSUMER_PROTOCOL_TYPE)
        classic.protocol_name = name = classic.choose_protocol()
        assignments = {}
        for member_id, converted in classic.members.items():
            holder = gone[0] if joining is not None and member_id == joining.member_id else member_id
            metadata = converted.protocols.get(name, b"")
            assignments[member_id] = assignment_bytes(_left_to(group, holder, gone), metadata, topics)
        out.records.extend(group.tombstones())
        out.records.append(classic_records.assigned_group(classic, assignments))

        def applied(out: Result[Any], now: Instant) -> None:
            forget(group)
            real = self._groups.find(group.group_id)
            assert isinstance(real, ClassicGroup)
            for member in classic.members.values():
                known = real.members[member.member_id]
                real.update(known, member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
                self._rebalancer.restart_session(real, member.member_id, member.session_timeout_ms, now)
            if rebalance:
                self._rebalancer.prepare(real, out, now)
            elif unsynced:
                real.unsynced = dict.fromkeys(unsynced)
                self._rebalancer.await_syncs(real, now)

        out.applied = applied

    def topics_changed(self, classic: ClassicGroup, out: Result[Any], now: Instant) -> None:
        """Rebalance a group that has kept its assignment since its downgrade: its leader does not know that it leads,
        so it does not watch the topics. Apache Kafka leaves such a group unchanged until a member joins."""
        if self._groups.holds(classic) and classic.state is GroupState.STABLE and classic.is_just_downgraded:
            self._rebalancer.prepare(classic, out, now)


def _left_to(group: ConsumerGroup, holder: str, gone: Sequence[str]) -> Partitions:
    """The assignment of a member after a downgrade: its target assignment without partitions that others still have to
    revoke, and with those that it still has to revoke itself. Apache Kafka writes the target assignment, so that a
    partition may have two owners if the group is upgraded again."""
    whose = (None, holder, *gone)
    left = {
        topic: {one for one in parts if group.owner(topic, one) in whose}
        for topic, parts in group.target.get(holder, NOTHING).items()
    }
    if holder not in gone:
        member = group.members[holder]
        for part in (member.assigned, member.revoking):
            for topic, partitions in part.items():
                left.setdefault(topic, set()).update(partitions)
    return {topic: sorted(partitions) for topic, partitions in left.items()}


def _cannot_upgrade(classic: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )


def _is_complete(group: ConsumerGroup, topics: Topics) -> bool:
    """Whether every partition of the group's topics is assigned. The leader may have missed added partitions."""
    counts = topics.partition_counts(topics.ids(group.names))
    assigned = dict.fromkeys(counts, 0)
    for target in group.target.values():
        for topic_id, partitions in target.items():
            assigned[topic_id] = assigned.get(topic_id, 0) + len(partitions)
    return assigned == counts


def _as_consumer(classic: ClassicGroup, member: ClassicMember, topics: Topics) -> tuple[ConsumerMember, Partitions]:
    """A member of the classic group as a member of a consumer group, with its partitions. Raises CodecError,
    KafkaError."""
    owned: dict[bytes, list[int]] = {}
    if member.held:
        assignment = _parse(ConsumerProtocolAssignment, member.held)
        if assignment.user_data:
            raise _cannot_upgrade(classic, _CUSTOM_ASSIGNOR)
        for topic in assignment.assigned_partitions:
            topic_id = topics.id(topic.topic)
            if topic_id is not None:  # the topic may have been recreated with fewer partitions
                count = topics.partition_counts([topic_id])[topic_id]
                owned[topic_id] = sorted(partition for partition in topic.partitions if partition < count)
    subscription = parse_subscription(member.protocols.get(classic.protocol_name or "", b""))
    generation = classic.generation
    converted = ConsumerMember(
        member.member_id,
        epoch=generation,
        previous_epoch=generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        classic=ClassicFacts(member.session_timeout_ms, tuple(member.protocols.items())),
        assigned={topic_id: dict.fromkeys(partitions, generation) for topic_id, partitions in owned.items()},
    )
    return converted, owned


def _keep_what_is_held(classic: ClassicGroup, group: ConsumerGroup, topics: Topics) -> None:
    """Treat partitions as owned until their member has revoked them. In a cooperative rebalance, a member may own more
    than its assignment when it joins the generation. It confirms the revocation by joining again, and it may not have
    received its SyncGroup response yet. Apache Kafka treats such partitions as free at once, so that they may have two
    owners. Raises CodecError."""
    name = classic.protocol_name or ""
    subscriptions = {
        one.member_id: parse_subscription(one.protocols.get(name, b"")) for one in classic.members.values()
    }
    newest_first = sorted(subscriptions.items(), key=lambda pair: pair[1].generation_id, reverse=True)
    for member_id, subscription in newest_first:
        held: dict[bytes, dict[int, int]] = {}
        for topic in subscription.owned_partitions:
            topic_id = topics.id(topic.topic)
            if topic_id is None:
                continue
            count = topics.partition_counts([topic_id])[topic_id]
            free = [one for one in topic.partitions if 0 <= one < count and group.owner(topic_id, one) is None]
            if free:
                held[topic_id] = dict.fromkeys(free, classic.generation)
        if held:
            group.put(group.members[member_id]._replace(state=MemberState.UNREVOKED_PARTITIONS, revoking=held))


def _as_classic(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=dict(member.classic.protocols),
    )


def parse_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """A consumer's JoinGroup metadata. Raises CodecError."""
    subscription: ConsumerProtocolSubscription = _parse(ConsumerProtocolSubscription, metadata)
    return subscription


def assignment_bytes(assigned: Partitions, metadata: bytes, topics: Topics) -> bytes:
    """An assignment as a member of the classic protocol reads it, in the version of its own metadata."""
    given = []
    for topic_id, partitions in assigned.items():
        name = topics.name(topic_id)
        if name is not None:
            given.append(TopicPartition(topic=name, partitions=sorted(partitions)))
    version = min(max(_version(metadata), 0), ConsumerProtocolAssignment.VALID_VERSIONS[1])
    message = ConsumerProtocolAssignment(assigned_partitions=given)
    return version.to_bytes(2, "big") + encode(message, version)


def _version(data: bytes) -> int:
    return int.from_bytes(data[:2], "big", signed=True)


def _parse(kind: type[Any], data: bytes) -> Any:
    if len(data) < 2 or _version(data) < 0:
        raise CodecError(f"{kind.__name__}: no version")
    return decode(kind, min(_version(data), kind.VALID_VERSIONS[1]), data, 2)[0]
