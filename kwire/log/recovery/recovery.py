"""Opening one log's directory: `LogRecovery` brings it from whatever a stop left behind to a consistent log.

The passes, in order, each relying on the ones before:

1. leftovers     files that were being deleted, cleaned or written when the process ended
2. swaps         cleaned segments whose replacement was under way are put in place
3. segments      the `.log` files with their sizes; an index without its segment goes
4. epochs        the leader epoch file, rebuilt from the batches if it does not read
5. indexes       a segment without its indexes gets them built anew (clean) or waits for pass 6; with them, what the
                 leader epoch file says of batches that pass 6 does not see is held against them
6. tail          after an unclean stop: from the recovery point on, every batch is checked with its CRC, indexes are
                 rebuilt, and the first bad batch or hole ends the log there; a bad batch below the recovery point was
                 good on disk once: it is kept and cannot be read, and what follows it stays
7. bounds        log end offset, log start offset
8. producers     the newest snapshot that fits, plus a replay of what came after it

After a clean stop nothing is scanned: the cost does not grow with the data. Reading is batch by batch with bounded
memory. What is repaired is told in `complaints`, which the caller logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kwire.log.common import names
from kwire.log.common.append_info import AbortedTransaction
from kwire.log.common.checkpoints import CorruptCheckpoint
from kwire.log.common.environment import LogEnvironment
from kwire.log.common.log_config import INT64_MAX, LogConfig
from kwire.log.partition.flusher import sync_files
from kwire.log.recovery.epoch_verification import EpochDoubts
from kwire.log.recovery.header_validator import HeaderJudge
from kwire.log.segment.batch_scan import CorruptLog, ScannedBatch, scan
from kwire.log.segment.damage import Damage, judge, next_batch
from kwire.log.segment.indexes import CorruptIndex
from kwire.log.segment.segment import RELATIVE_OFFSET_MAX, Segment
from kwire.log.state.leader_epoch_cache import LeaderEpochCache
from kwire.log.state.producer_state import ProducerStateManager

Progress = Callable[[int], None]
"""Called with the number of bytes scanned since the last call."""


def no_progress(_bytes: int) -> None:
    """Nobody watches."""


class LogRecovery:
    """One run of all passes over one directory. After `run`: segments, epochs, producers and bounds."""

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
        self._directory = self.directory = directory
        self._config = config
        self._clean = clean
        self._progress = progress
        self.recovery_point = recovery_point
        # Two checkpoints tell up to where a cleaning may have left gaps.
        self._gaps_to = max(recovery_point, cleaned_to)
        self.log_start_offset = log_start_offset
        self.log_end_offset = 0
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochCache(self._files, directory)
        self.producers = ProducerStateManager(self._files, directory, name, env.producer_expiration_ms)
        self.complaints: list[str] = []
        self.rebuilt: list[Segment] = []  # sealed segments whose new indexes are not synced
        self._next_offset = -1  # after the last batch that pass 6 has looked at
        self._has_gaps = False  # met beyond the recovery point
        self._behind_damage = False  # where the next batch begins is not known
        self._noted = self.epochs  # the leader epochs as their file has them

    def begin(self) -> LogRecovery:
        """Instead of `run`, in a directory that has just been made: one empty segment, and nothing to bring back."""
        self.segments.append(self._new_segment(self.log_start_offset, leftovers=False))
        self.log_end_offset = self.recovery_point = self.producers.map_end_offset = self.log_start_offset
        return self

    def run(self) -> LogRecovery:
        """All passes. OSError when the disk fails; damage in files is repaired, not raised."""
        self._pass_1_leftovers()
        self._pass_2_swaps()
        self._pass_3_segments()
        self._pass_4_epochs()
        self._pass_5_indexes()
        self._pass_6_tail()
        self._pass_7_bounds()
        self._pass_8_producers()
        # An epoch that has begun and has no record yet goes at every start; the next one is about to be written.
        begun = self._noted.entries[:-1] == self.epochs.entries
        self.epochs.settle(later=self._clean and begun)
        return self

    # 1

    def _pass_1_leftovers(self) -> None:
        cleaned = []
        for name in self._files.listdir(self._directory):
            if name.endswith((names.DELETED_SUFFIX, names.TEMPORARY_SUFFIX, names.CLEANED_SUFFIX)):
                if name.endswith(names.CLEANED_SUFFIX):
                    cleaned.append(int(name[:20]) if name[:20].isdigit() else 0)
                self._remove(name)
        if not cleaned:
            return
        # A swap begins only when all of its segments are `.swap`: with one still `.cleaned`, it had not begun.
        for name in self._files.listdir(self._directory):
            if name.endswith(names.SWAP_SUFFIX) and name[:20].isdigit() and int(name[:20]) >= min(cleaned):
                self._remove(name)

    def _remove(self, name: str) -> None:
        self._files.unlink(f"{self._directory}/{name}")

    # 2

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

    # 3

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
                self.complaints.append(f"{self._directory}/{name}: an index without its segment is removed")
                self._remove(name)
        if not self.segments:
            self.segments.append(self._new_segment(self.log_start_offset))

    def _add_segment(self, name: str, base_offset: int) -> None:
        stat = self._files.stat(f"{self._directory}/{name}")
        created_ms = stat.st_mtime_ns // 1_000_000
        segment = Segment(self._env.cache, self._directory, base_offset, stat.st_size, created_ms, new=False)
        self.segments.append(segment)

    def _new_segment(self, base_offset: int, *, leftovers: bool = True) -> Segment:
        now_ms = self._env.doors.clock.time_ms()
        segment = Segment(self._env.cache, self._directory, base_offset, 0, now_ms, new=True)
        segment.create_files(leftovers=leftovers)
        return segment

    # 4

    def _pass_4_epochs(self) -> None:
        try:
            self.epochs = LeaderEpochCache.load(self._files, self._directory)
        except CorruptCheckpoint as error:
            self.complaints.append(f"{error}; the epochs are read from the batches")
            self.epochs.dirty = True
        self._noted = LeaderEpochCache(self._files, self._directory, list(self.epochs.entries))
        self.epochs.hold()
        if not self.epochs.entries:
            self._read_epochs([segment for segment in self.segments if not self._is_dirty(segment)])

    def _read_epochs(self, segments: list[Segment], *, upto: int = INT64_MAX) -> None:
        """Take epochs from the batches of segments, below an offset."""
        for segment in segments:
            for batch in self._scan(segment):
                if batch.header.base_offset >= upto:
                    return
                self.epochs.assign(batch.header.partition_leader_epoch, batch.header.base_offset)

    # 5

    def _pass_5_indexes(self) -> None:
        for segment in self.segments:
            if segment.size and (not self._is_dirty(segment)) and not self._has_indexes(segment):
                self.complaints.append(f"{segment.file.path}: its indexes are built anew")
                self._rebuild_indexes(segment)
            elif self._may_lack_index_entries(segment):
                self._rebuild_indexes(segment, sync=False)
                self.rebuilt.append(segment)
        self._doubt_epochs()

    def _doubt_epochs(self) -> None:
        sealed = [segment for segment in self.segments if not self._is_dirty(segment)]
        if self._clean or not sealed or not self._noted.entries:
            return
        upto = self.segments[len(sealed)].base_offset
        doubts = EpochDoubts(self._files, self._directory, self._noted, sealed, upto)
        entries = doubts.settled()
        self.complaints += doubts.complaints
        if entries != self._noted.entries:
            self._noted = LeaderEpochCache(self._files, self._directory, list(entries))
            self.epochs = LeaderEpochCache(self._files, self._directory, list(entries))
            self.epochs.dirty = True
            self.epochs.hold()

    def _has_indexes(self, segment: Segment) -> bool:
        """Existence only: contents are checked when they are first loaded."""
        return self._files.exists(segment.index.path) and self._files.exists(segment.time_index.path)

    def _may_lack_index_entries(self, segment: Segment) -> bool:
        """Where batches are synced one by one, a segment that ends right at the recovery point was synced before it
        was completed: its indexes may not have been."""
        flushes = self._config.flush_messages != INT64_MAX or self._config.flush_ms != INT64_MAX
        return flushes and not self._clean and self._following(segment) == self.recovery_point

    def _following(self, segment: Segment) -> int | None:
        at = self.segments.index(segment) + 1
        return self.segments[at].base_offset if at < len(self.segments) else None

    def _rebuild_indexes(self, segment: Segment, *, sync: bool = True) -> None:
        end = segment.size
        segment.reset_indexes()
        try:
            for batch in self._checked(segment, start=0, end=end, check_crc=False):
                self._note(segment, batch)
        except CorruptLog as error:
            self.complaints.append(f"{error}; what follows in this segment has no index entries")
        segment.size = end
        segment.seal()
        if sync:
            sync_files(self._files, [], [segment.index.path, segment.time_index.path, self._directory])

    def _is_dirty(self, segment: Segment) -> bool:
        """Whether an unclean stop may have hit a segment: the one of the recovery point and all after it."""
        following = self._following(segment)
        return not self._clean and (following is None or following > self.recovery_point)

    # 6

    def _pass_6_tail(self) -> None:
        if self._clean:
            return
        dirty = [segment for segment in self.segments if self._is_dirty(segment)]
        self._load_producers(dirty[0].base_offset)
        for segment in dirty:
            if self._is_behind_a_hole(segment):
                self._drop_from(segment)
                break
            if segment is not dirty[0]:
                self.producers.map_end_offset = segment.base_offset
                self.producers.take_snapshot()
            if not self._recover_segment(segment):
                self._drop_after(segment)
                break

    def _is_behind_a_hole(self, segment: Segment) -> bool:
        """Whether what should come before a segment was lost with the power, or a segment was dropped once and is back.

        Beyond the recovery point no log has gaps, since a compaction moves it before it swaps (`cleaner_swap`); but
        for a copy of a compacted log, and one that Apache Kafka has compacted: their batches tell. Where the recovery
        point is not to be read, the cleaner's own checkpoint holds."""
        due = self._next_offset
        if due < 0 or segment.base_offset == due or due < self._gaps_to:
            return False
        if segment.base_offset > due and self._has_gaps:
            return False
        self.complaints.append(f"{segment.file.path}: offset {due} was due; the log ends there")
        return True

    def _recover_segment(self, segment: Segment) -> bool:
        """Check every batch, rebuild indexes, epochs and producers. False if the log ends in this segment because
        its rest was bad and is cut off."""
        end = segment.size
        segment.reset_indexes(transactions=True)
        self._next_offset = segment.base_offset
        headers = self._header_judge(segment, end)
        position = 0
        intact = True
        while position < end and intact:
            try:
                self._replay_from(segment, position, end, headers)
                break
            except CorruptLog as error:
                intact = self._next_offset < self.recovery_point
                if intact:
                    position = self._quarantine(segment, error, end)
                else:
                    lost = end - segment.size
                    self.complaints.append(f"{error}; the log ends here now, {lost} bytes are cut off")
                    self._files.ftruncate(segment.file.descriptor(), segment.size)
                    # What is cut must not be back after the next power loss, beside what is written here now.
                    self._files.fsync(segment.file.descriptor())
        self._complete(segment, intact)
        self.complaints += headers.complaints
        return intact

    def _header_judge(self, segment: Segment, end: int) -> HeaderJudge:
        base_offset = segment.base_offset
        limit = min((each.base_offset for each in self.segments if each.base_offset > base_offset), default=INT64_MAX)
        before = self.epochs.epoch_for_offset(base_offset - 1)
        return HeaderJudge(self._files, segment.file, base_offset, end, limit, before, self._noted)

    def _replay_from(self, segment: Segment, position: int, end: int, headers: HeaderJudge) -> None:
        for batch in self._checked(segment, start=position, end=end, check_crc=True):
            header = headers.judge(batch, self._next_offset, gaps=self._has_gaps or self._behind_damage)
            batch = batch._replace(header=header)
            if self._next_offset >= self._gaps_to and not self._behind_damage:
                self._has_gaps |= header.base_offset > self._next_offset or header.count <= header.last_offset_delta
            self._behind_damage = False
            begun = self._noted.begun_within(header.partition_leader_epoch, self._next_offset, header.base_offset)
            self._next_offset = header.next_offset
            self._note(segment, batch)
            self._replay(segment, batch, begun)

    def _quarantine(self, segment: Segment, error: CorruptLog, end: int) -> int:
        """Pass over damage below the recovery point: where the next good batch begins, or the end."""
        fd = segment.file.descriptor()
        following = next_batch(self._files, fd, error.position + 1, end, self._next_offset, INT64_MAX)
        if following is None:
            self._next_offset = max(self._next_offset, self._end_below(segment))
            following = end
        self.complaints.append(f"{error}; {following - error.position} bytes cannot be read any more")
        segment.bad.append(Damage(error.position, following, str(error)))
        segment.size = following
        self._behind_damage = True
        return following

    def _end_below(self, segment: Segment) -> int:
        """Where a segment ends whose last batches do not read: at the next one, or at the recovery point."""
        at = self.segments.index(segment)
        return self.segments[at + 1].base_offset if at + 1 < len(self.segments) else self.recovery_point

    def _complete(self, segment: Segment, intact: bool) -> None:
        segment.note_max_timestamp()
        segment.flush_indexes()
        segment.trust_all()
        self.producers.map_end_offset = self._next_offset
        if segment is not self.segments[-1] and intact:
            segment.seal()
            self.rebuilt.append(segment)

    def _note(self, segment: Segment, batch: ScannedBatch) -> None:
        header = batch.header
        if not 0 <= header.last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX:
            raise CorruptLog(segment.file.path, batch.position, f"offset {header.last_offset} cannot be")
        segment.note_batch(
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            batch.position,
            header.size,
            self._config.index_interval_bytes,
        )

    def _replay(self, segment: Segment, batch: ScannedBatch, begun: int) -> None:
        """Bring epochs, producers and transaction index to what they were after this batch, whose epoch had begun at an
        offset, perhaps with batches that were compacted away."""
        header = batch.header
        self.epochs.assign(header.partition_leader_epoch, begun)
        if header.producer_id < 0:
            return
        completed = self.producers.update(header, header.base_offset, batch.data)
        if completed is None:
            return
        if completed.aborted:
            stable = self.producers.stable_offset_after(completed)
            segment.note_aborted(
                AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
            )
        self.producers.complete(completed)

    def _drop_after(self, segment: Segment) -> None:
        self._drop(self.segments.index(segment) + 1)

    def _drop_from(self, segment: Segment) -> None:
        """The log ends before this segment; the one before it is written again."""
        at = self.segments.index(segment)
        if at == 0:
            self.segments.insert(0, self._new_segment(self._next_offset))
            at = 1
        self._drop(at)

    def _drop(self, at: int) -> None:
        for later in self.segments[at:]:
            self.complaints.append(f"{later.file.path}: removed, since the log ends before it")
            later.file.close()
            self._env.remover.remove_files(later.paths(), self._config.file_delete_delay_ms)
        if self.segments[at:]:
            self._files.sync_dir(self._directory)
        del self.segments[at:]

    # 7

    def _pass_7_bounds(self) -> None:
        self._doubt_log_start()
        if self.log_start_offset > self._end_of(self.segments[-1]):
            self.complaints.append(f"{self._directory}: ends before its log start offset; it starts anew there")
            self._start_anew()
        active = self.segments[-1]
        self.log_end_offset = self._end_of(active)
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        if self._clean:
            self.recovery_point = self.log_end_offset
        if self._next_offset >= 0:
            self.log_end_offset = max(self.log_end_offset, self._next_offset)
        self._mark_lost_end(active)
        self.epochs.truncate_from_end(self.log_end_offset)
        self._fill_epochs()
        self.epochs.truncate_from_start(self.log_start_offset)

    def _doubt_log_start(self) -> None:
        """After a crash, the log start that hides the fewer records holds: the leader epochs begin where it was."""
        first = self._noted.entries[0].start_offset if self._noted.entries else INT64_MAX
        start = max(first, self.segments[0].base_offset)
        if not self._clean and start < self.log_start_offset and start <= self._end_of(self.segments[-1]):
            self.complaints.append(
                f"{self._directory}: log start offset {self.log_start_offset}, the leader epochs begin at {start}; "
                "deleted records may be back"
            )
            self.log_start_offset = start

    def _mark_lost_end(self, active: Segment) -> None:
        """Offsets that were given out and of which no byte is left fail when they are read, like any other damage."""
        try:
            end = active.next_offset()
        except (CorruptIndex, CorruptLog):
            return
        if end < self.log_end_offset and not (active.bad and active.bad[-1].end >= active.size):
            active.bad.append(Damage(active.size, active.size, f"offsets {end} to {self.log_end_offset - 1} are lost"))

    def _fill_epochs(self) -> None:
        """Records that were deleted before the stop may be back, since the log start offset is written now and then:
        the epochs of them are read from the batches."""
        known = self.epochs.entries
        upto = known[0].start_offset if known else self.log_end_offset
        if self.segments[0].base_offset < upto and self.log_start_offset < upto:
            self.epochs.clear()
            self._read_epochs(self.segments, upto=upto)
            for entry in known:
                self.epochs.assign(entry.epoch, entry.start_offset)

    def _start_anew(self) -> None:
        for segment in self.segments:
            segment.file.close()
            self._env.remover.remove_files(segment.paths(), 0)
        self.segments = [self._new_segment(self.log_start_offset)]
        self.epochs.clear()
        self.producers.clear()

    def _end_of(self, segment: Segment) -> int:
        """The offset after the last batch: the last index entry tells where to look."""
        try:
            segment.index.check(segment.size)
            segment.time_index.check()
            end = segment.next_offset()
        except (CorruptIndex, CorruptLog) as error:
            self.complaints.append(f"{error}; the indexes are built anew")
            self._rebuild_indexes(segment)
            try:
                end = segment.next_offset()
            except CorruptLog as error:
                return self._end_despite(segment, error)
        if self._clean and segment is self.segments[-1] and 0 < self.recovery_point != end:
            return self._end_in_doubt(segment, end)
        return end

    def _end_in_doubt(self, segment: Segment, end: int) -> int:
        """An orderly stop has noted another end than the last batch tells: what its checksums say decides."""
        good, end_noted = segment.base_offset, self.recovery_point
        fd, path = segment.file.descriptor(), segment.file.path
        for found in judge(self._files, fd, path, segment.size, good, INT64_MAX, lambda _offset: -1):
            if isinstance(found, Damage):
                self.complaints.append(f"{found.why}; {found.end - found.position} bytes cannot be read any more")
            elif found is not None and (found.header.base_offset == good or found.header.next_offset <= end_noted):
                good = found.header.next_offset  # not that of a batch whose offsets neither follow nor end as noted
        if max(good, self.recovery_point) != end:
            self.complaints.append(f"{path}: ends at {max(good, self.recovery_point)}, not at {end}")
        return max(good, self.recovery_point)

    def _end_despite(self, segment: Segment, error: CorruptLog) -> int:
        """Somebody damaged the end of a log that was closed in order: look at the whole segment, as after a crash.

        What was safe on disk once (below the recovery point) keeps its offsets, so that no other record ever gets
        them; only the bytes cannot be read any more.
        """
        self.complaints.append(f"{error}, though the log was closed in order")
        offset = segment.base_offset
        replay_producers(self._env, self._directory, self.segments, self.producers, offset, keep_later=True)
        self._recover_segment(segment)
        return self._next_offset

    # 8

    def _pass_8_producers(self) -> None:
        if self._clean:
            self._load_producers(self.log_end_offset)
        self.producers.map_end_offset = self.log_end_offset
        self.producers.on_log_start_offset(self.log_start_offset)
        self._remove_stray_snapshots()

    def _load_producers(self, offset: int) -> None:
        self.complaints += replay_producers(self._env, self._directory, self.segments, self.producers, offset)

    def _remove_stray_snapshots(self) -> None:
        """Keep the snapshots of segments, and the newest."""
        bases = {segment.base_offset for segment in self.segments}
        for offset in snapshot_offsets(self._env, self._directory)[:-1]:
            if offset not in bases:
                self._files.unlink(self.producers.snapshot_path(offset))

    def _scan(self, segment: Segment, *, start: int = 0) -> Iterator[ScannedBatch]:
        """The batches of a segment, unchecked; damage ends the walk with a complaint."""
        try:
            yield from self._checked(segment, start=start, end=segment.size, check_crc=False)
        except CorruptLog as error:
            self.complaints.append(f"{error}; what follows in this segment could not be looked at")

    def _checked(self, segment: Segment, *, start: int, end: int, check_crc: bool) -> Iterator[ScannedBatch]:
        file = segment.file
        file.retain()
        try:
            for batch in scan(self._files, file.descriptor(), file.path, start, end, check_crc=check_crc):
                yield batch
                self._progress(batch.header.size)
        finally:
            file.release()


