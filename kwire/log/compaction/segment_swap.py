"""Putting a cleaned segment in the place of those it was made from, so that a crash at any step leaves a whole log.

Before all, `keep_what_supersedes`: everything that the cleaning has looked at is synced, since what supersedes a record
must not be lost where the record is gone; and the recovery point on stable storage is moved beyond it: so every gap in
the offsets behind a recovery point is a hole that a power loss has torn, also in a compacted log.

The steps, and what the next start's recovery does after a crash in each:

1. the `.cleaned` files are synced, and their names   undo: `.cleaned` goes
2. they become `.swap`, the `.log` last                undo: as long as one is `.cleaned`, nothing had begun
3. the new names are synced                            complete: `.log.swap` takes the place of what it replaces
4. the old files become `.deleted`, oldest first, and the `.swap` files get their final names    complete
5. the names are synced; old files go after `file.delete.delay.ms`, and when the last reader is done with them

Step 4 happens in one go on the loop: a reader sees the old segments or the new one, never a mixture. Oldest first, so
that what a crash leaves of the old segments is their newest: of no key an older record than the log had. Syncs run on
threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.base.errors import KafkaError
from kwire.log.common import names
from kwire.log.common.log_config import INT64_MAX
from kwire.log.partition.flusher import sync_files
from kwire.log.segment.segment import Segment

if TYPE_CHECKING:
    from kwire.log.common.environment import LogEnvironment
    from kwire.log.partition.partition_log import PartitionLog

SUFFIXES = (names.TXN_INDEX_SUFFIX, names.TIME_INDEX_SUFFIX, names.INDEX_SUFFIX, names.LOG_SUFFIX)
"""A segment's files in the order in which they are renamed; the `.log` decides, so it comes last."""


class CleaningAborted(Exception):
    """The log has changed under the cleaner: truncated, deleted, or no longer to be compacted. Nothing is wrong."""


async def keep_what_supersedes(env: LogEnvironment, log: PartitionLog, end_offset: int) -> None:
    """To be done before the first swap of a cleaning that has looked at what is below an offset. CleaningAborted,
    OSError."""
    try:
        await log.flusher.flush_to(end_offset)
    except KafkaError as error:  # the directory has been reported; the cleaning is tried again
        raise CleaningAborted(str(error)) from error
    await env.keep_recovery_point(log, end_offset)


class SegmentSwap:
    """One group's swap. ``old`` are neighbours in the log's segment list, oldest first."""

    def __init__(self, env: LogEnvironment, log: PartitionLog, old: list[Segment]) -> None:
        self._env = env
        self._files = env.doors.files
        self._log = log
        self._old = old
        self._sizes = [segment.size for segment in old]
        self._directory = log.directory
        self._base_offset = old[0].base_offset

    def check(self) -> None:
        """Raise CleaningAborted unless the log still has the segments that were cleaned, as they were."""
        log, old = self._log, self._old
        if log.cut_to != INT64_MAX:
            raise CleaningAborted(f"{log.name} was truncated to {log.cut_to}")  # what superseded a record may be gone
        if log.closed or log.directory != self._directory:
            raise CleaningAborted(f"{log.name} was closed")
        if not log.config.compacts:
            raise CleaningAborted(f"{log.name} is no longer compacted")
        at = next((i for i, segment in enumerate(log.segments) if segment is old[0]), -1)
        present = log.segments[at : at + len(old)] if at >= 0 else []
        if (
            len(present) != len(old)
            or any(mine is not theirs for mine, theirs in zip(old, present, strict=True))
            or old[-1] is log.active
            or [segment.size for segment in old] != self._sizes
        ):
            raise CleaningAborted(f"segments of {log.name} from offset {self._base_offset} on have gone or changed")

    async def run(self, size: int) -> Segment:
        """Steps 1 to 5 for `.cleaned` files of ``size`` bytes; the new segment. CleaningAborted and OSError, after
        which the log is as it was, unless step 4 failed."""
        try:
            self.check()
            await self._sync(names.CLEANED_SUFFIX)
            self.check()
            self._rename(names.CLEANED_SUFFIX, names.SWAP_SUFFIX)
            await self._sync(names.SWAP_SUFFIX, contents=False)
            self.check()
        except BaseException:
            self.undo()
            raise
        segment = self._swap(size)
        await self._sync("", contents=False)
        return segment

    def _path(self, suffix: str, state: str = "") -> str:
        return f"{self._directory}/{names.file_name(self._base_offset, suffix)}{state}"

    async def _sync(self, state: str, *, contents: bool = True) -> None:
        paths = [self._path(suffix, state) for suffix in SUFFIXES] if contents else []
        await self._env.doors.executor.run(sync_files, self._files, [], [*paths, self._directory])

    def _rename(self, state: str, new_state: str) -> None:
        for suffix in SUFFIXES:
            path = self._path(suffix, state)
            if self._files.exists(path):
                self._files.replace(path, self._path(suffix, new_state))

    def undo(self) -> None:
        """Remove what was prepared. A `.cleaned` file remains until the last `.swap` is gone, so that a crash in the
        middle cannot make recovery take up the rest."""
        try:
            log_swap = self._path(names.LOG_SUFFIX, names.SWAP_SUFFIX)
            if self._files.exists(log_swap):
                self._files.replace(log_swap, self._path(names.LOG_SUFFIX, names.CLEANED_SUFFIX))
            for state in (names.SWAP_SUFFIX, names.CLEANED_SUFFIX):
                for suffix in SUFFIXES:
                    path = self._path(suffix, state)
                    if self._files.exists(path):
                        self._files.unlink(path)
        except FileNotFoundError:
            pass  # the directory has been renamed: what is left goes with it

    def _swap(self, size: int) -> Segment:
        """Step 4. An OSError in the middle is completed by the next start: the directory has failed."""
        env, old = self._env, self._old
        modified_ns = self._files.stat(old[-1].file.path).st_mtime_ns
        swap = self._path(names.LOG_SUFFIX, names.SWAP_SUFFIX)
        self._files.utime(swap, ns=(modified_ns, modified_ns))  # retention goes by it where records have no time
        delay_ms = self._log.config.file_delete_delay_ms
        for segment in old:
            env.remover.remove_files(segment.paths(), delay_ms)
        self._rename(names.SWAP_SUFFIX, "")
        new = Segment(env.cache, self._directory, self._base_offset, size, modified_ns // 1_000_000, new=False)
        self._log.replace_segments(old, new)
        for segment in old:
            segment.file.close()
        snapshots = [self._log.producer_state.snapshot_path(segment.base_offset) for segment in old[1:]]
        env.remover.remove_files([path for path in snapshots if self._files.exists(path)], delay_ms)
        return new
