"""What a log directory has at the start: the directories of partitions, with their offsets in the checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwire.log.common import checkpoints, names
from kwire.log.common.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    CorruptCheckpoint,
    read_offsets,
)
from kwire.log.common.environment import LogEnvironment, logger
from kwire.log.common.log_dirs import LogDirectory
from kwire.log.manager.offset_checkpoints import CHECKPOINTED, NOT_CHECKPOINTED

if TYPE_CHECKING:
    from kwire.base.doors import Files
    from kwire.base.topic_partition import TopicPartition


@dataclass(slots=True, eq=False, repr=False)
class Found:
    """A partition's directory found at start, with its offsets in the checkpoints."""

    parent: LogDirectory
    path: str
    topic: str
    partition: int
    clean: bool
    recovery_point: int
    log_start_offset: int
    high_watermark: int
    cleaned_to: int

    def checkpointed(self, file: str) -> int:
        """The partition's offset in a checkpoint file."""
        if file == RECOVERY_POINT_FILE:
            return self.recovery_point
        if file == LOG_START_OFFSET_FILE:
            return self.log_start_offset or NOT_CHECKPOINTED
        return self.high_watermark


def find_partitions(env: LogEnvironment, directory: LogDirectory) -> tuple[list[Found], bool]:
    """The partitions in a log directory, and whether it had a clean-shutdown marker, which is taken away. Directories
    that were being removed are. OSError."""
    path, files = directory.path, env.doors.files
    kept = checkpoints.take_shutdown_copy(files, path)
    clean = checkpoints.take_clean_shutdown(files, path)
    if clean:
        for file in checkpoints.restore(files, path, kept):
            logger.warning("file restored: it differs from its copy of the last shutdown", path=file)
    recovery_points = _offsets(files, path, RECOVERY_POINT_FILE)
    starts = _offsets(files, path, LOG_START_OFFSET_FILE)
    high_watermarks = _offsets(files, path, HIGH_WATERMARK_FILE)
    cleaned = {} if clean else _offsets(files, path, checkpoints.CLEANER_FILE)
    found = []
    for name in files.listdir(path):
        full = f"{path}/{name}"
        key = names.parse_directory_name(name)
        if names.is_leaving_directory(name) and files.is_dir(full):
            if name.endswith((names.DELETE_DIRECTORY_SUFFIX, names.FUTURE_DIRECTORY_SUFFIX)):
                env.remover.remove_directory(full, 0)
        elif key is not None and key[0] != names.CLUSTER_METADATA_TOPIC and files.is_dir(full):
            offsets = (recovery_points.get(key, 0), starts.get(key, 0), high_watermarks.get(key, 0))
            found.append(Found(directory, full, *key, clean, *offsets, cleaned.get(key, 0)))
    there = {(each.topic, each.partition) for each in found}
    for key in sorted({*recovery_points, *starts, *high_watermarks} - there):
        retire(directory, key)
    return found, clean


def retire(directory: LogDirectory, key: TopicPartition) -> None:
    """Note that a log is removed while checkpoints on stable storage name it. After a power loss their offsets must
    not be applied to a new log of that name: they could hide records, or skip their recovery."""
    directory.retired[key] = set(CHECKPOINTED)


def _offsets(files: Files, path: str, file: str) -> dict[TopicPartition, int]:
    try:
        return read_offsets(files, f"{path}/{file}")
    except CorruptCheckpoint as error:
        logger.warning("checkpoint not read", error=str(error))
        return {}
