"""Opening a partition's directory. What lives elsewhere: making it a consistent log (`kwire.log.recovery`)."""

from __future__ import annotations

from kwire.log.common import names
from kwire.log.common.checkpoints import read_topic_id, write_topic_id
from kwire.log.common.environment import LogEnvironment, logger
from kwire.log.common.log_config import LogConfig
from kwire.log.partition.partition_log import PartitionLog
from kwire.log.recovery.messages import RecoveryReport
from kwire.log.recovery.recovery import LogRecovery, Progress, no_progress


def open_log(
    env: LogEnvironment,
    directory: str,
    topic: str,
    partition: int,
    topic_id: bytes,
    config: LogConfig,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    high_watermark: int = 0,
    cleaned_to: int = 0,
    progress: Progress = no_progress,
    report: RecoveryReport | None = None,
) -> PartitionLog:
    """Open a partition's directory, or create it.

    After an unclean shutdown (``clean=False``) the log is checked from the recovery point on, unless a helper
    process has done that: then ``report`` is its result. KafkaError(KAFKA_STORAGE_ERROR).
    """
    files = env.doors.files
    if report is not None:
        clean, recovery_point, log_start_offset = True, report.log_end_offset, report.log_start_offset
    try:
        is_new = not files.exists(directory)
        if is_new:
            files.makedirs(directory)
        if topic_id != bytes(16) and (is_new or read_topic_id(files, directory) is None):
            write_topic_id(files, directory, topic_id)
        recovery = LogRecovery(
            env,
            directory,
            names.directory_name(topic, partition),
            config,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            cleaned_to=cleaned_to,
            progress=progress,
        )
        recovered = recovery.begin() if is_new else recovery.run()
        if report is not None:
            recovered = report.applied_to(recovered)
    except OSError as error:
        raise env.failure(directory, error) from error
    for complaint in recovered.complaints:
        logger.warning("log repaired", partition=names.directory_name(topic, partition), what=complaint)
    log = PartitionLog(env, topic, partition, topic_id, config, recovered)
    log.advance_high_watermark(high_watermark)
    return log
