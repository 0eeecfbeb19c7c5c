"""Opening one log's directory: `LogRecovery` makes it a consistent log, whatever the last shutdown left there.

The passes, in order, each relying on the ones before:

1. leftovers     remove files that were being deleted, cleaned or written when the process ended
2. swaps         complete the replacement of cleaned segments that was under way
3. segments      find the `.log` files and their sizes; remove an index without its segment
4. epochs        read the leader epoch file, or rebuild it from the batches
5. indexes       rebuild missing indexes of segments that pass 6 leaves out; after an unclean shutdown, compare the
                 leader epoch file with the batches of those segments
6. tail          after an unclean shutdown: from the recovery point on, check every batch and rebuild the indexes; the
                 log ends at the first damaged batch or hole. A damaged batch below the recovery point was valid on disk
                 once: it is kept, though it cannot be read, and so is what follows it
7. bounds        find the log end offset and the log start offset
8. producers     load the newest valid snapshot, and replay the batches after it

After a clean shutdown nothing is scanned, so that the time does not grow with the data. Batches are read one after the
other in bounded memory. The caller logs the `complaints`, which say what was repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kwire.log.common import names
from kwire.log.common.append_info import AbortedTransaction
from kwire.log.common.checkpoints import CorruptCheckpoint
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import INT64_MAX, LogConfig
from kwire.log.common.sync_files import sync_files
from kwire.log.recovery.epoch_verification import EpochVerification
from kwire.log.recovery.header_validator import HeaderValidator
from kwire.log.recovery.producers import replay_producers, snapshot_offsets
from kwire.log.segment.batch_scan import CorruptLog, ScannedBatch, scan
from kwire.log.segment.damage import Damage, next_batch, scan_with_damage
from kwire.log.segment.indexes import CorruptIndex
from kwire.log.segment.segment import RELATIVE_OFFSET_MAX, Segment
from kwire.log.state.leader_epoch_cache import LeaderEpochCache
from kwire.log.state.producer_state import ProducerStateManager

Progress = Callable[[int], None]
"""Called with the number of bytes scanned since the last call."""


def no_progress(_bytes: int) -> None:
    """For callers that do not report progress."""


@dataclass(slots=True, eq=False, repr=False)
class RecoveredLog:
    """A consistent log, as it was found or repaired on disk. ``rebuilt`` are sealed segments whose new indexes are not
    synced yet; ``complaints`` says in one line each what was repaired."""

    directory: str
    segments: list[Segment]
    epochs: LeaderEpochCache
    producers: ProducerStateManager
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    rebuilt: list[Segment]
    complaints: list[str]


class LogRecovery:
    """One run over one directory: `run` makes all passes, `begin` makes the first segment of a new directory."""

    def __init__(
        self,
        env: LogEnvironment,
        directory: str,
        name: str,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        cleaned_to: int = 0,
        progress: Progress = no_progress,
    ) -> None:
        self._env = env
        self._files = env.doors.files
        self._directory = directory
        self._config = config
        self._clean = clean
        self._progress = progress
        self._recovery_point = recovery_point
        # Below these two checkpoints a cleaning may have left gaps.
        self._gaps_to = max(recovery_point, cleaned_to)
        self._log_start_offset = log_start_offset
        self._log_end_offset = 0
        self._segments: list[Segment] = []
        self._epochs = LeaderEpochCache(self._files, directory)
        self._producers = ProducerStateManager(self._files, directory, name, env.producer_expiration_ms)
        self._complaints: list[str] = []
        self._rebuilt: list[Segment] = []  # sealed segments whose new indexes are not synced
        self._next_offset = -1  # after the last batch that pass 6 has read
        self._has_gaps = False  # found beyond the recovery point
        self._behind_damage = False  # the offset of the next batch is not known
        self._epochs_from_file = self._epochs

    def begin(self) -> RecoveredLog:
        """Instead of `run`, in a directory that was just created: one empty segment."""
        self._segments.append(self._new_segment(self._log_start_offset, leftovers=False))
        self._log_end_offset = self._recovery_point = self._producers.map_end_offset = self._log_start_offset
        return self._recovered()

    def run(self) -> RecoveredLog:
        """Make all passes. OSError when the disk fails; damage in files is repaired, not raised."""
        self._pass_1_leftovers()
        self._pass_2_swaps()
        self._pass_3_segments()
        self._pass_4_epochs()
        self._pass_5_indexes()
        self._pass_6_tail()
        self._pass_7_bounds()
        self._pass_8_producers()
        # Every start removes the last epoch if it has no record yet; the file need not be written just for that.
        begun = self._epochs_from_file.entries[:-1] == self._epochs.entries
        self._epochs.settle(later=self._clean and begun)
        return self._recovered()

    def _recovered(self) -> RecoveredLog:
        return RecoveredLog(
            self._directory,
            self._segments,
            self._epochs,
            self._producers,
            self._log_start_offset,
            self._log_end_offset,
            self._recovery_point,
            self._rebuilt,
            self._complaints,
        )

    # -- pass 1 --------------------------------------------------------------------------------------------------------

    def _pass_1_leftovers(self) -> None:
        cleaned = []
        for name in self._files.listdir(self._directory):
            if name.endswith((names.DELETED_SUFFIX, names.TEMPORARY_SUFFIX, names.CLEANED_SUFFIX)):
                if name.endswith(names.CLEANED_SUFFIX):
                    cleaned.append(int(name[:20]) if name[:20].isdigit() else 0)
                self._remove(name)
        if not cleaned:
            return
        # A swap begins when all of its files are `.swap`; with one still `.cleaned` it had not begun.
        for name in self._files.listdir(self._directory):
            if name.endswith(names.SWAP_SUFFIX) and name[:20].isdigit() and int(name[:20]) >= min(cleaned):
                self._remove(name)

    def _remove(self, name: str) -> None:
        self._files.unlink(f"{self._directory}/{name}")

    # -- pass 2 --------------------------------------------------------------------------------------------------------

    def _pass_2_swaps(self) -> None:
        listed = self._files.listdir(self._directory)
        for name in listed:
            if name.endswith(names.LOG_SUFFIX + names.SWAP_SUFFIX):
                self._drop_replaced(name)
        for name in listed:
            if name.endswith(names.SWAP_SUFFIX):
                path = f"{self._directory}/{name}"
                self._files.replace(path, path.removesuffix(names.SWAP_SUFFIX))

    def _drop_replaced(self, name: str) -> None:
        """Remove the segments whose batches are all in a `.swap` segment."""
        base_offset = int(name[:20])
        last_offset = self._last_offset(f"{self._directory}/{name}", base_offset)
        for other in self._files.listdir(self._directory):
            parsed = names.parse_file_name(other)
            if parsed and parsed[1] in names.SEGMENT_SUFFIXES and base_offset <= parsed[0] <= last_offset:
                self._remove(other)

    def _last_offset(self, path: str, base_offset: int) -> int:
        last_offset = base_offset
        fd = self._files.open(path, 0)
        try:
            for batch in scan(self._files, fd, path, 0, self._files.size(fd), check_crc=False):
                last_offset = batch.header.last_offset
        finally:
            self._files.close(fd)
        return last_offset

    # -- pass 3 --------------------------------------------------------------------------------------------------------

    def _pass_3_segments(self) -> None:
        listed = [(name, names.parse_file_name(name)) for name in self._files.listdir(self._directory)]
        bases = {parsed[0] for _, parsed in listed if parsed and parsed[1] == names.LOG_SUFFIX}
        for name, parsed in listed:
            if parsed is None:
                continue
            base_offset, suffix = parsed
            if suffix == names.LOG_SUFFIX:
                self._add_segment(name, base_offset)
            elif suffix != names.SNAPSHOT_SUFFIX and base_offset not in bases:
                self._complaints.append(f"{self._directory}/{name}: index without a segment; removed")
                self._remove(name)
        if not self._segments:
            self._segments.append(self._new_segment(self._log_start_offset))

    def _add_segment(self, name: str, base_offset: int) -> None:
        stat = self._files.stat(f"{self._directory}/{name}")
        created_ms = stat.st_mtime_ns // 1_000_000
        segment = Segment(self._env.cache, self._directory, base_offset, stat.st_size, created_ms, new=False)
        self._segments.append(segment)

    def _new_segment(self, base_offset: int, *, leftovers: bool = True) -> Segment:
        now_ms = self._env.doors.clock.time_ms()
        segment = Segment(self._env.cache, self._directory, base_offset, 0, now_ms, new=True)
        segment.create_files(leftovers=leftovers)
        return segment

    # -- pass 4 --------------------------------------------------------------------------------------------------------

    def _pass_4_epochs(self) -> None:
        try:
            self._epochs = LeaderEpochCache.load(self._files, self._directory)
        except CorruptCheckpoint as error:
            self._complaints.append(f"{error}; the epochs are read from the batches")
            self._epochs.dirty = True
        self._epochs_from_file = LeaderEpochCache(self._files, self._directory, list(self._epochs.entries))
        self._epochs.hold()
        if not self._epochs.entries:
            self._read_epochs([segment for segment in self._segments if not self._is_dirty(segment)])

    def _read_epochs(self, segments: list[Segment], *, upto: int = INT64_MAX) -> None:
        """Take epochs from the batches of segments, below an offset."""
        for segment in segments:
            for batch in self._scan(segment):
                if batch.header.base_offset >= upto:
                    return
                self._epochs.assign(batch.header.partition_leader_epoch, batch.header.base_offset)

    # -- pass 5 --------------------------------------------------------------------------------------------------------

    def _pass_5_indexes(self) -> None:
        for segment in self._segments:
            if segment.size and (not self._is_dirty(segment)) and not self._has_indexes(segment):
                self._complaints.append(f"{segment.file.path}: indexes are missing and rebuilt")
                self._rebuild_indexes(segment)
            elif self._may_lack_index_entries(segment):
                self._rebuild_indexes(segment, sync=False)
                self._rebuilt.append(segment)
        self._verify_epochs()

    def _verify_epochs(self) -> None:
        sealed = [segment for segment in self._segments if not self._is_dirty(segment)]
        if self._clean or not sealed or not self._epochs_from_file.entries:
            return
        upto = self._segments[len(sealed)].base_offset
        verification = EpochVerification(self._files, self._directory, self._epochs_from_file, sealed, upto)
        entries = verification.verified_entries()
        self._complaints += verification.complaints
        if entries != self._epochs_from_file.entries:
            self._epochs_from_file = LeaderEpochCache(self._files, self._directory, list(entries))
            self._epochs = LeaderEpochCache(self._files, self._directory, list(entries))
            self._epochs.dirty = True
            self._epochs.hold()

    def _has_indexes(self, segment: Segment) -> bool:
        """Whether the files exist; their contents are checked when they are loaded."""
        return self._files.exists(segment.index.path) and self._files.exists(segment.time_index.path)

    def _may_lack_index_entries(self, segment: Segment) -> bool:
        """Whether the indexes of a segment may be incomplete: with `flush.messages` or `flush.ms`, a segment that ends
        at the recovery point may have been synced before it was sealed."""
        flushes = self._config.flush_messages != INT64_MAX or self._config.flush_ms != INT64_MAX
        return flushes and not self._clean and self._next_base_offset(segment) == self._recovery_point

    def _next_base_offset(self, segment: Segment) -> int | None:
        at = self._segments.index(segment) + 1
        return self._segments[at].base_offset if at < len(self._segments) else None

    def _rebuild_indexes(self, segment: Segment, *, sync: bool = True) -> None:
        end = segment.size
        segment.reset_indexes()
        try:
            for batch in self._checked(segment, start=0, end=end, check_crc=False):
                self._note(segment, batch)
        except CorruptLog as error:
            self._complaints.append(f"{error}; the rest of this segment has no index entries")
        segment.size = end
        segment.seal()
        if sync:
            sync_files(self._files, [], [segment.index.path, segment.time_index.path, self._directory])

    def _is_dirty(self, segment: Segment) -> bool:
        """Whether an unclean shutdown may have damaged a segment: the one with the recovery point or a later one."""
        following = self._next_base_offset(segment)
        return not self._clean and (following is None or following > self._recovery_point)

    # -- pass 6 --------------------------------------------------------------------------------------------------------

    def _pass_6_tail(self) -> None:
        if self._clean:
            return
        dirty = [segment for segment in self._segments if self._is_dirty(segment)]
        self._load_producers(dirty[0].base_offset)
        for segment in dirty:
            if self._is_behind_a_hole(segment):
                self._drop_from(segment)
                break
            if segment is not dirty[0]:
                self._producers.map_end_offset = segment.base_offset
                self._producers.take_snapshot()
            if not self._recover_segment(segment):
                self._drop_after(segment)
                break

    def _is_behind_a_hole(self, segment: Segment) -> bool:
        """Whether a power loss took what should come before a segment, or brought back a segment that was removed.

        Beyond the recovery point a log has no gaps, since the cleaner moves the recovery point before it swaps
        (`compaction.segment_swap`). Exceptions are a copy of a compacted log, and one that Apache Kafka has compacted:
        their batches show the gaps. If the recovery point cannot be read, the cleaner's checkpoint is used."""
        due = self._next_offset
        if due < 0 or segment.base_offset == due or due < self._gaps_to:
            return False
        if segment.base_offset > due and self._has_gaps:
            return False
        self._complaints.append(f"{segment.file.path}: the offsets from {due} on are missing; the log ends there")
        return True

    def _recover_segment(self, segment: Segment) -> bool:
        """Check every batch and rebuild indexes, epochs and producers. False if the log ends in this segment, because
        its rest was damaged and is truncated. OSError."""
        end = segment.size
        segment.reset_indexes(transactions=True)
        self._next_offset = segment.base_offset
        headers = self._header_validator(segment, end)
        position = 0
        intact = True
        while position < end and intact:
            try:
                self._replay_from(segment, position, end, headers)
                break
            except CorruptLog as error:
                intact = self._next_offset < self._recovery_point
                if intact:
                    position = self._quarantine(segment, error, end)
                else:
                    lost = end - segment.size
                    self._complaints.append(f"{error}; the log is truncated here, {lost} bytes are removed")
                    self._files.ftruncate(segment.file.descriptor(), segment.size)
                    # The removed bytes must not be back after a power loss, behind what is appended here now.
                    self._files.fsync(segment.file.descriptor())
        if intact:  # what was set aside for more (`LogFile.make_room`) is given back
            self._files.ftruncate(segment.file.descriptor(), end)
        self._complete(segment, intact)
        self._complaints += headers.complaints
        return intact

    def _header_validator(self, segment: Segment, end: int) -> HeaderValidator:
        base_offset = segment.base_offset
        limit = min((each.base_offset for each in self._segments if each.base_offset > base_offset), default=INT64_MAX)
        before = self._epochs.epoch_for_offset(base_offset - 1)
        return HeaderValidator(self._files, segment.file, base_offset, end, limit, before, self._epochs_from_file)

    def _replay_from(self, segment: Segment, position: int, end: int, headers: HeaderValidator) -> None:
        for batch in self._checked(segment, start=position, end=end, check_crc=True):
            header = headers.validate(batch, self._next_offset, gaps=self._has_gaps or self._behind_damage)
            batch = batch._replace(header=header)
            if self._next_offset >= self._gaps_to and not self._behind_damage:
                self._has_gaps |= header.base_offset > self._next_offset or header.count <= header.last_offset_delta
            self._behind_damage = False
            begun = self._epochs_from_file.begun_within(
                header.partition_leader_epoch, self._next_offset, header.base_offset
            )
            self._next_offset = header.next_offset
            self._note(segment, batch)
            self._replay(segment, batch, begun)

    def _quarantine(self, segment: Segment, error: CorruptLog, end: int) -> int:
        """Mark damage below the recovery point as unreadable. Returns where the next valid batch begins, or the end.
        OSError."""
        fd = segment.file.descriptor()
        following = next_batch(self._files, fd, error.position + 1, end, self._next_offset, INT64_MAX)
        if following is None:
            self._next_offset = max(self._next_offset, self._end_below(segment))
            following = end
        self._complaints.append(f"{error}; {following - error.position} bytes are unreadable")
        segment.bad.append(Damage(error.position, following, str(error)))
        segment.size = following
        self._behind_damage = True
        return following

    def _end_below(self, segment: Segment) -> int:
        """The end offset of a segment whose last batches are damaged: the next segment's, or the recovery point."""
        at = self._segments.index(segment)
        return self._segments[at + 1].base_offset if at + 1 < len(self._segments) else self._recovery_point

    def _complete(self, segment: Segment, intact: bool) -> None:
        segment.note_max_timestamp()
        segment.flush_indexes()
        segment.mark_verified()
        self._producers.map_end_offset = self._next_offset
        if segment is not self._segments[-1] and intact:
            segment.seal()
            self._rebuilt.append(segment)

    def _note(self, segment: Segment, batch: ScannedBatch) -> None:
        header = batch.header
        if not 0 <= header.last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX:
            raise CorruptLog(
                segment.file.path, batch.position, f"offset {header.last_offset} does not belong to this segment"
            )
        segment.note_batch(
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            batch.position,
            header.size,
            self._config.index_interval_bytes,
        )

    def _replay(self, segment: Segment, batch: ScannedBatch, begun: int) -> None:
        """Apply a batch to epochs, producers and the transaction index. ``begun`` is the start offset of its epoch,
        whose first batches may have been compacted away."""
        header = batch.header
        self._epochs.assign(header.partition_leader_epoch, begun)
        if header.producer_id < 0:
            return
        completed = self._producers.update(header, header.base_offset, batch.data)
        if completed is None:
            return
        if completed.aborted:
            stable = self._producers.stable_offset_after(completed)
            segment.note_aborted(
                AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
            )
        self._producers.complete(completed)

    def _drop_after(self, segment: Segment) -> None:
        self._drop(self._segments.index(segment) + 1)

    def _drop_from(self, segment: Segment) -> None:
        """End the log before this segment; the one before becomes the active one."""
        at = self._segments.index(segment)
        if at == 0:
            self._segments.insert(0, self._new_segment(self._next_offset))
            at = 1
        self._drop(at)

    def _drop(self, at: int) -> None:
        for later in self._segments[at:]:
            self._complaints.append(f"{later.file.path}: removed, since the log ends before it")
            later.file.close()
            self._env.remover.remove_files(later.paths(), self._config.file_delete_delay_ms)
        if self._segments[at:]:
            self._files.sync_dir(self._directory)
        del self._segments[at:]

    # -- pass 7 --------------------------------------------------------------------------------------------------------

    def _pass_7_bounds(self) -> None:
        self._verify_log_start()
        if self._log_start_offset > self._end_of(self._segments[-1]):
            self._complaints.append(
                f"{self._directory}: ends before its log start offset; the log is empty and starts there"
            )
            self._start_anew()
        active = self._segments[-1]
        self._log_end_offset = self._end_of(active)
        self._log_start_offset = max(self._log_start_offset, self._segments[0].base_offset)
        self._recovery_point = min(self._recovery_point, self._log_end_offset)
        if self._clean:
            self._recovery_point = self._log_end_offset
        if self._next_offset >= 0:
            self._log_end_offset = max(self._log_end_offset, self._next_offset)
        self._mark_lost_end(active)
        self._epochs.truncate_from_end(self._log_end_offset)
        self._fill_epochs()
        self._epochs.truncate_from_start(self._log_start_offset)

    def _verify_log_start(self) -> None:
        """After an unclean shutdown, take the lower log start offset: the first leader epoch begins at one, too."""
        first = self._epochs_from_file.entries[0].start_offset if self._epochs_from_file.entries else INT64_MAX
        start = max(first, self._segments[0].base_offset)
        if not self._clean and start < self._log_start_offset and start <= self._end_of(self._segments[-1]):
            self._complaints.append(
                f"{self._directory}: log start offset {self._log_start_offset}, the leader epochs begin at {start}; "
                "deleted records may reappear"
            )
            self._log_start_offset = start

    def _mark_lost_end(self, active: Segment) -> None:
        """Mark offsets that were assigned and of which no byte is left as damage, so that reading them fails."""
        try:
            end = active.next_offset()
        except (CorruptIndex, CorruptLog):
            return
        if end < self._log_end_offset and not (active.bad and active.bad[-1].end >= active.size):
            active.bad.append(Damage(active.size, active.size, f"offsets {end} to {self._log_end_offset - 1} are lost"))

    def _fill_epochs(self) -> None:
        """Read the epochs of records that reappear from their batches: the log start offset is checkpointed at
        intervals, so that records deleted before the shutdown may be back."""
        known = self._epochs.entries
        upto = known[0].start_offset if known else self._log_end_offset
        if self._segments[0].base_offset < upto and self._log_start_offset < upto:
            self._epochs.clear()
            self._read_epochs(self._segments, upto=upto)
            for entry in known:
                self._epochs.assign(entry.epoch, entry.start_offset)

    def _start_anew(self) -> None:
        for segment in self._segments:
            segment.file.close()
            self._env.remover.remove_files(segment.paths(), 0)
        self._segments = [self._new_segment(self._log_start_offset)]
        self._epochs.clear()
        self._producers.clear()

    def _end_of(self, segment: Segment) -> int:
        """The offset after the last batch, found from the last index entry on."""
        try:
            segment.index.check(segment.size)
            segment.time_index.check()
            end = segment.next_offset()
        except (CorruptIndex, CorruptLog) as error:
            self._complaints.append(f"{error}; the indexes are rebuilt")
            self._rebuild_indexes(segment)
            try:
                end = segment.next_offset()
            except CorruptLog as error:
                return self._end_despite_damage(segment, error)
        if self._clean and segment is self._segments[-1] and 0 < self._recovery_point != end:
            return self._unexpected_end(segment, end)
        return end

    def _unexpected_end(self, segment: Segment, end: int) -> int:
        """The end of a log if the clean shutdown has checkpointed another one: batches with valid checksums decide."""
        good, checkpointed_end = segment.base_offset, self._recovery_point
        fd, path = segment.file.descriptor(), segment.file.path
        for found in scan_with_damage(self._files, fd, path, segment.size, good, INT64_MAX, lambda _offset: -1):
            if isinstance(found, Damage):
                self._complaints.append(f"{found.why}; {found.end - found.position} bytes are unreadable")
            elif found is not None and (
                found.header.base_offset == good or found.header.next_offset <= checkpointed_end
            ):
                good = found.header.next_offset  # not of a batch whose offsets neither follow nor end as checkpointed
        if max(good, self._recovery_point) != end:
            self._complaints.append(f"{path}: ends at {max(good, self._recovery_point)}, not at {end}")
        return max(good, self._recovery_point)

    def _end_despite_damage(self, segment: Segment, error: CorruptLog) -> int:
        """Recover the last segment as after an unclean shutdown, though the log was closed: its end is damaged.

        Records below the recovery point keep their offsets, so that no other record ever gets them; only their bytes
        are unreadable.
        """
        self._complaints.append(f"{error}, though the log was closed cleanly")
        offset = segment.base_offset
        replay_producers(self._env, self._directory, self._segments, self._producers, offset, keep_later=True)
        self._recover_segment(segment)
        return self._next_offset

    # -- pass 8 --------------------------------------------------------------------------------------------------------

    def _pass_8_producers(self) -> None:
        if self._clean:
            self._load_producers(self._log_end_offset)
        self._producers.map_end_offset = self._log_end_offset
        self._producers.on_log_start_offset(self._log_start_offset)
        self._remove_stray_snapshots()

    def _load_producers(self, offset: int) -> None:
        self._complaints += replay_producers(self._env, self._directory, self._segments, self._producers, offset)

    def _remove_stray_snapshots(self) -> None:
        """Remove all snapshots but those of segments and the newest."""
        bases = {segment.base_offset for segment in self._segments}
        for offset in snapshot_offsets(self._env, self._directory)[:-1]:
            if offset not in bases:
                self._files.unlink(self._producers.snapshot_path(offset))

    def _scan(self, segment: Segment, *, start: int = 0) -> Iterator[ScannedBatch]:
        """The batches of a segment, without checksums checked; damage ends the scan with a complaint."""
        try:
            yield from self._checked(segment, start=start, end=segment.size, check_crc=False)
        except CorruptLog as error:
            self._complaints.append(f"{error}; the rest of this segment is not read")

    def _checked(self, segment: Segment, *, start: int, end: int, check_crc: bool) -> Iterator[ScannedBatch]:
        file = segment.file
        file.retain()
        try:
            for batch in scan(self._files, file.descriptor(), file.path, start, end, check_crc=check_crc):
                yield batch
                self._progress(batch.header.size)
        finally:
            file.release()
