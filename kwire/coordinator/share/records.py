"""The records of ``__share_group_state``, in the versions that Kafka 4.3 writes.

ShareSnapshot has the whole state of a share partition, ShareUpdate what has changed since. Keys name the group, the
topic by its id, and the partition. A snapshot without a value is a tombstone. `share.shard` applies them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kwire.codec.message import Message
from kwire.codec.messages import share_snapshot_value, share_update_value
from kwire.codec.messages.share_snapshot_key import ShareSnapshotKey
from kwire.codec.messages.share_snapshot_value import ShareSnapshotValue
from kwire.codec.messages.share_update_key import ShareUpdateKey
from kwire.codec.messages.share_update_value import ShareUpdateValue
from kwire.codec.protocol import decode_record, decode_record_key, encode_record, encode_record_key
from kwire.coordinator.runtime.machine import CoordinatorRecord
from kwire.coordinator.share.batches import StateBatch

UNKNOWN: Final = -1
"""No start offset, no count of completed deliveries, no epoch."""

_KEYS: Final[dict[int, type[Message]]] = {kind.API_KEY: kind for kind in (ShareSnapshotKey, ShareUpdateKey)}


class SharePartitionKey(NamedTuple):
    """A partition of a topic, as one share group sees it."""

    group_id: str
    topic_id: bytes
    partition: int


class ShareState(NamedTuple):
    """The state of a share partition. ``snapshot_epoch`` counts its snapshots, ``state_epoch`` is raised whenever its
    offset is set anew, ``leader_epoch`` is that of the partition's leader which has written it. ``start_offset``: all
    below is delivered; ``delivery_complete_count``: how many from there on need no delivery any more (KIP-1226). Both
    may be `UNKNOWN`. Times are wall clock milliseconds: ``create_ms`` of the last change in a snapshot, ``write_ms`` of
    the snapshot."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...] = ()
    create_ms: int = 0
    write_ms: int = 0


def snapshot(key: SharePartitionKey, state: ShareState) -> CoordinatorRecord:
    """The record with the whole state."""
    value = ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=_structs(share_snapshot_value.StateBatch, state.batches),
    )
    return CoordinatorRecord(_key(ShareSnapshotKey, key), encode_record(value, 0))


def update(key: SharePartitionKey, state: ShareState) -> CoordinatorRecord:
    """The record of a change: epochs but the state epoch, start offset, count, and the batches that have changed."""
    value = ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        state_batches=_structs(share_update_value.StateBatch, state.batches),
    )
    return CoordinatorRecord(_key(ShareUpdateKey, key), encode_record(value, 0))


def tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    """The record that deletes a share partition."""
    return CoordinatorRecord(_key(ShareSnapshotKey, key), None)


def parse_key(key: bytes | memoryview) -> tuple[SharePartitionKey, bool]:
    """The share partition of a record, and whether the record is a snapshot. Raises CodecError."""
    parsed: Any = decode_record_key(_KEYS, key)
    is_snapshot = isinstance(parsed, ShareSnapshotKey)
    return SharePartitionKey(parsed.group_id, bytes(parsed.topic_id), parsed.partition), is_snapshot


def parse_snapshot(value: bytes | memoryview) -> ShareState:
    """The state in a snapshot. Raises CodecError."""
    written = decode_record(ShareSnapshotValue, value)
    return ShareState(
        written.snapshot_epoch,
        written.state_epoch,
        written.leader_epoch,
        written.start_offset,
        written.delivery_complete_count,
        batches_of(written.state_batches),
        written.create_timestamp,
        written.write_timestamp,
    )


def parse_update(value: bytes | memoryview) -> ShareState:
    """The change in an update, whose state epoch is 0. Raises CodecError."""
    written = decode_record(ShareUpdateValue, value)
    return ShareState(
        written.snapshot_epoch,
        0,
        written.leader_epoch,
        written.start_offset,
        written.delivery_complete_count,
        batches_of(written.state_batches),
    )


def batches_of(structs: Iterable[Any]) -> tuple[StateBatch, ...]:
    """The state batches of a record or a request."""
    return tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_count, each.delivery_state) for each in structs
    )


def _key(kind: type[ShareSnapshotKey | ShareUpdateKey], key: SharePartitionKey) -> bytes:
    return encode_record_key(kind(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition))


def _structs(kind: type[Any], batches: Iterable[StateBatch]) -> list[Any]:
    return [
        kind(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            delivery_state=each.delivery_state,
            delivery_count=each.delivery_count,
        )
        for each in batches
    ]
