"""The state of one classic group: its members, its generation, and its parked requests.

The transitions are in `classic.rebalance`, `classic.join` and `classic.protocol`.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance -> ...
    PreparingRebalance -> Empty (no member joined again)

* PreparingRebalance collects JoinGroup requests. It ends when all members have joined, or by timer.
* CompletingRebalance has a generation and a leader, and waits for the leader's SyncGroup.
* Stable has an assignment. Only this state and Empty are written to the log, so a loaded group is in one of them.

A group without ``protocol_type`` never had a member. It holds the offsets of consumers that assign themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.errors import CodecError
from kwire.coordinator.groups import records as group_records
from kwire.coordinator.groups.group import ExpiryBase, Group, GroupState
from kwire.coordinator.runtime.java_hash import hash_map_order

if TYPE_CHECKING:
    from kwire.codec.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
    from kwire.coordinator.runtime.machine import CoordinatorRecord, Waiter

CONSUMER_PROTOCOL_TYPE = "consumer"


class ClassicMember:
    """One member: the contents of its last JoinGroup, and its assignment.

    ``protocols`` are in the member's order of preference. ``is_new``: the member has not received a JoinGroup response
    yet, so it cannot send heartbeats; its parked request keeps it in the group for a limited time only. ``held``: the
    last assignment written to the log. The member may keep it in a cooperative rebalance, while ``assignment`` is
    empty.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "held",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: dict[str, bytes],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = self.held = assignment
        self.is_new = False

    def matches(self, protocols: dict[str, bytes]) -> bool:
        """Whether these are the member's protocols: the same names in the same order, with the same metadata."""
        return list(self.protocols.items()) == list(protocols.items())

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate that this member prefers."""
        return next(name for name in self.protocols if name in candidates)


class ClassicGroup(Group):
    """A group of the classic protocol.

    ``pending``: member ids that were assigned (MEMBER_ID_REQUIRED) and have not joined yet. ``unsynced``: members of
    the generation that have not sent SyncGroup yet. ``joining`` and ``syncing``: the parked JoinGroup and SyncGroup
    requests of each member; there are several if a client has repeated its request over a new connection.
    """

    __slots__ = (
        "generation",
        "joining",
        "leader",
        "members",
        "newcomers_since_delay",
        "pending",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_ms",
        "static_ids",
        "subscribed_topics",
        "support",
        "syncing",
        "unsynced",
    )

    type_name: ClassVar[str] = "classic"

    def __init__(self, group_id: str, now_ms: int) -> None:
        super().__init__(group_id)
        self.state = self.previous_state = GroupState.EMPTY
        self.state_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_ids: dict[str, str] = {}
        self.support: dict[str, int] = {}
        self.pending: dict[str, None] = {}
        self.unsynced: dict[str, None] = {}
        self.joining: dict[str, list[Waiter]] = {}
        self.syncing: dict[str, list[Waiter]] = {}
        self.newcomers_since_delay = False
        self.subscribed_topics: frozenset[str] | None = None

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The group state in ListGroups and DescribeGroups."""
        return self.state.value

    @property
    def listed_protocol_type(self) -> str:
        """The protocol type in ListGroups, "" if the group never had a member."""
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        """Whether the group is in the state Empty."""
        return self.state is GroupState.EMPTY

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers, so that their metadata holds subscriptions."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def is_just_downgraded(self) -> bool:
        """Whether the group was downgraded from the consumer protocol and has not rebalanced since."""
        return bool(self.members) and self.state_ms == group_records.NO_TIMESTAMP

    @property
    def all_joined(self) -> bool:
        """Whether every member has sent JoinGroup and no member id is pending."""
        return len(self.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_leader(self, member_id: str) -> bool:
        """Whether the member leads the group."""
        return self.leader == member_id

    def supports(self, protocol_type: str, protocols: dict[str, bytes]) -> bool:
        """Whether a member with these protocols shares one with all present members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        member_count = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.support.get(name, 0) == member_count for name in protocols
        )

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        """Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if a newer member has taken over the group instance id."""
        if instance_id is not None:
            current = self.static_ids.get(instance_id)
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if current != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_generation(self, generation: int) -> None:
        """Raises ILLEGAL_GENERATION unless it is the present generation."""
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def is_to_join_again(self, member_id: str) -> bool:
        """Whether a cooperative member still has to revoke partitions that it owned when it joined the generation. No
        other member gets them before this one has joined again. Apache Kafka does not check this when a static member
        is replaced."""
        member = self.members[member_id]
        if not self.uses_consumer_protocol:
            return False
        try:
            owned = _partitions(member.protocols.get(self.protocol_name or "", b""), of_subscription=True)
            return bool(owned) and not owned <= _partitions(member.held, of_subscription=False)
        except CodecError:
            return False

    def choose_protocol(self) -> str:
        """The protocol that all members support and most prefer. Ties break as in Kafka."""
        member_count = len(self.members)
        candidates = {name for name, count in self.support.items() if count == member_count}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(hash_map_order(votes), key=votes.__getitem__)

    # -- checks for offsets and administration -------------------------------------------------------------------------

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, version: int, transactional: bool = False
    ) -> None:
        """Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION or REBALANCE_IN_PROGRESS."""
        if epoch < 0 and self.state is GroupState.EMPTY:
            return  # an administrator, or a consumer that assigns itself
        if epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(epoch)
        elif not transactional:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Any client may read the offsets of a classic group."""
        return

    def check_offset_delete(self) -> None:
        """Raises NON_EMPTY_GROUP if the members are not consumers, so that their subscriptions are unknown."""
        if self.state is not GroupState.EMPTY and not self.uses_consumer_protocol:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP."""
        if self.state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic. If subscriptions cannot be parsed, every topic counts as
        subscribed."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def offset_expiry_base(self) -> ExpiryBase | None:
        """The commit time, or the time when the group became empty. None: no offset expires now (KIP-211)."""
        if self.protocol_type is None:
            return lambda committed: committed.commit_ms
        if self.state is GroupState.EMPTY:
            since = self.state_ms
            return lambda committed: since if since >= 0 else committed.commit_ms
        if self.uses_consumer_protocol and self.subscribed_topics is not None and self.state is GroupState.STABLE:
            return lambda committed: committed.commit_ms
        return None

    def counts(self) -> dict[str, int]:
        """The generation, and its members with those that are about to be."""
        return {
            "generation": self.generation,
            "members": len(self.members),
            "joining": len(self.joining),
            "pending": len(self.pending),
        }

    def tombstones(self) -> list[CoordinatorRecord]:
        """The record that deletes the group."""
        return [group_records.group_tombstone(self.group_id)]

    # -- changes -------------------------------------------------------------------------------------------------------

    def enter(self, state: GroupState, now_ms: int) -> None:
        """Change the state. ``now_ms`` is wall clock time."""
        self.previous_state, self.state = self.state, state
        self.state_ms = now_ms

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member. The first member sets the protocol type and becomes the leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._count_support(member, 1)
        self.pending.pop(member.member_id, None)

    def update(self, member: ClassicMember, protocols: dict[str, bytes], rebalance_ms: int, session_ms: int) -> None:
        """Store what a member's new JoinGroup contains."""
        self._count_support(member, -1)
        member.protocols = protocols
        self._count_support(member, 1)
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id. Its parked requests must have been answered before."""
        self.pending.pop(member_id, None)
        self.unsynced.pop(member_id, None)
        self.joining.pop(member_id, None)
        self.syncing.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count_support(member, -1)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has joined the new generation. Returns False if no member has."""
        if self.leader is not None and self.leader in self.joining:
            return True
        joined = next((member_id for member_id in self.members if member_id in self.joining), None)
        if self.leader is None or joined is None:
            return False
        self.leader = joined
        return True

    def start_generation(self, now_ms: int) -> None:
        """Form the next generation out of the present members."""
        self.generation += 1
        self.protocol_name = self.choose_protocol()
        self.unsynced = dict.fromkeys(self.members)
        self.enter(GroupState.COMPLETING_REBALANCE, now_ms)
        self._read_subscriptions()

    def apply_metadata(self, value: GroupMetadataValue) -> None:
        """Apply a record of this group, in operation and when the log is loaded: Stable with these members, or
        Empty."""
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.generation = value.generation
        self.leader = value.leader
        self.members = {written.member_id: self._applied_member(written) for written in value.members}
        self.static_ids = {
            member.instance_id: member_id
            for member_id, member in self.members.items()
            if member.instance_id is not None
        }
        self.support = {}
        for member in self.members.values():
            self._count_support(member, 1)
        for table in (self.unsynced, self.joining, self.syncing):
            for member_id in [member_id for member_id in table if member_id not in self.members]:
                del table[member_id]
        self.enter(GroupState.STABLE if self.members else GroupState.EMPTY, value.current_state_timestamp)
        self._read_subscriptions()

    def _applied_member(self, written: MemberMetadata) -> ClassicMember:
        member = self.members.get(written.member_id)
        known = None if member is None else member.protocols.get(self.protocol_name or "")
        if member is not None and known == written.subscription:
            # In operation: this object has all protocols of the member, the record only the chosen one.
            member.assignment = member.held = bytes(written.assignment)
            return member
        rebalance_ms = written.rebalance_timeout
        return ClassicMember(
            written.member_id,
            instance_id=written.group_instance_id,
            client_id=written.client_id,
            client_host=written.client_host,
            rebalance_timeout_ms=written.session_timeout if rebalance_ms == -1 else rebalance_ms,
            session_timeout_ms=written.session_timeout,
            protocols={self.protocol_name or "": bytes(written.subscription)},
            assignment=bytes(written.assignment),
        )

    def _count_support(self, member: ClassicMember, by: int) -> None:
        for name in member.protocols:
            count = self.support.get(name, 0) + by
            if count:
                self.support[name] = count
            else:
                del self.support[name]

    def _read_subscriptions(self) -> None:
        """Set the topics that the generation subscribes to: None if the metadata cannot be parsed."""
        self.subscribed_topics = None
        if not self.uses_consumer_protocol:
            return
        if not self.members:
            self.subscribed_topics = frozenset()
            return
        name = self.protocol_name or ""
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics.update(subscription_topics(member.protocols.get(name, b"")))
        except CodecError:
            return
        self.subscribed_topics = frozenset(topics)


def subscription_topics(metadata: bytes) -> list[str]:
    """The topics in a consumer's JoinGroup metadata. Raises CodecError for invalid metadata."""
    from kwire.codec.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
    from kwire.codec.protocol import decode

    if len(metadata) < 2:
        raise CodecError("a consumer's metadata without a version")
    version = int.from_bytes(metadata[:2], "big", signed=True)
    if version < 0:
        raise CodecError(f"consumer metadata of version {version}")
    known = min(version, ConsumerProtocolSubscription.VALID_VERSIONS[1])
    return decode(ConsumerProtocolSubscription, known, metadata, 2)[0].topics


def _partitions(data: bytes, *, of_subscription: bool) -> set[tuple[str, int]]:
    """The partitions that a consumer's subscription reports as owned, or those of its assignment. Raises CodecError."""
    from kwire.codec.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
    from kwire.codec.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
    from kwire.codec.protocol import decode

    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or version < 0:
        return set()
    if of_subscription:
        known = min(version, ConsumerProtocolSubscription.VALID_VERSIONS[1])
        owned = decode(ConsumerProtocolSubscription, known, data, 2)[0].owned_partitions
        return {(topic.topic, index) for topic in owned for index in topic.partitions}
    known = min(version, ConsumerProtocolAssignment.VALID_VERSIONS[1])
    given = decode(ConsumerProtocolAssignment, known, data, 2)[0].assigned_partitions
    return {(topic.topic, index) for topic in given for index in topic.partitions}
