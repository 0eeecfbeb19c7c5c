"""What all types of groups have in common, and the table that holds them: classic groups now, KIP-848's beside them.

Committed offsets ask a group these questions and never what type it is (`offset_protocol`); ListGroups and DeleteGroups
do the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from kwire.coordinator.groups.records import CommittedOffset
    from kwire.coordinator.runtime.machine import CoordinatorRecord

ExpiryBase = Callable[["CommittedOffset"], int]
"""From when (wall clock, milliseconds) the retention of a committed offset counts."""


class GroupSettings(Protocol):
    """The configuration that the machines read: Kafka's properties of these names (a `KafkaConfig` is one)."""

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
    offset_metadata_max_bytes: int
    offsets_retention_minutes: int


class Group(ABC):
    """A group of any type."""

    __slots__ = ("group_id",)

    type_name: ClassVar[str] = ""
    """As ListGroups shows it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    @abstractmethod
    def state_name(self) -> str:
        """As ListGroups and DescribeGroups show it."""

    @property
    @abstractmethod
    def listed_protocol_type(self) -> str:
        """As ListGroups shows it: "" for a group that only commits offsets."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """No members: it may be deleted, and it is, once its last offset is gone."""

    @abstractmethod
    def check_offset_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, version: int, transactional: bool = False
    ) -> None:
        """Raises KafkaError unless a member with this generation (or epoch) may commit now."""

    @abstractmethod
    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raises KafkaError unless such a member may read the group's offsets now."""

    @abstractmethod
    def check_offset_delete(self) -> None:
        """Raises KafkaError unless offsets of topics without subscription may be deleted now."""

    @abstractmethod
    def check_delete(self) -> None:
        """Raises KafkaError unless the group may be deleted now."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Offsets of such a topic neither expire nor can be deleted."""

    @abstractmethod
    def offset_expiry_base(self) -> ExpiryBase | None:
        """How the age of an offset is counted now; None: nothing expires at present."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group itself (its offsets are somebody else's)."""


class Groups:
    """The groups of one shard by id, in the order in which they came."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_id.values())

    def find(self, group_id: str) -> Group | None:
        """The group of any type, or None."""
        return self._by_id.get(group_id)

    def put(self, group: Group) -> None:
        """Add a group, in place of one of the same id."""
        self._by_id[group.group_id] = group

    def remove(self, group_id: str) -> Group | None:
        """Take a group out and return it, if it is there."""
        return self._by_id.pop(group_id, None)

    def holds(self, group: Group) -> bool:
        """Whether this very object is the group of its id: a timer may outlive its group."""
        return self._by_id.get(group.group_id) is group

    def snapshot(self) -> Iterable[Group]:
        """All groups, safe against changes while walking."""
        return list(self._by_id.values())
