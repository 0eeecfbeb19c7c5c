"""The broker's settings for all logs; a topic's own are in `kwire.log.common.log_config`."""

from __future__ import annotations

from typing import NamedTuple

from kwire.log.compaction.cleaner import CleanerSettings


class ManagerSettings(NamedTuple):
    """Broker-level settings, in milliseconds, with Kafka's defaults and properties."""

    recovery_point_interval_ms: int = 60_000  # log.flush.offset.checkpoint.interval.ms
    log_start_interval_ms: int = 60_000  # log.flush.start.offset.checkpoint.interval.ms
    high_watermark_interval_ms: int = 5_000  # replica.high.watermark.checkpoint.interval.ms
    retention_check_interval_ms: int = 300_000  # log.retention.check.interval.ms
    flush_scheduler_interval_ms: int = 3_000  # log.flush.scheduler.interval.ms; Kafka: never unless flush.ms is set
    producer_expiration_ms: int = 86_400_000  # producer.id.expiration.ms
    producer_check_interval_ms: int = 600_000  # producer.id.expiration.check.interval.ms
    idle_file_interval_ms: int = 30_000  # how soon an unused file is closed
    file_budget: int = 512  # open segment files
    recovery_threads_per_directory: int = 2  # num.recovery.threads.per.data.dir: processes, see recovery.helpers
    cleaner: CleanerSettings = CleanerSettings()  # log.cleaner.*
