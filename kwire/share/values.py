"""Values that a share partition takes and returns. What lives elsewhere: the messages (`kwire.codec.messages`)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

NO_MEMBER: Final = ""
"""The holder of records that nobody has acquired."""


class RecordState(IntEnum):
    """The delivery state of a record (KIP-932), with the numbers of the share-group state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


TERMINAL: Final = (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
"""States of records that are never delivered again."""


class AcknowledgeType(IntEnum):
    """What a member says about a record. ``GAP``: there is no record at this offset. ``RENEW``: KIP-1222."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Limits(NamedTuple):
    """What the group's configuration allows.

    ``max_record_locks`` bounds the records in flight, ``delivery_count_limit`` the deliveries of a record,
    ``lock_duration_ms`` is how long a member holds what it acquired, ``renew_enabled`` whether it may ask for longer.
    """

    max_record_locks: int
    delivery_count_limit: int
    lock_duration_ms: int
    renew_enabled: bool

    @property
    def throttling_from(self) -> int:
        """From this delivery count on, records are acquired in smaller sets."""
        return max(2, -(-self.delivery_count_limit // 2))


class StateBatch(NamedTuple):
    """A range of records with one state, as the share-group state has it."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int


class PersistedState(NamedTuple):
    """What the share coordinator has. ``start_offset`` is at least 0: the caller resolved -1 by the reset strategy."""

    state_epoch: int
    start_offset: int
    batches: Sequence[StateBatch]


class FetchedBatch(NamedTuple):
    """A record batch read from the log. ``abort_marker``: it ends an aborted transaction of its producer."""

    base_offset: int
    last_offset: int
    producer_id: int = -1
    transactional: bool = False
    abort_marker: bool = False


class AcquiredRecords(NamedTuple):
    """A range of records that a member has acquired; ``delivery_count`` includes this delivery."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """A range of a member's acknowledgements: one type for all offsets, or one for each offset."""

    first_offset: int
    last_offset: int
    types: Sequence[int]
