"""The state machine of one ``__share_group_state`` partition: the states of its share partitions (KIP-932).

A share partition begins with a snapshot (`initialize`). Each `write` adds an update, or a new snapshot after
`share.coordinator.snapshot.update.records.per.snapshot` updates, so that a loader reads few records. The topic is not
compacted: what all newest snapshots have passed is deleted (`redundant_offset`). For that, partitions without changes
get a new snapshot from time to time (`refresh`).

Two epochs fence writers: the state epoch those that do not know of a reset, the leader epoch former leaders of the
partition. The highest ones ever seen count, as in Kafka: a reset sets the state's leader epoch to 0, but does not admit
a former leader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol

from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.records import NO_PRODUCER_ID
from kwire.coordinator.runtime.machine import CoordinatorRecord, Instant, Result
from kwire.coordinator.runtime.timers import Timers
from kwire.coordinator.share import records
from kwire.coordinator.share.batches import combine
from kwire.coordinator.share.records import UNKNOWN, SharePartitionKey, ShareState

PartitionCount = Callable[[bytes], int]
"""Topic id -> the number of its partitions in the present cluster, 0 for a topic that does not exist."""

NOTHING: Final = ShareState(0, 0, 0, UNKNOWN, UNKNOWN)
"""What the summary of a share partition without a state shows."""


class ShareSettings(Protocol):
    """The configuration that the shard reads: Kafka's properties of these names."""

    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_cold_partition_snapshot_interval_ms: int


class _Kept:
    """A share partition: its state, the highest epochs that were seen, and the updates since the last snapshot that
    was due. ``state_epoch`` is None as long as only updates were seen, which have none."""

    __slots__ = ("leader_epoch", "state", "state_epoch", "updates")

    def __init__(self, state: ShareState) -> None:
        self.state = state
        self.leader_epoch = state.leader_epoch
        self.state_epoch: int | None = None
        self.updates = 0


