"""The state of producers: the last batches of each, which make it idempotent, and the open transactions.

One `ProducerStateManager` per log. A batch is checked before it is written (`check` changes nothing) and recorded
afterwards (`update`), by the same function when appending and when recovering. Across restarts the state is kept by
snapshots, taken when a segment is rolled and when the log is closed, and by a replay of the batches after the newest.

The first batch of a transaction must have been verified with the transaction coordinator (KIP-890):
`start_verification` before the request to the coordinator, and the guard that it returns with the batch. A marker that
ends the transaction in between makes the guard invalid.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kwire.base.doors import Files
from kwire.base.errors import ErrorCode, KafkaError
from kwire.codec.errors import CodecError
from kwire.codec.records import BatchHeader, EndTransactionMarker, iter_records, parse_end_transaction_marker
from kwire.log.common import names
from kwire.log.common.append_info import Origin
from kwire.log.common.checkpoints import write_bytes
from kwire.log.state.producer_snapshot import CorruptSnapshot, SnapshotEntry, decode_snapshot, encode_snapshot

BATCHES_RETAINED = 5
"""How many batches of a producer are kept: as many as a client may have in flight."""

Data = bytes | bytearray | memoryview

MAX_CONTROL_BYTES = 4096
NONE = -1


class BatchMetadata(NamedTuple):
    """A batch of a producer. Sequences and offsets are those of its first and last record."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of the first record."""
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """The state of one producer id. ``batches`` are its newest ones, oldest first."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(self, epoch: int, coordinator_epoch: int = -1, last_timestamp: int = -1, txn_first_offset: int = NONE):
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        self.batches: list[BatchMetadata] = []

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 without a batch."""
        return self.batches[-1].last_sequence if self.batches else NONE

    @property
    def last_offset(self) -> int:
        """The offset of the last record; -1 without a batch."""
        return self.batches[-1].last_offset if self.batches else NONE