def snapshot_offsets(env: LogEnvironment, directory: str) -> list[int]:
    """The offsets of the producer snapshots in a directory, ascending."""
    parsed = [names.parse_file_name(name) for name in env.doors.files.listdir(directory)]
    return sorted(each[0] for each in parsed if each is not None and each[1] == names.SNAPSHOT_SUFFIX)


def replay_producers(
    env: LogEnvironment,
    directory: str,
    segments: list[Segment],
    producers: ProducerStateManager,
    offset: int,
    *,
    keep_later: bool = False,
) -> list[str]:
    """Bring a producer table to what it was at an offset: the newest good snapshot at or below it, then the batches
    from there. Returns complaints about damaged snapshots and batches. OSError."""
    files = env.doors.files
    snapshots = [each for each in snapshot_offsets(env, directory) if each <= offset or not keep_later]
    complaints = producers.reload(segments[0].base_offset, offset, snapshots, env.doors.clock.time_ms())
    start = producers.map_end_offset
    ends = [segment.base_offset for segment in segments[1:]] + [offset]
    for segment, end in zip(segments, ends, strict=True):
        if segment.base_offset >= offset or end <= start or not segment.size:
            continue
        try:
            found = segment.find(start)
            position = found.position if found else segment.size
            fd = segment.file.descriptor()
            for batch in scan(files, fd, segment.file.path, position, segment.size, check_crc=True):
                header = batch.header
                if header.producer_id >= 0 and header.base_offset < offset:
                    completed = producers.update(header, header.base_offset, batch.data)
                    if completed is not None:
                        producers.complete(completed)
        except CorruptLog as error:
            complaints.append(f"{error}; producers of what follows in this segment are not known")
    producers.map_end_offset = offset
    return complaints
