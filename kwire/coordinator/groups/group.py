"""What groups of all types have in common, and the table of a shard's groups.

The types are `classic.group.ClassicGroup`, `consumer.group.ConsumerGroup` (KIP-848), `share.group.ShareGroup` (KIP-932)
and `streams.group.StreamsGroup` (KIP-1071). Committed offsets, ListGroups and DeleteGroups use the methods of `Group`
whatever the type.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

if TYPE_CHECKING:
    from kwire.coordinator.groups.records import CommittedOffset
    from kwire.coordinator.runtime.machine import CoordinatorRecord

ExpiryBase = Callable[["CommittedOffset"], int]
"""Returns when the retention of a committed offset starts, in wall clock milliseconds."""


class GroupState(Enum):
    """The states of a classic group. The values are the names that clients see. No group is ever in the state Dead:
    DescribeGroups returns it for a group that does not exist."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")
"""The states of a consumer group, as clients and metrics name them. No group is ever in the state Dead."""

SHARE_STATES: Final = ("Empty", "Stable", "Dead")
"""The states of a share group, likewise."""

STREAMS_STATES: Final = ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead")
"""The states of a streams group, likewise."""


class GroupSettings(Protocol):
    """The configuration that the shard reads: Kafka's properties of these names. `KafkaConfig` has all of them."""

    group_consumer_assignment_interval_ms: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    group_share_assignment_interval_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_initialize_retry_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_session_timeout_ms: int
    group_share_max_size: int
    group_share_min_assignment_interval_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_min_session_timeout_ms: int
    group_share_session_timeout_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_max_size: int
    group_streams_max_standby_replicas: int
    group_streams_min_assignment_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_num_standby_replicas: int
    group_streams_session_timeout_ms: int
    offset_metadata_max_bytes: int
    offsets_retention_minutes: int


class GroupCounters:
    """Events counted since the start of the broker, for the metrics. All shards of a broker share one object."""

    __slots__ = (
        "completed_rebalances",
        "offset_commits",
        "offset_deletions",
        "offset_expirations",
        "share_rebalances",
        "streams_rebalances",
    )

    def __init__(self) -> None:
        self.completed_rebalances = 0
        self.offset_commits = 0
        self.offset_deletions = 0
        self.offset_expirations = 0
        self.share_rebalances = 0
        self.streams_rebalances = 0


class Group(ABC):
    """A group of any type."""

    __slots__ = ("group_id",)

    type_name: ClassVar[str] = ""
    """The group type in ListGroups."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The group state in ListGroups and DescribeGroups."""

    @property
    @abstractmethod
    def listed_protocol_type(self) -> str:
        """The protocol type in ListGroups: "" for a group that only commits offsets."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members. Such a group may be deleted, and is, once its last offset is gone."""

    @property
    def expires(self) -> bool:
        """Whether the group is deleted once it has neither members nor offsets."""
        return True

    @abstractmethod
    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, version: int, transactional: bool = False
    ) -> None:
        """Raises KafkaError unless a member with this generation (or member epoch) may commit offsets now."""

    def check_partition_commit(self, member_id: str, epoch: int, topic: str, topic_id: bytes, partition: int) -> None:
        """Raises KafkaError unless a member may commit the offset of one partition, after `check_offset_commit`. Only
        members of groups with member epochs may commit with an older one, for partitions that they had in it."""
        return

    @abstractmethod
    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raises KafkaError unless a member with this member epoch may read the group's offsets now."""

    @abstractmethod
    def check_offset_delete(self) -> None:
        """Raises KafkaError unless the offsets of topics without a subscription may be deleted now."""

    @abstractmethod
    def check_delete(self) -> None:
        """Raises KafkaError unless the group may be deleted now."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member subscribes to the topic. Its offsets neither expire nor can be deleted."""

    @abstractmethod
    def offset_expiry_base(self) -> ExpiryBase | None:
        """How the age of an offset is computed now. None: no offset expires at present."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """The generation or the epochs, and the numbers of members, for a diagnostic dump."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group itself. Its offsets have tombstones of their own."""


MANY_OFFSETS: Final = 500
"""An operation on more offsets of a group, or of a transaction, takes several turns of the event loop."""

GROUPS_PER_STEP: Final = 500
"""Groups that are listed, or whose offsets are checked, in one turn of the event loop: about a millisecond."""


class Groups:
    """The groups of one shard by id, in the order of their creation."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_id.values())

    def find(self, group_id: str) -> Group | None:
        """The group with this id, of any type, or None."""
        return self._by_id.get(group_id)

    def put(self, group: Group) -> None:
        """Add a group. It replaces a group with the same id."""
        self._by_id[group.group_id] = group

    def remove(self, group_id: str) -> Group | None:
        """Remove a group and return it, or None if there is no such group."""
        return self._by_id.pop(group_id, None)

    def holds(self, group: Group) -> bool:
        """Whether this object is still the group with its id. A timer may outlive its group."""
        return self._by_id.get(group.group_id) is group

    def snapshot(self) -> Iterable[Group]:
        """All groups, as a copy that may be iterated while groups are added and removed."""
        return list(self._by_id.values())