class ShareShard:
    """See the module. ``partition_count`` asks the present cluster."""

    def __init__(self, settings: ShareSettings, partition_count: PartitionCount) -> None:
        self.timers = Timers()
        self._settings = settings
        self._partition_count = partition_count
        self._kept: dict[SharePartitionKey, _Kept] = {}
        self._snapshots: dict[SharePartitionKey, int] = {}
        self._last_tombstone = UNKNOWN

    def __len__(self) -> int:
        return len(self._kept)

    # -- operations ----------------------------------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey, state_epoch: int, start_offset: int, now: Instant
    ) -> Result[ShareState]:
        """Begin a share partition, or begin it again at another start offset. Raises INVALID_REQUEST,
        FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION.

        Without a start offset, nothing changes for a share partition that has a state (Kafka begins it again): a group
        coordinator asks again if it got no response, and its first request may arrive while members already fetch."""
        _check_index(key)
        kept = self._kept.get(key)
        if kept is not None:
            _check_state_epoch(kept, state_epoch)
        self._check_exists(key)
        if kept is not None and start_offset == UNKNOWN:
            return Result(kept.state)
        epoch = 0 if kept is None else kept.state.snapshot_epoch + 1
        complete = UNKNOWN if start_offset == UNKNOWN else 0
        state = ShareState(epoch, state_epoch, 0, start_offset, complete, (), now.wall_ms, now.wall_ms)
        return _written(state, records.snapshot(key, state))

    def write(self, key: SharePartitionKey, change: ShareState, now: Instant) -> Result[ShareState]:
        """Add a leader's change: `UNKNOWN` as an epoch skips its check, as the start offset it keeps the present one.

        An earlier start offset keeps the present one, too (Kafka goes back to it): the write has been overtaken by a
        later one, and records that were accepted would be delivered again. Raises INVALID_REQUEST for a share partition
        that was not initialised, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION."""
        kept = self._initialised(key, "written")
        _check_leader_epoch(kept, change.leader_epoch)
        _check_state_epoch(kept, change.state_epoch)
        self._check_exists(key)
        start = change.start_offset
        if start != UNKNOWN:
            start = max(start, kept.state.start_offset)
        change = change._replace(leader_epoch=kept.state.leader_epoch, start_offset=start)
        return self._write(key, kept, change, now)

    def read(self, key: SharePartitionKey, leader_epoch: int, now: Instant) -> Result[ShareState]:
        """The state, for a leader that begins with it; its epoch is written if it is new. Raises as `write` does."""
        kept = self._initialised(key, "read")
        _check_leader_epoch(kept, leader_epoch)
        self._check_exists(key)
        state = kept.state
        if leader_epoch in (UNKNOWN, kept.leader_epoch):
            return Result(state)
        result = self._write(key, kept, state._replace(leader_epoch=leader_epoch, batches=()), now)
        result.response = state
        return result

    def summary(self, key: SharePartitionKey) -> Result[ShareState]:
        """The state, `NOTHING` if there is none. Raises INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION."""
        _check_index(key)
        self._check_exists(key)
        kept = self._kept.get(key)
        return Result(NOTHING if kept is None else kept.state)

    def delete(self, key: SharePartitionKey) -> Result[ShareState]:
        """Delete a share partition; one that does not exist is no error. Raises INVALID_REQUEST,
        UNKNOWN_TOPIC_OR_PARTITION."""
        _check_index(key)
        self._check_exists(key)
        return _written(NOTHING, *([records.tombstone(key)] if key in self._kept else []))

    # -- operations without a request ----------------------------------------------------------------------------------

    def forget_topics(self, topic_ids: Collection[bytes]) -> Result[None]:
        """Topics were deleted: delete their share partitions."""
        out: Result[None] = Result()
        out.records = [records.tombstone(key) for key in self._kept if key.topic_id in topic_ids]
        return out

    def refresh(self, now: Instant) -> Result[None]:
        """Write a new snapshot of each share partition whose last one is old, so that older records can be deleted.
        Nothing if that was done for all of them, and nothing has changed since."""
        out: Result[None] = Result()
        states = {key: kept.state for key, kept in self._kept.items()}
        if all(state.create_ms != state.write_ms for state in states.values()):
            return out
        interval_ms = self._settings.share_coordinator_cold_partition_snapshot_interval_ms
        for key, state in states.items():
            if now.wall_ms - state.write_ms >= interval_ms:
                renewed = state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_ms=now.wall_ms)
                out.records.append(records.snapshot(key, renewed))
        return out

    def redundant_offset(self) -> int | None:
        """The offset below which no record is needed any more, or None if that is none."""
        offset = min(self._snapshots.values(), default=self._last_tombstone)
        return offset if offset > 0 else None

    # -- replay --------------------------------------------------------------------------------------------------------

    def apply(
        self,
        key: bytes | memoryview,
        value: bytes | memoryview | None,
        offset: int,
        *,
        wall_ms: int,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Apply a record. Raises CodecError."""
        partition, is_snapshot = records.parse_key(key)
        if not is_snapshot:
            if value is not None:
                self._apply_update(partition, records.parse_update(value))
        elif value is None:
            self._kept.pop(partition, None)
            self._snapshots.pop(partition, None)
            self._last_tombstone = offset
        else:
            self._apply_snapshot(partition, records.parse_snapshot(value))
            self._snapshots[partition] = offset

    def _apply_snapshot(self, key: SharePartitionKey, state: ShareState) -> None:
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept(state)
        kept.state = state
        kept.leader_epoch = max(kept.leader_epoch, state.leader_epoch)
        kept.state_epoch = state.state_epoch if kept.state_epoch is None else max(kept.state_epoch, state.state_epoch)
        if kept.updates >= self._settings.share_coordinator_snapshot_update_records_per_snapshot:
            kept.updates = 0

    def _apply_update(self, key: SharePartitionKey, change: ShareState) -> None:
        kept = self._kept.get(key)
        if kept is None:  # its snapshot was deleted with older records
            kept = self._kept[key] = _Kept(change)
        else:
            kept.state = _merged(kept.state, change)
            kept.leader_epoch = max(kept.leader_epoch, change.leader_epoch)
        kept.updates += 1

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Nothing here is written in transactions."""

    def loaded(self, now: Instant) -> Result[None]:
        """There are no timers."""
        return Result()

    def unload(self) -> Result[None]:
        """Nothing is parked."""
        return Result()

    # -- inside --------------------------------------------------------------------------------------------------------

    def _initialised(self, key: SharePartitionKey, done: str) -> _Kept:
        _check_index(key)
        kept = self._kept.get(key)
        if kept is None:
            text = f"A share partition cannot be {done} before it is initialised."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return kept

    def _check_exists(self, key: SharePartitionKey) -> None:
        if key.partition >= self._partition_count(key.topic_id):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _write(self, key: SharePartitionKey, kept: _Kept, change: ShareState, now: Instant) -> Result[ShareState]:
        """A record of a change whose leader epoch is the new one: an update, or the snapshot that is due."""
        state = kept.state
        if kept.updates < self._settings.share_coordinator_snapshot_update_records_per_snapshot:
            batches = tuple(combine(change.batches, change.start_offset))
            return _written(
                state, records.update(key, change._replace(snapshot_epoch=state.snapshot_epoch, batches=batches))
            )
        start = state.start_offset if change.start_offset == UNKNOWN else change.start_offset
        whole = change._replace(
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            start_offset=start,
            batches=tuple(combine((*state.batches, *change.batches), start)),
            create_ms=now.wall_ms,
            write_ms=now.wall_ms,
        )
        return _written(state, records.snapshot(key, whole))


def _written(state: ShareState, *written: CoordinatorRecord) -> Result[ShareState]:
    result = Result(state)
    result.records = list(written)
    return result


def _merged(state: ShareState, change: ShareState) -> ShareState:
    start = state.start_offset if change.start_offset == UNKNOWN else change.start_offset
    return state._replace(
        start_offset=start,
        leader_epoch=state.leader_epoch if change.leader_epoch == UNKNOWN else change.leader_epoch,
        delivery_complete_count=change.delivery_complete_count,
        batches=tuple(combine((*state.batches, *change.batches), start)),
    )


def _check_index(key: SharePartitionKey) -> None:
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key.partition} is no partition.")


def _check_leader_epoch(kept: _Kept, epoch: int) -> None:
    if epoch != UNKNOWN and kept.leader_epoch > epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)


def _check_state_epoch(kept: _Kept, epoch: int) -> None:
    if epoch != UNKNOWN and kept.state_epoch is not None and kept.state_epoch > epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
