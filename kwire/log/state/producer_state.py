"""Who wrote what last: the table that makes producers idempotent and knows which transactions are open.

One `ProducerStateManager` per log. A batch is checked before it is written (`check` changes nothing) and recorded after
(`update`), live and at recovery with the same function. The table is kept across restarts by snapshots taken when a
segment rolls and when the log closes, plus a replay of the batches after the newest one.

The first batch of a transaction must have been verified with its coordinator (KIP-890): `start_verification` before
that question, and its `Verification` with the batch. Whatever ends the transaction in between makes it worthless.
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
"""How many batches of a producer are remembered: as many as a client may have in flight."""

Data = bytes | bytearray | memoryview

MAX_CONTROL_BYTES = 4096
NONE = -1


class BatchMetadata(NamedTuple):
    """A batch that a producer has written."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """What is known of one producer id."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(self, epoch: int, coordinator_epoch: int = -1, last_timestamp: int = -1, txn_first_offset: int = NONE):
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        self.batches: list[BatchMetadata] = []  # oldest first

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NONE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NONE


class Verification:
    """What a partition remembers while the coordinator is asked whether a producer's transaction has it. The object
    itself is the proof: a later question of the same producer shares it, the end of the transaction removes it."""

    __slots__ = ("created_ms", "epoch", "lowest_sequence", "supports_epoch_bump")

    def __init__(self, created_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.created_ms = created_ms
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump


NOT_ASKED: Final = Verification(0, 0, NONE, False)
"""For who appends without having to ask: the check is left out."""


class CompletedTransaction(NamedTuple):
    """A transaction whose marker was just met. ``last_offset`` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerStateManager:
    """The producer table of one log. Times in milliseconds; offsets -1 mean none."""

    def __init__(self, files: Files, directory: str, topic_partition: str, expiration_ms: int) -> None:
        self._files = files
        self._directory = directory
        self._name = topic_partition
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        self.map_end_offset = 0  # the table reflects the log up to here
        self._ongoing: dict[int, int] = {}  # first offset of an open transaction -> producer id; offsets rise
        self._unreplicated: dict[int, int] = {}  # first offset of an ended one -> marker's offset
        self._last_snapshot_offset = NONE
        self._verifications: dict[int, Verification] = {}

    # Checking

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open here, in this epoch."""
        entry = self.producers.get(producer_id)
        return entry is not None and entry.txn_first_offset != NONE and entry.epoch == epoch

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, *, supports_epoch_bump: bool, now_ms: int
    ) -> Verification | None:
        """Before the coordinator is asked. None: no need to, the transaction is open here.

        ``supports_epoch_bump``: the producer has an epoch for every transaction, so that a partition new to it must
        begin with sequence 0. KafkaError(INVALID_PRODUCER_EPOCH) for one that is fenced here.
        """
        self.check_not_fenced(producer_id, epoch)
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        found = self._verifications.get(producer_id)
        if found is None:
            found = self._verifications[producer_id] = Verification(now_ms, sequence, epoch, supports_epoch_bump)
        elif epoch > found.epoch:
            found.epoch, found.lowest_sequence = epoch, sequence
        elif epoch == found.epoch:
            found.lowest_sequence = min(found.lowest_sequence, sequence)
        return found

    def still_verified(self, producer_id: int, epoch: int, verification: Verification | None) -> bool:
        """Whether nothing has ended the transaction since `start_verification` gave this."""
        if verification is None:
            return self.has_ongoing_transaction(producer_id, epoch)
        return self._verifications.get(producer_id) is verification or self.has_ongoing_transaction(producer_id, epoch)

    def check_not_fenced(self, producer_id: int, epoch: int) -> None:
        """Whether a producer may begin a transaction here. KafkaError(INVALID_PRODUCER_EPOCH)."""
        entry = self.producers.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise self._stale_epoch(producer_id, epoch, entry.epoch)

    def _stale_epoch(self, producer_id: int, epoch: int, last_seen: int) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch {epoch} of producer {producer_id} in {self._name} is smaller than the last seen epoch {last_seen}",
        )

    def check(
        self, header: BatchHeader, origin: Origin, verification: Verification | None = NOT_ASKED
    ) -> BatchMetadata | None:
        """Whether a batch of an idempotent producer may be appended. Returns the earlier one if it is a duplicate.

        Raises KafkaError: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE. An unknown producer
        may start with any sequence: its records may have been deleted (KIP-360).
        """
        entry = self.producers.get(header.producer_id)
        if origin is Origin.REPLICATION:
            return None
        if entry is None:
            self._check_verified(header, origin, None, verification)
            return None
        first = header.base_sequence
        if origin is Origin.CLIENT and header.producer_epoch == entry.epoch:
            last = header.last_sequence
            for batch in entry.batches:
                if batch.first_sequence == first and batch.last_sequence == last:
                    return batch
        self._check_verified(header, origin, entry, verification)
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
        self, header: BatchHeader, origin: Origin, entry: ProducerEntry | None, verification: Verification | None
    ) -> None:
        """Part of a transaction that the coordinator knows of, and first the batch that was first to ask."""
        if origin is not Origin.CLIENT or not header.is_transactional or verification is NOT_ASKED:
            return
        producer_id, first = header.producer_id, header.base_sequence
        expected = self._verifications.get(producer_id)
        ongoing = self.has_ongoing_transaction(producer_id, header.producer_epoch)
        if not ongoing and (expected is None or verification is not expected):
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
        """Whether an end of a transaction may be appended. KafkaError: INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED."""
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
        """Whether the end of a transaction comes in time where every transaction has its own epoch (``version`` 2): a
        marker's is above its records'. Repeating it is harmless. KafkaError(INVALID_PRODUCER_EPOCH) (KIP-1228)."""
        entry = self.producers.get(producer_id)
        if version < 2 or entry is None or epoch > entry.epoch:
            return
        if epoch < entry.epoch or (entry.txn_first_offset != NONE and epoch != 0x7FFF):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"The end of a transaction of producer {producer_id} in {self._name} has epoch {epoch}, not above the "
                f"last seen epoch {entry.epoch}",
            )

    # Recording

    def update(self, header: BatchHeader, base_offset: int, data: Data) -> CompletedTransaction | None:
        """A batch with a producer id, its bytes ``data``, is in the log now at ``base_offset``. Returns the
        transaction that it ends."""
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
            self._verifications.pop(producer_id, None)
        return None

    def _update_control(self, header: BatchHeader, base_offset: int, data: Data) -> CompletedTransaction | None:
        read = _read_marker(data)
        if read is None:
            return None
        marker, timestamp = read
        self._verifications.pop(header.producer_id, None)
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

    # Transactions

    def stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset there would be if a transaction ended now: the next open one's start, or what
        follows the marker."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """The transaction is over; it still bounds what is stable until its marker is below the high watermark."""
        if self._ongoing.pop(completed.first_offset, None) is not None:
            self._unreplicated[completed.first_offset] = completed.last_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Ended transactions whose marker is committed no longer hold back readers."""
        if self._unreplicated:
            committed = [first for first, last in self._unreplicated.items() if last < high_watermark]
            for first in committed:
                del self._unreplicated[first]

    @property
    def first_unstable_offset(self) -> int:
        """Where the earliest transaction begins that is open or not yet committed; -1 without any."""
        first = next(iter(self._ongoing), NONE)
        if self._unreplicated:
            ended = min(self._unreplicated)
            return ended if first == NONE else min(first, ended)
        return first

    # Life

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers that were silent for `producer.id.expiration.ms` and have no open transaction."""
        expired = [pid for pid, entry in self.producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        if self._verifications:
            late = now_ms - self.expiration_ms
            self._verifications = {pid: one for pid, one in self._verifications.items() if one.created_ms > late}

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.txn_first_offset == NONE and now_ms - entry.last_timestamp >= self.expiration_ms

    def clear(self) -> None:
        """Forget everything in memory (snapshots stay)."""
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._verifications.clear()
        self.map_end_offset = 0

    def on_log_start_offset(self, log_start_offset: int) -> None:
        """Records below this are gone."""
        for first in [first for first, last in self._unreplicated.items() if last < log_start_offset]:
            del self._unreplicated[first]
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    # Snapshots

    def snapshot_path(self, offset: int) -> str:
        return f"{self._directory}/{names.file_name(offset, names.SNAPSHOT_SUFFIX)}"

    def snapshot_entries(self) -> list[SnapshotEntry]:
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
        """Write the table as it is at `map_end_offset`, unless that was done. Returns the path written. OSError."""
        offset = self.map_end_offset
        if offset <= self._last_snapshot_offset:
            return None
        path = self.snapshot_path(offset)
        write_bytes(self._files, path, encode_snapshot(self.snapshot_entries()))
        self._last_snapshot_offset = offset
        return path

    def load_snapshot(self, offset: int, now_ms: int) -> None:
        """Take the table from a snapshot, expired producers left out. CorruptSnapshot, OSError."""
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
        """Forget what lies at or beyond the end, and start from the newest good snapshot at or below it.

        Snapshots beyond the end, and damaged ones, are removed; returns a line on each of the latter.
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
    """The end of a transaction in a control batch, and its timestamp; a control record that is of another kind, or
    that nobody here understands, ends no transaction."""
    try:
        record = next(iter_records(data, max_bytes=MAX_CONTROL_BYTES), None)
        marker = None if record is None else parse_end_transaction_marker(record)
    except CodecError:
        return None
    return None if marker is None or record is None else (marker, record.timestamp)
