"""What compaction leaves of one batch: nothing, the batch as it is, a bare header, or a rebuilt batch.

The rules are Kafka's. A record is removed if a later one has its key, if it is a tombstone whose delete horizon has
passed, or if its transaction was aborted. A batch without records left stays as a bare header if it is the last one of
a known producer (it has the producer's sequence number and epoch), or the last one of the cleaned range. A batch with
tombstones or a marker gets a delete horizon when it is first cleaned (KIP-534). Offsets never change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kwire.codec.compression import compress
from kwire.codec.records.header import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    pack_header,
    seal,
)
from kwire.codec.records.reader import read_body
from kwire.log.common.append_info import AbortedTransaction
from kwire.log.compaction.messages import LastOfProducer
from kwire.log.compaction.offset_map import OffsetMap, is_dense
from kwire.log.compaction.records import FoundRecord, pick, walk, with_timestamp_delta
from kwire.log.compaction.transactions import CleanedTransactions
from kwire.log.partition.validator import MAX_DECOMPRESSED_BYTES


@dataclass(frozen=True, slots=True)
class FilterRules:
    """The rules for one segment group. ``last_of_producers`` is by producer id."""

    now_ms: int
    delete_retention_ms: int
    upper_bound: int
    last_of_producers: dict[int, LastOfProducer]


class BatchFilter:
    """Applies the rules to the batches of a segment group, in offset order. ``on_kept`` is called with each aborted
    transaction whose marker stays."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        rules: FilterRules,
        on_kept: Callable[[AbortedTransaction], None],
    ) -> None:
        self._on_kept = on_kept
        self._offsets = offsets
        self._transactions = transactions
        self._rules = rules
        self.records_read = 0
        self.records_kept = 0

    def clean(self, header: BatchHeader, data: memoryview) -> bytes | memoryview | None:
        """The bytes that stay of a batch: ``data`` itself if nothing changes, None if nothing stays. CodecError and
        IndexError for a malformed body."""
        self.records_read += header.count
        if header.is_control:
            can_go = self._transactions.marker_can_go(header, data, self._on_kept)
            kept = self._clean_marker(header, data, can_go)
        elif self._transactions.batch_is_aborted(header) or header.count == 0:
            kept = None
        else:
            kept = self._clean_data(header, data)
        if kept is None and self._must_stay(header):
            return empty_batch(header)
        return kept

    def _must_stay(self, header: BatchHeader) -> bool:
        """Whether a batch is needed without records: for a producer's last sequence number, or as the range's end."""
        if header.next_offset == self._rules.upper_bound:
            return True
        last = self._rules.last_of_producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        epoch, offset = last
        return header.last_offset == offset if offset >= 0 else header.is_control and header.producer_epoch == epoch

    def _horizon_passed(self, header: BatchHeader) -> bool:
        horizon = header.delete_horizon_ms
        return horizon is not None and horizon <= self._rules.now_ms

    def _clean_marker(self, header: BatchHeader, data: memoryview, can_go: bool) -> bytes | memoryview | None:
        if header.count == 0 or (can_go and self._horizon_passed(header)):
            return None
        self.records_kept += header.count
        if not can_go or header.delete_horizon_ms is not None:
            return data
        body = read_body(data, header, max_bytes=MAX_DECOMPRESSED_BYTES)
        return self._rebuilt(header, body, list(walk(body, header.count)), self._new_horizon_ms())

    def _new_horizon_ms(self) -> int:
        return self._rules.now_ms + self._rules.delete_retention_ms

    def _clean_data(self, header: BatchHeader, data: memoryview) -> bytes | memoryview | None:
        offsets = self._offsets
        if header.base_offset > offsets.latest_offset:
            # Beyond the map no record is superseded; like Kafka, look for tombstones all the same.
            return self._filtered(header, data)
        if not offsets.covers(header):
            return self._filtered(header, data)
        last = offsets.survivors(header.base_offset, header.last_offset)
        if not last:
            return None
        with_tombstone = any(value & 1 for value in last)
        if len(last) == header.count and not with_tombstone:
            self.records_kept += len(last)
            return data
        if not is_dense(header) or (with_tombstone and self._horizon_passed(header)):
            return self._filtered(header, data)
        body = read_body(data, header, max_bytes=MAX_DECOMPRESSED_BYTES)
        kept = pick(body, header.count, ((value >> 1) - header.base_offset for value in last))
        return self._filtered(header, data) if kept is None else self._left(header, data, body, kept)

    def _filtered(self, header: BatchHeader, data: memoryview) -> bytes | memoryview | None:
        """Filter record by record."""
        body = read_body(data, header, max_bytes=MAX_DECOMPRESSED_BYTES)
        drops_tombstones = self._horizon_passed(header)
        offsets, base_offset, latest = self._offsets, header.base_offset, self._offsets.latest_offset
        kept: list[FoundRecord] = []
        for record in walk(body, header.count):
            offset = base_offset + record.offset_delta
            if offset <= latest:
                if record.key is None or not offsets.is_last(record.key, offset):
                    continue
                if record.is_tombstone and drops_tombstones:
                    continue
            kept.append(record)
        return self._left(header, data, body, kept)

    def _left(
        self, header: BatchHeader, data: memoryview, body: bytes, kept: list[FoundRecord]
    ) -> bytes | memoryview | None:
        """The batch with these records left."""
        self.records_kept += len(kept)
        if not kept:
            return None
        horizon = header.delete_horizon_ms
        if horizon is None and any(record.is_tombstone for record in kept):
            return self._rebuilt(header, body, kept, self._new_horizon_ms())
        return data if len(kept) == header.count else self._rebuilt(header, body, kept, horizon)

    def _rebuilt(self, header: BatchHeader, body: bytes, kept: list[FoundRecord], horizon: int | None) -> bytes:
        """A batch of the records that stay, with the header fields that depend on them changed. The base timestamp is
        the delete horizon, or that of the first record."""
        appended = header.max_timestamp if header.attributes & LOG_APPEND_TIME_FLAG else None
        times = [header.base_timestamp + record.timestamp_delta if appended is None else appended for record in kept]
        base = times[0] if horizon is None else horizon
        if appended is None and base == header.base_timestamp:
            parts = [body[record.start : record.end] for record in kept]
        else:
            parts = [with_timestamp_delta(body, record, t - base) for record, t in zip(kept, times, strict=True)]
        section = b"".join(parts)
        if header.compression:
            section = compress(header.compression, section)
        changed = header._replace(
            length=HEADER_SIZE - LOG_OVERHEAD + len(section),
            attributes=header.attributes | (0 if horizon is None else DELETE_HORIZON_FLAG),
            base_timestamp=base,
            max_timestamp=max(times) if appended is None else appended,
            count=len(kept),
        )
        return _sealed(changed, section)


def empty_batch(header: BatchHeader) -> bytes:
    """A batch without records that keeps offsets, producer, sequence and the highest timestamp."""
    return _sealed(
        header._replace(
            length=HEADER_SIZE - LOG_OVERHEAD,
            attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG),
            base_timestamp=NO_TIMESTAMP,
            count=0,
        ),
        b"",
    )


def _sealed(header: BatchHeader, section: bytes) -> bytes:
    batch = bytearray(pack_header(header))
    batch += section
    seal(batch, 0, len(batch))
    return bytes(batch)
