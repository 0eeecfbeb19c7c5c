"""The network layer's numbers out of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.net.settings import NetSettings

if TYPE_CHECKING:
    from kwire.base.config import KafkaConfig


def net_settings(config: KafkaConfig) -> NetSettings:
    """The settings of listeners and connections, kept up with dynamic changes of the configuration."""
    settings = NetSettings(
        request_max_bytes=config.socket_request_max_bytes,
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
