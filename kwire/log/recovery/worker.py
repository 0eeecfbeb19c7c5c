"""The helper process of recovery: ``python -m kwire.log.recovery.worker``, started by `recovery.helpers`.

It recovers whole partitions on disk, as the broker would, and reports what it found; the broker then opens them as logs
that were closed cleanly.
"""

from __future__ import annotations

from collections.abc import Generator

from kwire.base.doors import Doors
from kwire.base.processes.helpers import serve
from kwire.log.common.environment import LogEnvironment
from kwire.log.recovery.messages import PartitionsRecovered, RecoverPartitions, RecoveryReport, UncleanPartition
from kwire.log.recovery.recovery import LogRecovery


def recover(request: RecoverPartitions) -> Generator[int, None, PartitionsRecovered]:
    """Recover the partitions of a request. One that an OSError stops is left to the broker, which meets the error
    again and handles it. Yields the bytes of each partition when it is done."""
    reports: list[RecoveryReport | None] = []
    for partition in request.partitions:
        try:
            reports.append(recover_one(partition, request.producer_expiration_ms))
        except OSError:
            reports.append(None)
        yield partition.bytes
    return PartitionsRecovered(reports)


def recover_one(partition: UncleanPartition, producer_expiration_ms: int) -> RecoveryReport:
    """Make all passes over one partition, and write everything found to disk. OSError."""
    env = LogEnvironment.create(Doors(processes=None), producer_expiration_ms=producer_expiration_ms)
    try:
        log = LogRecovery(
            env,
            partition.directory,
            partition.name,
            partition.config,
            clean=False,
            recovery_point=partition.recovery_point,
            log_start_offset=partition.log_start_offset,
            cleaned_to=partition.cleaned_to,
        ).run()
        for segment in log.segments:
            if segment.index.loaded or segment.time_index.loaded:
                segment.note_max_timestamp()
                segment.flush_indexes()
        log.producers.map_end_offset = log.log_end_offset
        log.producers.take_snapshot()
    finally:
        env.cache.close_all()
    return RecoveryReport(
        complaints=log.complaints,
        recovery_point=log.recovery_point,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        verified=[segment.base_offset for segment in log.segments if segment.size and not segment.unverified],
        bad={segment.base_offset: segment.bad for segment in log.segments},
        rebuilt=[segment.base_offset for segment in log.rebuilt],
    )


def main() -> None:
    """Serve the broker's requests until it closes the pipe."""
    serve(recover, niceness=0)


if __name__ == "__main__":
    main()
