"""Record batches of magic 2: header view, record iterator, builder, control batches. Import from here.

Pure functions over buffers: no files, no offsets given out, no decision about what a broker accepts beyond the
structure of the bytes.
"""

from __future__ import annotations

from kwire.codec.records.builder import RecordBatchBuilder, build_batch
from kwire.codec.records.control import (
    ABORT,
    COMMIT,
    ControlRecordKey,
    EndTransactionMarker,
    build_control_batch,
    parse_control_key,
    parse_end_transaction_marker,
)
from kwire.codec.records.header import (
    CREATE_TIME,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    InvalidRecords,
    UnsupportedMagic,
    crc_is_valid,
    iter_headers,
    parse_header,
    patch_offsets,
    patch_timestamps,
    sequence_after,
    validate_batch_structure,
    with_log_append_time,
)
from kwire.codec.records.reader import Record, RecordHeader, iter_records

__all__ = [
    "ABORT",
    "COMMIT",
    "CREATE_TIME",
    "HEADER_SIZE",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "MAGIC",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Buffer",
    "ControlRecordKey",
    "EndTransactionMarker",
    "InvalidRecords",
    "Record",
    "RecordBatchBuilder",
    "RecordHeader",
    "UnsupportedMagic",
    "build_batch",
    "build_control_batch",
    "crc_is_valid",
    "iter_headers",
    "iter_records",
    "parse_control_key",
    "parse_end_transaction_marker",
    "parse_header",
    "patch_offsets",
    "patch_timestamps",
    "sequence_after",
    "validate_batch_structure",
    "with_log_append_time",
]
