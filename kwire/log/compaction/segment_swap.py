"""Replacing segments by the cleaned one made from them, so that a crash at any step leaves a complete log.

Before the first swap, `sync_superseding_records` syncs everything that the cleaning has read: a record must not be lost
after the cleaner has removed the older one with its key. The recovery point on stable storage is moved beyond it, so
that every gap in the offsets above a recovery point is a hole left by a power loss, in a compacted log, too.

The steps, and what recovery does after a crash in each:

1. the `.cleaned` files and their names are synced      undo: remove `.cleaned` files
2. they are renamed to `.swap`, the `.log` last         undo, as long as one file is `.cleaned`
3. the new names are synced                             complete: `.log.swap` replaces the segments it was made from
4. the old files are renamed to `.deleted`, oldest first, and the `.swap` files to their final names    complete
5. the names are synced; old files are removed after `file.delete.delay.ms`, when their last reader is done

Step 4 happens in one turn of the event loop: a reader sees the old segments or the new one, never both. The oldest are
renamed first, so that a crash leaves the newest of the old segments: no older record of any key than the log had. Syncs
run on threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.base.errors import KafkaError
from kwire.log.common import names
from kwire.log.common.log_config import INT64_MAX
from kwire.log.common.sync_files import sync_files
from kwire.log.segment.segment import Segment

if TYPE_CHECKING:
    from kwire.log.common.environment import LogEnvironment
    from kwire.log.partition.partition_log import PartitionLog

SUFFIXES = (names.TXN_INDEX_SUFFIX, names.TIME_INDEX_SUFFIX, names.INDEX_SUFFIX, names.LOG_SUFFIX)
"""A segment's files in the order in which they are renamed: recovery goes by the `.log`, so it is the last."""


class CleaningAborted(Exception):
    """The log was truncated, deleted or is no longer compacted while it was being cleaned. This is not an error."""


async def sync_superseding_records(env: LogEnvironment, log: PartitionLog, end_offset: int) -> None:
    """Sync the log up to an offset and move the recovery point there, before the first swap of a cleaning.
    CleaningAborted, OSError."""
    try:
        await log.flusher.flush_to(end_offset)
    except KafkaError as error:  # the failure has been reported; the cleaning is tried again
        raise CleaningAborted(str(error)) from error
    await env.checkpoint_recovery_point((log.topic, log.partition), end_offset)


class SegmentSwap:
    """The swap of one group. ``old`` are neighbouring segments of the log, oldest first."""

    def __init__(self, env: LogEnvironment, log: PartitionLog, old: list[Segment]) -> None:
        self._env = env
        self._files = env.doors.files
        self._log = log
        self._old = old
        self._sizes = [segment.size for segment in old]
        self._directory = log.directory
        self._base_offset = old[0].base_offset

    def check(self) -> None:
        """Raise CleaningAborted if the log no longer has the segments that were cleaned, unchanged."""
        log, old = self._log, self._old
        if log.truncated_to != INT64_MAX:
            raise CleaningAborted(
                f"{log.name} was truncated to {log.truncated_to}"
            )  # the newer record of a key may be gone
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
            raise CleaningAborted(
                f"segments of {log.name} from offset {self._base_offset} on were removed or have changed"
            )

    async def run(self, size: int) -> Segment:
        """Make steps 1 to 5 for a `.cleaned` segment of ``size`` bytes; the new segment. CleaningAborted and OSError,
        after which the log is unchanged, unless step 4 failed."""
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
        """Remove the prepared files. A `.cleaned` file stays until the last `.swap` is removed, so that recovery does
        not complete the swap after a crash in the middle."""
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
            pass  # the directory has been renamed and will be removed

    def _swap(self, size: int) -> Segment:
        """Make step 4. After an OSError in the middle the directory has failed, and the next start completes it."""
        env, old = self._env, self._old
        modified_ns = self._files.stat(old[-1].file.path).st_mtime_ns
        swap = self._path(names.LOG_SUFFIX, names.SWAP_SUFFIX)
        self._files.utime(
            swap, ns=(modified_ns, modified_ns)
        )  # for retention by time, if the records have no timestamps
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