class VerificationGuard:
    """Kept while the transaction coordinator verifies that a partition belongs to a producer's transaction (KIP-890).

    A batch is accepted if it comes with the very guard that the log keeps: another verification of the same producer
    shares the guard, and the end of the transaction removes it.
    """

    __slots__ = ("created_ms", "epoch", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, created_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.created_ms = created_ms
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump


NOT_REQUIRED: Final = VerificationGuard(0, 0, NONE, False)
"""The guard of appends that need no verification."""


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has just ended. ``last_offset`` is that of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerStateManager:
    """The producers of one log. Times are in milliseconds; offset -1 means none. ``map_end_offset``: the table reflects
    the log up to there."""

    def __init__(self, files: Files, directory: str, topic_partition: str, expiration_ms: int) -> None:
        self._files = files
        self._directory = directory
        self._name = topic_partition
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        self.map_end_offset = 0
        self._ongoing: dict[int, int] = {}  # first offset of an open transaction -> producer id, ascending
        self._unreplicated: dict[int, int] = {}  # first offset of an ended transaction -> its marker's offset
        self._last_snapshot_offset = NONE
        self._guards: dict[int, VerificationGuard] = {}

    # -- checking ------------------------------------------------------------------------------------------------------

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has an open transaction in this log, in this epoch."""
        entry = self.producers.get(producer_id)
        return entry is not None and entry.txn_first_offset != NONE and entry.epoch == epoch

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """Begin a verification, before the request to the coordinator. None: the transaction is open in this log, so
        that none is needed.

        ``supports_epoch_bump``: the producer has an epoch for every transaction, so that it must begin with sequence 0
        in each partition. KafkaError(INVALID_PRODUCER_EPOCH) for a fenced producer.
        """
        self.check_not_fenced(producer_id, epoch)
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        found = self._guards.get(producer_id)
        if found is None:
            found = self._guards[producer_id] = VerificationGuard(now_ms, sequence, epoch, supports_epoch_bump)
        elif epoch > found.epoch:
            found.epoch, found.lowest_sequence = epoch, sequence
        elif epoch == found.epoch:
            found.lowest_sequence = min(found.lowest_sequence, sequence)
        return found

    def still_verified(self, producer_id: int, epoch: int, guard: VerificationGuard | None) -> bool:
        """Whether the transaction has not ended since `start_verification` returned this guard."""
        if guard is None:
            return self.has_ongoing_transaction(producer_id, epoch)
        return self._guards.get(producer_id) is guard or self.has_ongoing_transaction(producer_id, epoch)

    def check_not_fenced(self, producer_id: int, epoch: int) -> None:
        """Check that a producer may begin a transaction in this log. KafkaError(INVALID_PRODUCER_EPOCH)."""
        entry = self.producers.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise self._stale_epoch(producer_id, epoch, entry.epoch)

    def _stale_epoch(self, producer_id: int, epoch: int, last_seen: int) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch {epoch} of producer {producer_id} in {self._name} is smaller than the last seen epoch {last_seen}",
        )

    def check(
        self, header: BatchHeader, origin: Origin, guard: VerificationGuard | None = NOT_REQUIRED
    ) -> BatchMetadata | None:
        """Check a batch of an idempotent producer. Returns the earlier batch if this one is a duplicate.

        KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE. An unknown producer may
        start with any sequence number, since its records may have been deleted (KIP-360).
        """
        entry = self.producers.get(header.producer_id)
        if origin is Origin.REPLICATION:
            return None
        if entry is None:
            self._check_verified(header, origin, None, guard)
            return None
        first = header.base_sequence
        if origin is Origin.CLIENT and header.producer_epoch == entry.epoch:
            last = header.last_sequence
            for batch in entry.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
        self._check_verified(header, origin, entry, guard)
        self._check_epoch(header, entry)
        if origin is Origin.CLIENT:
            self._check_sequence(header, entry)
        if entry.txn_first_offset != NONE and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {header.producer_id} has a transaction open in {self._name}: the write must be part of it",
            )
        return None

    def _check_verified(
        self, header: BatchHeader, origin: Origin, entry: ProducerEntry | None, guard: VerificationGuard | None
    ) -> None:
        """Check that the batch belongs to a transaction that the coordinator has confirmed, and that the transaction
        begins with the batch whose verification came first (KIP-890)."""
        if origin is not Origin.CLIENT or not header.is_transactional or guard is NOT_REQUIRED:
            return
        producer_id, first = header.producer_id, header.base_sequence
        expected = self._guards.get(producer_id)
        ongoing = self.has_ongoing_transaction(producer_id, header.producer_epoch)
        if not ongoing and (expected is None or guard is not expected):
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        if expected is None or (entry is not None and header.producer_epoch < entry.epoch):
            return
        is_new = entry is None or not entry.batches
        if first > expected.lowest_sequence or (first and is_new and expected.supports_epoch_bump):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id} in {self._name}: {first} (incoming) in a "
                f"transaction that begins with {0 if is_new else expected.lowest_sequence}",
            )

    def _check_epoch(self, header: BatchHeader, entry: ProducerEntry) -> None:
        if header.producer_epoch < entry.epoch:
            raise self._stale_epoch(header.producer_id, header.producer_epoch, entry.epoch)

    def _check_sequence(self, header: BatchHeader, entry: ProducerEntry) -> None:
        first = header.base_sequence
        if header.producer_epoch != entry.epoch:
            if first != 0:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Producer {header.producer_id} in {self._name} starts epoch {header.producer_epoch} with "
                    f"sequence {first} (last seen epoch {entry.epoch})",
                )
            return
        last = entry.last_sequence
        if first != last + 1 and not (first == 0 and last == 0x7FFFFFFF):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id} in {self._name}: {first} (incoming), "
                f"{last} (current end sequence number)",
            )

    def check_marker(self, header: BatchHeader, data: Data) -> None:
        """Check a transaction marker. KafkaError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED."""
        entry = self.producers.get(header.producer_id)
        read = _read_marker(data)
        if entry is None or read is None:
            return
        self._check_epoch(header, entry)
        if entry.coordinator_epoch > read[0].coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Coordinator epoch {read[0].coordinator_epoch} for producer {header.producer_id} in {self._name} is "
                f"older than the last seen {entry.coordinator_epoch}",
            )

    def check_marker_epoch(self, producer_id: int, epoch: int, version: int) -> None:
        """Check the epoch of a marker if every transaction has its own epoch (``version`` 2): a marker's is above that
        of its records. A repeated marker is accepted. KafkaError(INVALID_PRODUCER_EPOCH) (KIP-1228)."""
        entry = self.producers.get(producer_id)
        if version < 2 or entry is None or epoch > entry.epoch:
            return
        if epoch < entry.epoch or (entry.txn_first_offset != NONE and epoch != 0x7FFF):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"The end of a transaction of producer {producer_id} in {self._name} has epoch {epoch}, not above the "
                f"last seen epoch {entry.epoch}",
            )

    # -- recording -----------------------------------------------------------------------------------------------------

    def update(self, header: BatchHeader, base_offset: int, data: Data) -> CompletedTransaction | None:
        """Record a batch with a producer id that was appended at ``base_offset``; ``data`` are its bytes. Returns the
        transaction that it ends, if any."""
        if header.is_control:
            return self._update_control(header, base_offset, data)
        producer_id, epoch = header.producer_id, header.producer_epoch
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(epoch)
        elif entry.epoch != epoch:
            entry.epoch = epoch
            entry.batches.clear()
        last_offset = base_offset + header.last_offset_delta
        batches = entry.batches
        batches.append(
            BatchMetadata(
                header.base_sequence, header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp
            )
        )
        if len(batches) > BATCHES_RETAINED:
            del batches[0]
        entry.last_timestamp = header.max_timestamp
        if header.is_transactional and entry.txn_first_offset == NONE:
            entry.txn_first_offset = base_offset
            self._ongoing[base_offset] = producer_id
            self._guards.pop(producer_id, None)
        return None

    def _update_control(self, header: BatchHeader, base_offset: int, data: Data) -> CompletedTransaction | None:
        read = _read_marker(data)
        if read is None:
            return None
        marker, timestamp = read
        self._guards.pop(header.producer_id, None)
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        first_offset, entry.txn_first_offset = entry.txn_first_offset, NONE
        if first_offset == NONE:
            return None
        return CompletedTransaction(header.producer_id, first_offset, base_offset, not marker.commit)

    # -- transactions --------------------------------------------------------------------------------------------------

    def stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once a transaction has ended: the start of the next open one, or the offset after the
        marker."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """Record the end of a transaction. It limits the last stable offset until its marker is committed."""
        if self._ongoing.pop(completed.first_offset, None) is not None:
            self._unreplicated[completed.first_offset] = completed.last_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """The high watermark has moved: committed markers no longer limit the last stable offset."""
        if self._unreplicated:
            committed = [first for first, last in self._unreplicated.items() if last < high_watermark]
            for first in committed:
                del self._unreplicated[first]

    @property
    def first_unstable_offset(self) -> int:
        """The start of the earliest transaction that is open, or whose marker is not committed; -1 without one."""
        first = next(iter(self._ongoing), NONE)
        if self._unreplicated:
            ended = min(self._unreplicated)
            return ended if first == NONE else min(first, ended)
        return first

    # -- life ----------------------------------------------------------------------------------------------------------

    def remove_expired(self, now_ms: int) -> None:
        """Remove the producers that wrote nothing for `producer.id.expiration.ms` and have no open transaction."""
        expired = [pid for pid, entry in self.producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        if self._guards:
            late = now_ms - self.expiration_ms
            self._guards = {pid: one for pid, one in self._guards.items() if one.created_ms > late}

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.txn_first_offset == NONE and now_ms - entry.last_timestamp >= self.expiration_ms

    def clear(self) -> None:
        """Remove everything in memory; snapshots stay."""
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._guards.clear()
        self.map_end_offset = 0

    def on_log_start_offset(self, log_start_offset: int) -> None:
        """The log start offset has moved: transactions below it are removed."""
        for first in [first for first, last in self._unreplicated.items() if last < log_start_offset]:
            del self._unreplicated[first]
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def snapshot_path(self, offset: int) -> str:
        """The path of the snapshot at an offset."""
        return f"{self._directory}/{names.file_name(offset, names.SNAPSHOT_SUFFIX)}"

    def snapshot_entries(self) -> list[SnapshotEntry]:
        """The table as a snapshot keeps it: the last batch of each producer only."""
        entries = []
        for producer_id, entry in self.producers.items():
            last = entry.batches[-1] if entry.batches else BatchMetadata(NONE, NONE, NONE, 0, NONE)
            entries.append(
                SnapshotEntry(
                    producer_id,
                    entry.epoch,
                    last.last_sequence,
                    last.last_offset,
                    last.offset_delta,
                    entry.last_timestamp,
                    entry.coordinator_epoch,
                    entry.txn_first_offset,
                )
            )
        return entries

    def take_snapshot(self) -> str | None:
        """Write a snapshot at `map_end_offset`, unless there is one. Returns the path written. OSError."""
        offset = self.map_end_offset
        if offset <= self._last_snapshot_offset:
            return None
        path = self.snapshot_path(offset)
        write_bytes(self._files, path, encode_snapshot(self.snapshot_entries()))
        self._last_snapshot_offset = offset
        return path

    def load_snapshot(self, offset: int, now_ms: int) -> None:
        """Replace the table by a snapshot; expired producers are left out. CorruptSnapshot, OSError."""
        entries = decode_snapshot(self._files.read(self.snapshot_path(offset)))
        self.clear()
        for saved in entries:
            entry = ProducerEntry(saved.epoch, saved.coordinator_epoch, saved.timestamp, saved.current_txn_first_offset)
            if saved.last_offset >= 0:
                first = (saved.last_sequence - saved.offset_delta) & 0x7FFFFFFF if saved.last_sequence >= 0 else NONE
                entry.batches.append(
                    BatchMetadata(first, saved.last_sequence, saved.last_offset, saved.offset_delta, saved.timestamp)
                )
            if not self._is_expired(entry, now_ms):
                self.producers[saved.producer_id] = entry
        opened = [(e.txn_first_offset, pid) for pid, e in self.producers.items() if e.txn_first_offset != NONE]
        self._ongoing = dict(sorted(opened))
        self.map_end_offset = offset
        self._last_snapshot_offset = offset

    def reload(self, log_start_offset: int, log_end_offset: int, snapshots: list[int], now_ms: int) -> list[str]:
        """Replace the table by the newest valid snapshot at or below the log end offset.

        Snapshots beyond the end and damaged ones are removed; returns a line about each damaged one. OSError.
        """
        complaints: list[str] = []
        self.clear()
        self._last_snapshot_offset = NONE
        for offset in sorted(snapshots, reverse=True):
            if offset > log_end_offset:
                self._files.unlink(self.snapshot_path(offset))
                continue
            try:
                self.load_snapshot(offset, now_ms)
                return complaints
            except CorruptSnapshot as error:
                complaints.append(f"{self.snapshot_path(offset)}: {error}; an older snapshot is used")
                self._files.unlink(self.snapshot_path(offset))
        self.map_end_offset = log_start_offset
        return complaints


def _read_marker(data: Data) -> tuple[EndTransactionMarker, int] | None:
    """The transaction marker in a control batch, and its timestamp; None for a control record of another or an unknown
    type."""
    try:
        record = next(iter_records(data, max_bytes=MAX_CONTROL_BYTES), None)
        marker = None if record is None else parse_end_transaction_marker(record)
    except CodecError:
        return None
    return None if marker is None or record is None else (marker, record.timestamp)
