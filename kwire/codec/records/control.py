"""Control batches: records that brokers write among the data, never clients. Ends of transactions are one record each.

The key of a control record is version:2 type:2. The value of an end marker (commit, abort) is version:2
coordinator_epoch:4 (EndTxnMarker). Leader changes, snapshot headers and the like belong to KRaft's own log: their type
is read, their content is not.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kwire.codec.records.builder import RecordBatchBuilder
from kwire.codec.records.header import NO_PARTITION_LEADER_EPOCH, InvalidRecords
from kwire.codec.records.reader import Record

ABORT = 0
COMMIT = 1

_KEY = Struct(">hh")
_END_MARKER = Struct(">hi")


class ControlRecordKey(NamedTuple):
    """Version and type (ABORT, COMMIT, or one of KRaft's) of a control record."""

    version: int
    type: int


class EndTransactionMarker(NamedTuple):
    """How a transaction ended, and under which epoch of its coordinator."""

    commit: bool
    coordinator_epoch: int


def build_control_batch(
    control_type: int,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    marker_version: int = 0,
) -> bytes:
    """The batch that ends a transaction: `control_type` is COMMIT or ABORT, `timestamp` in milliseconds."""
    builder = RecordBatchBuilder(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        is_transactional=True,
        is_control=True,
    )
    builder.append(timestamp, _KEY.pack(0, control_type), _END_MARKER.pack(marker_version, coordinator_epoch))
    return builder.build()


def parse_control_key(record: Record) -> ControlRecordKey:
    """Version and type of a control record. A later version may have a longer key. Raises InvalidRecords."""
    if record.key is None or len(record.key) < _KEY.size:
        raise InvalidRecords("a control record without a whole key")
    version, control_type = _KEY.unpack_from(record.key)
    if version < 0:
        raise InvalidRecords(f"a control record of version {version}")
    return ControlRecordKey(version, control_type)


def parse_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """The contents of an end marker; None if the control record is of another type. Raises InvalidRecords."""
    control_type = parse_control_key(record).type
    if control_type not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _END_MARKER.size:
        raise InvalidRecords("an end of a transaction without a whole value")
    version, coordinator_epoch = _END_MARKER.unpack_from(record.value)
    if version < 0:
        raise InvalidRecords(f"an end of a transaction of version {version}")
    return EndTransactionMarker(control_type == COMMIT, coordinator_epoch)
