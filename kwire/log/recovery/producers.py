"""The producers of a log as of an offset, from snapshots and the batches after them.

What lives elsewhere: what is known of each producer (`kwire.log.state.producer_state`).
"""

from __future__ import annotations

from kwire.log.common import names
from kwire.log.common.environment import LogEnvironment
from kwire.log.segment.batch_scan import CorruptLog, scan
from kwire.log.segment.segment import Segment
from kwire.log.state.producer_state import ProducerStateManager


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
    """Rebuild the producer state as of an offset: from the newest valid snapshot at or below it, and the batches after
    that. Returns complaints about damaged snapshots and batches. OSError."""
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
            complaints.append(f"{error}; the producers of the rest of this segment are unknown")
    producers.map_end_offset = offset
    return complaints
