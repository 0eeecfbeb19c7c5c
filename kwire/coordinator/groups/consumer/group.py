"""One group of the consumer protocol (KIP-848): its members, its epochs, and who owns what.

State only, changed by applying records. What heartbeats do with it: `consumer_protocol`. Three epochs tell how far it
is: ``epoch`` rises with every change of members, subscriptions or topics; ``assignment_epoch`` is the one that the
target assignment was made for; each member's epoch is the one it has reached.

    Empty: no members. Assigning: the target assignment is older than the group. Reconciling: a member is not there
    yet. Stable: all are.
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
"""The version of OffsetCommit that carries member epochs."""

FIRST_EPOCH = 1
"""A new group's: with nobody in it, it is where it should be. 0 is for members that join."""

CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
"""As clients and metrics name them. Dead is never held."""

NOTHING: Partitions = {}
Counts = dict[str, int]


class ConsumerGroup(Group):
    """See the module.

    ``target``: member id -> what it should own. ``owners``: topic id -> partition -> the member that owns it or has
    yet to give it up. ``names`` and ``regexes`` count the members that subscribe so, ``assignors`` those that prefer
    one. ``checked_epoch``: the topics were looked at for the last time in this group epoch; not in the log.
    """

    __slots__ = ("assignment_epoch", "assignment_ms", "assignors", "checked_epoch", "classic_count", "epoch",
                 "has_partition_metadata", "members", "metadata_hash", "names", "owners", "regexes", "resolved",
                 "static_ids", "supported", "target")  # fmt: skip

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

    # --- questions -------------------------------------------------------------------------------------------------

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def listed_protocol_type(self) -> str:
        return "consumer"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def member(self, member_id: str) -> ConsumerMember:
        """Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member that holds an instance id."""
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Partitions:
        """What a member should own; a static member that is back gets what its predecessor had."""
        holder = member.member_id
        if member.instance_id is not None:
            holder = self.static_ids.get(member.instance_id, holder)
        return self.target.get(holder, NOTHING)

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """Who owns a partition, or has yet to give it up."""
        return self.owners.get(topic_id, {}).get(partition)

    def subscribed_topics(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> set[str]:
        """All names of topics, as if ``old`` had become ``new``."""
        names = _changed(self.names, old.topics if old else (), new.topics if new else ())
        topics = set(names)
        for pattern in self.patterns(old, new):
            topics |= self.resolved.get(pattern, ResolvedRegex()).topics
        return topics

    def patterns(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> Counts:
        """The regular expressions with the number of their subscribers, as if ``old`` had become ``new``."""
        return _changed(self.regexes, _pattern(old), _pattern(new))

    def is_homogeneous(self, old: ConsumerMember, new: ConsumerMember) -> bool:
        """Whether all members subscribe to the same, as if ``old`` had become ``new``."""
        count = len(self.members)
        known = new.member_id in self.members or (new.instance_id is not None and new.instance_id in self.static_ids)
        count += not known
        names = _changed(self.names, old.topics, new.topics)
        patterns = self.patterns(old, new)
        if patterns:
            return not names and list(patterns.values()) == [count]
        return all(subscribers == count for subscribers in names.values())

    def preferred_assignor(self, old: ConsumerMember | None = None, new: ConsumerMember | None = None) -> str | None:
        """The assignor that most members ask for, as if ``old`` had become ``new``."""
        counts = _changed(self.assignors, _assignor(old), _assignor(new))
        return max(hash_map_order(counts), key=counts.__getitem__) if counts else None

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member of the classic protocol could take part beside the present ones of its kind."""
        asked = list(names)
        if not self.members:
            return bool(protocol_type) and bool(asked)
        if protocol_type != "consumer":
            return False
        return any(self.supported.get(name, 0) == self.classic_count for name in asked)

    def without(self, gone: Iterable[ConsumerMember]) -> tuple[set[str], list[str]]:
        """The topics that stay subscribed to, and the regular expressions that do not, once some members are gone."""
        names, patterns = dict(self.names), dict(self.regexes)
        for member in gone:
            _add(names, member.topics, -1)
            _add(patterns, _pattern(member), -1)
        topics = set(names)
        for pattern in patterns:
            topics |= self.resolved.get(pattern, ResolvedRegex()).topics
        return topics, [pattern for pattern in self.regexes if pattern not in patterns]

    def speaks_only_classic_without(self, gone: Iterable[str]) -> bool:
        """Whether nobody speaks the consumer protocol any more once some members are gone."""
        leaving = [self.members[member_id] for member_id in gone]
        left = sum(member.speaks_classic for member in leaving)
        return self.classic_count - left == len(self.members) - len(leaving)

    # --- what committed offsets and administration ask --------------------------------------------------------------

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, version: int, transactional: bool = False
    ) -> None:
        if epoch < 0 and not self.members:
            return  # an administrator, or a consumer that assigns itself
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return
        member = self.member(member_id)
        if not transactional and not member.speaks_classic and version < EPOCH_COMMIT_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "Members of consumer groups commit with version 9 or later."
            )
        if epoch > member.epoch:
            self._refuse_epoch(member, epoch)

    def check_partition_commit(self, member_id: str, epoch: int, topic_id: bytes, partition: int) -> None:
        """Who is behind its epoch may still commit what it has owned since then (KIP-1251). Raises as
        `check_offset_commit` does, for the whole request."""
        member = self.members.get(member_id)
        if member is None or epoch >= member.epoch:
            return
        since = member.assignment_epoch(topic_id, partition)
        if since is None or epoch < since:
            self._refuse_epoch(member, epoch)

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            self._refuse_epoch(member, epoch)

    def _refuse_epoch(self, member: ConsumerMember, epoch: int) -> None:
        code = ErrorCode.ILLEGAL_GENERATION if member.speaks_classic else ErrorCode.STALE_MEMBER_EPOCH
        raise KafkaError(code, f"Epoch {epoch} is not that of the member, {member.epoch}.")

    def check_offset_delete(self) -> None:
        return

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.names or any(topic in resolved.topics for resolved in self.resolved.values())

    def offset_expiry_base(self) -> ExpiryBase | None:
        return lambda committed: committed.commit_ms

    def tombstones(self) -> list[CoordinatorRecord]:
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
        """The records that make this group, for one that is new to the log."""
        group_id, written = self.group_id, consumer_records
        records = [written.subscription(group_id, member) for member in self.members.values()]
        records.append(written.group_epoch(group_id, self.epoch, self.metadata_hash))
        records += [written.target(group_id, one, self.target.get(one, NOTHING)) for one in self.members]
        records.append(written.target_epoch(group_id, self.assignment_epoch, self.assignment_ms))
        records += [written.current(group_id, member) for member in self.members.values()]
        return records

    # --- changes, by applying records -------------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> None:
        """Add a member or put it in its former self's place."""
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
        """Forget a member."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, -1)
        self._release(member)
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member_id:
            del self.static_ids[member.instance_id]

    def apply_subscription(self, member_id: str, value: Any | None) -> None:
        """Who a member is, or that it is gone."""
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
        """What a member owns; without a value nothing any more."""
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
        """What a member should own."""
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = {topic.topic_id: list(topic.partitions) for topic in value.topic_partitions}

    def apply_target_epoch(self, value: Any | None) -> None:
        """Which epoch the target is of."""
        self.assignment_epoch = 0 if value is None else value.assignment_epoch
        self.assignment_ms = 0 if value is None else value.assignment_timestamp

    def apply_regex(self, pattern: str, value: Any | None) -> None:
        """What a regular expression matches, or that nobody subscribes to it any more."""
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
    """The counts with one subscriber changed; the very same object where nothing changes."""
    if old == new:
        return counts
    changed = dict(counts)
    _add(changed, old, -1)
    _add(changed, new, 1)
    return changed
