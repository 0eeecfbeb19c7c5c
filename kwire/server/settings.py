"""The settings of the network layer and of the logs, made from the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.log.compaction.cleaner import CleanerSettings
from kwire.log.manager.settings import ManagerSettings
from kwire.net.settings import NetSettings

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig


def net_settings(config: KafkaConfig) -> NetSettings:
    """The settings of listeners and connections, which follow dynamic changes of the configuration."""
    settings = NetSettings(
        connections_max_idle_ms=config.connections_max_idle_ms,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.max_connections_per_ip_for(),
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        backlog=config.socket_listen_backlog_size,
    )

    def follow(_: frozenset[str]) -> None:
        settings.max_connections = config.max_connections
        settings.max_connections_per_ip = config.max_connections_per_ip
        settings.max_connections_per_ip_overrides = config.max_connections_per_ip_for()

    config.on_change(follow)
    return settings


def log_settings(config: KafkaConfig) -> ManagerSettings:
    """The settings of the log manager."""
    return ManagerSettings(
        recovery_threads_per_directory=config.num_recovery_threads_per_data_dir,
        recovery_point_interval_ms=config.log_flush_offset_checkpoint_interval_ms,
        log_start_interval_ms=config.log_flush_start_offset_checkpoint_interval_ms,
        high_watermark_interval_ms=config.replica_high_watermark_checkpoint_interval_ms,
        retention_check_interval_ms=config.log_retention_check_interval_ms,
        producer_expiration_ms=config.producer_id_expiration_ms,
        producer_check_interval_ms=config.producer_id_expiration_check_interval_ms,
        cleaner=cleaner_settings(config),
    )


def cleaner_settings(config: KafkaConfig) -> CleanerSettings:
    """The settings of the log cleaner."""
    return CleanerSettings(
        enable=config.log_cleaner_enable,
        threads=config.log_cleaner_threads,
        dedupe_buffer_size=config.log_cleaner_dedupe_buffer_size,
        io_buffer_size=config.log_cleaner_io_buffer_size,
        io_buffer_load_factor=config.log_cleaner_io_buffer_load_factor,
        io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
        backoff_ms=config.log_cleaner_backoff_ms,
    )
