"""The state of one consumer group (KIP-848): its members, its epochs, and the owners of partitions.

The state changes only by applying records. The operations are in `consumer.protocol`. There are three kinds of epochs:
``epoch`` (the group epoch) is bumped with every change of members, subscriptions or topics; ``assignment_epoch`` is the
group epoch for which the target assignment was computed; each member's epoch is the one that the member has reached.

* Empty: the group has no members.
* Assigning: the target assignment is older than the group epoch.
* Reconciling: some member has not reached the target assignment yet.
* Stable: all members have reached it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from kwire.base.errors import ErrorCode, KafkaError
from kwire.coordinator.assignors.model import Partitions
from kwire.coordinator.groups.consumer import records as consumer_records
from kwire.coordinator.groups.consumer.member import ClassicFacts, ConsumerMember, MemberState, OwnedPartitions
from kwire.coordinator.groups.consumer.records import ResolvedRegex
from kwire.coordinator.groups.group import ExpiryBase, Group
from kwire.coordinator.runtime.java_hash import hash_map_order

if TYPE_CHECKING:
    from kwire.coordinator.runtime.machine import CoordinatorRecord

EPOCH_COMMIT_SINCE = 9
"""The version of OffsetCommit from which on it carries member epochs."""

FIRST_EPOCH = 1
"""The epoch of a new group. Member epoch 0 means that a member joins."""

NOTHING: Partitions = {}
"""No partitions."""
Counts = dict[str, int]
"""Name -> number of members."""


class ConsumerGroup(Group):
    """See the module.

    ``target``: member id -> its target assignment. ``owners``: topic id -> partition -> the member that owns it or
    still has to revoke it. ``names`` and ``regexes`` count the members that subscribe to a name or expression,
    ``assignors`` those that prefer an assignor. ``checked_epoch``: the group epoch in which the topics were last
    checked for changes (None: they have to be checked); it is not in the log.
    """

    __slots__ = (
        "assignment_epoch",
        "assignment_ms",
        "assignors",
        "checked_epoch",
        "classic_count",
        "epoch",
        "has_partition_metadata",
        "members",
        "metadata_hash",
        "names",
        "owners",
        "regexes",
        "resolved",
        "static_ids",
        "supported",
        "target",
    )

    type_name: ClassVar[str] = "consumer"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}
        self.target: dict[str, Partitions] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        self.names: Counts = {}
        self.regexes: Counts = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.assignors: Counts = {}
        self.classic_count = 0
        self.supported: Counts = {}
        self.has_partition_metadata = False
        self.checked_epoch: int | None = None

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        """The group state in ListGroups and ConsumerGroupDescribe."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def listed_protocol_type(self) -> str:
        """The protocol type in ListGroups: always "consumer"."""
        return "consumer"

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def member(self, member_id: str) -> ConsumerMember:
        """The member with this id. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with this group instance id, or None."""
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Partitions:
        """The target assignment of a member. A static member that has returned gets its predecessor's."""
        holder = member.member_id
        if member.instance_id is not None:
            holder = self.static_ids.get(member.instance_id, holder)
        return self.target.get(holder, NOTHING)

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """The member that owns a partition or still has to revoke it, or None."""
        return self.owners.get(topic_id, {}).get(partition)

    def subscribed_topics(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> set[str]:
        """The names of all subscribed topics, as if ``new`` had replaced ``old``."""
        names = _changed(self.names, old.topics if old else (), new.topics if new else ())
        topics = set(names)
        for pattern in self.patterns(old, new):
            topics |= self.resolved.get(pattern, ResolvedRegex()).topics
        return topics

    def patterns(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> Counts:
        """The regular expressions and their numbers of subscribers, as if ``new`` had replaced ``old``."""
        return _changed(self.regexes, _pattern(old), _pattern(new))

    def is_homogeneous(self, old: ConsumerMember, new: ConsumerMember) -> bool:
        """Whether all members have the same subscription, as if ``new`` had replaced ``old``."""
        count = len(self.members)
        known = new.member_id in self.members or (new.instance_id is not None and new.instance_id in self.static_ids)
        count += not known
        names = _changed(self.names, old.topics, new.topics)
        patterns = self.patterns(old, new)
        if patterns:
            return not names and list(patterns.values()) == [count]
        return all(subscribers == count for subscribers in names.values())

    def preferred_assignor(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> str | None:
        """The assignor that most members prefer, as if ``new`` had replaced ``old``. None if no member prefers one."""
        counts = _changed(self.assignors, _assignor(old), _assignor(new))
        return max(hash_map_order(counts), key=counts.__getitem__) if counts else None

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member of the classic protocol shares a protocol with the present members of that kind."""
        requested = list(names)
        if not self.members:
            return bool(protocol_type) and bool(requested)
        if protocol_type != "consumer":
            return False
        return any(self.supported.get(name, 0) == self.classic_count for name in requested)

    def without(self, gone: Iterable[ConsumerMember]) -> tuple[set[str], list[str]]:
        """The subscribed topics without some members, and the regular expressions that lose their last subscriber."""
        names, patterns = dict(self.names), dict(self.regexes)
        for member in gone:
            _add(names, member.topics, -1)
            _add(patterns, _pattern(member), -1)
        topics = set(names)
        for pattern in patterns:
            topics |= self.resolved.get(pattern, ResolvedRegex()).topics
        return topics, [pattern for pattern in self.regexes if pattern not in patterns]

    def has_only_classic_without(self, gone: Iterable[str]) -> bool:
        """Whether all members use the classic protocol once the members ``gone`` have left."""
        leaving = [self.members[member_id] for member_id in gone]
        left = sum(member.uses_classic for member in leaving)
        return self.classic_count - left == len(self.members) - len(leaving)

    # -- checks for offsets and administration -------------------------------------------------------------------------

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, version: int, transactional: bool = False
    ) -> None:
        """Raises UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH, or ILLEGAL_GENERATION for a member of the
        classic protocol. Older epochs are checked per partition (`check_partition_commit`)."""
        if epoch < 0 and not self.members:
            return  # an administrator, or a consumer that assigns itself
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return
        member = self.member(member_id)
        if not transactional and not member.uses_classic and version < EPOCH_COMMIT_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "Members of consumer groups commit with version 9 or later."
            )
        if epoch > member.epoch:
            self._refuse_epoch(member, epoch)

    def check_partition_commit(self, member_id: str, epoch: int, topic: str, topic_id: bytes, partition: int) -> None:
        """A member with an older epoch may commit the offsets of partitions that it has owned since that epoch
        (KIP-1251). Raises as `check_offset_commit` does, for the whole request."""
        member = self.members.get(member_id)
        if member is None or epoch >= member.epoch:
            return
        since = member.assignment_epoch(topic_id, partition)
        if since is None or epoch < since:
            self._refuse_epoch(member, epoch)

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raises UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH if the request names a member."""
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            self._refuse_epoch(member, epoch)

    def _refuse_epoch(self, member: ConsumerMember, epoch: int) -> None:
        code = ErrorCode.ILLEGAL_GENERATION if member.uses_classic else ErrorCode.STALE_MEMBER_EPOCH
        raise KafkaError(code, f"Epoch {epoch} is not that of the member, {member.epoch}.")

    def check_offset_delete(self) -> None:
        """Always allowed: subscriptions are known."""
        return

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP."""
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic, by name or by a regular expression."""
        return topic in self.names or any(topic in resolved.topics for resolved in self.resolved.values())

    def offset_expiry_base(self) -> ExpiryBase | None:
        """The commit time."""
        return lambda committed: committed.commit_ms

    def counts(self) -> dict[str, int]:
        """The epochs of the group and of its target assignment, and the members."""
        return {"epoch": self.epoch, "assigned": self.assignment_epoch, "members": len(self.members)}

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group and its members."""
        group_id, written = self.group_id, consumer_records
        records = [written.current_tombstone(group_id, member_id) for member_id in self.members]
        records += [written.target_tombstone(group_id, member_id) for member_id in self.members]
        records.append(written.target_epoch_tombstone(group_id))
        records += [written.subscription_tombstone(group_id, member_id) for member_id in self.members]
        records += [written.regex_tombstone(group_id, pattern) for pattern in self.resolved]
        if self.has_partition_metadata:
            records.append(written.partition_metadata_tombstone(group_id))
        records.append(written.group_tombstone(group_id))
        return records

    def records(self) -> list[CoordinatorRecord]:
        """The records that create this group in the log."""
        group_id, written = self.group_id, consumer_records
        records = [written.subscription(group_id, member) for member in self.members.values()]
        records.append(written.group_epoch(group_id, self.epoch, self.metadata_hash))
        records += [written.target(group_id, one, self.target.get(one, NOTHING)) for one in self.members]
        records.append(written.target_epoch(group_id, self.assignment_epoch, self.assignment_ms))
        records += [written.current(group_id, member) for member in self.members.values()]
        return records

    # -- changes, by applying records ----------------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> None:
        """Add a member, or replace its former state."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id
        self._count(old, -1)
        self._count(member, 1)
        if old is None or old.assigned is not member.assigned or old.revoking is not member.revoking:
            self._release(old)
            for topic_id, partition in _owned(member):
                self.owners.setdefault(topic_id, {})[partition] = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, -1)
        self._release(member)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]

    def apply_subscription(self, member_id: str, value: Any | None) -> None:
        """Apply the record of a member's subscription; a tombstone removes the member."""
        if value is None:
            self.remove(member_id)
            return
        known = self.members.get(member_id) or ConsumerMember(member_id)
        facts = value.classic_member_metadata
        classic = None
        if facts is not None:
            protocols = tuple((one.name, bytes(one.metadata)) for one in facts.supported_protocols)
            classic = ClassicFacts(facts.session_timeout_ms, protocols)
        self.put(
            known._replace(
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                rebalance_timeout_ms=value.rebalance_timeout_ms,
                client_id=value.client_id,
                client_host=value.client_host,
                topics=tuple(sorted(set(value.subscribed_topic_names))),
                regex=value.subscribed_topic_regex or "",
                assignor=value.server_assignor,
                classic=classic,
            )
        )

    def apply_current(self, member_id: str, value: Any | None) -> None:
        """Apply the record of a member's current assignment; a tombstone empties it."""
        if value is None:
            member = self.members.get(member_id)
            if member is not None:
                none: OwnedPartitions = {}
                self.put(
                    member._replace(epoch=-1, previous_epoch=-1, state=MemberState.STABLE, assigned=none, revoking=none)
                )
            return
        known = self.members.get(member_id) or ConsumerMember(member_id)
        self.put(
            known._replace(
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState(value.state),
                assigned=consumer_records.owned_partitions(value.assigned_partitions, value.member_epoch),
                revoking=consumer_records.owned_partitions(value.partitions_pending_revocation, value.member_epoch),
            )
        )

    def apply_target(self, member_id: str, value: Any | None) -> None:
        """Apply the record of a member's target assignment."""
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = {topic.topic_id: list(topic.partitions) for topic in value.topic_partitions}

    def apply_target_epoch(self, value: Any | None) -> None:
        """Apply the record of the target assignment's epoch."""
        self.assignment_epoch = 0 if value is None else value.assignment_epoch
        self.assignment_ms = 0 if value is None else value.assignment_timestamp

    def apply_regex(self, pattern: str, value: Any | None) -> None:
        """Apply the record of a resolved regular expression; a tombstone removes the expression."""
        if value is None:
            self.resolved.pop(pattern, None)
        else:
            self.resolved[pattern] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)

    def _release(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        for topic_id, partition in _owned(member):
            partitions = self.owners.get(topic_id)
            if partitions is not None and partitions.get(partition) == member.member_id:
                del partitions[partition]
                if not partitions:
                    del self.owners[topic_id]

    def _count(self, member: ConsumerMember | None, by: int) -> None:
        if member is None:
            return
        _add(self.names, member.topics, by)
        _add(self.regexes, _pattern(member), by)
        _add(self.assignors, _assignor(member), by)
        if member.classic is not None:
            self.classic_count += by
            _add(self.supported, (name for name, _ in member.classic.protocols), by)


def _owned(member: ConsumerMember) -> Iterator[tuple[bytes, int]]:
    for owned in (member.assigned, member.revoking):
        for topic_id, partitions in owned.items():
            for partition in partitions:
                yield topic_id, partition


def _pattern(member: ConsumerMember | None) -> tuple[str, ...]:
    return (member.regex,) if member is not None and member.regex else ()


def _assignor(member: ConsumerMember | None) -> tuple[str, ...]:
    return (member.assignor,) if member is not None and member.assignor else ()


def _add(counts: Counts, names: Iterable[str], by: int) -> None:
    for name in names:
        count = counts.get(name, 0) + by
        if count:
            counts[name] = count
        else:
            del counts[name]


def _changed(counts: Counts, old: tuple[str, ...], new: tuple[str, ...]) -> Counts:
    """The counts with the names of one member changed. The same object if nothing changes."""
    if old == new:
        return counts
    changed = dict(counts)
    _add(changed, old, -1)
    _add(changed, new, 1)
    return changed
