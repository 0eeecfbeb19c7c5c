"""The limits of the network layer: constants, and properties (`kwire.server.settings` reads them)."""

from __future__ import annotations

from typing import Final

from kwire.base.file_range import FileRange

RECEIVE_BYTES: Final = 128 * 1024
"""Bytes received at a time: larger pieces leave the CPU's cache before they are processed."""

PIPELINE_DEPTH: Final = 64
"""How many pipelined requests of one connection may be pending. Clients have 5 in flight by default."""

FRAMES_PER_TURN: Final = 64
"""Requests of one connection that are started before the other connections have their turn."""

UNSENT_MAX: Final = 16
"""Connections whose responses are sent together; with more, the first would wait too long."""

LONG_BYTES: Final = 16 * 1024
"""Received bytes that take longer to handle than a client takes to wake up: responses are sent at once."""

LENT_BYTES: Final = 8 * 1024
"""A frame of this size is a view of the buffer in which it was received, `RECEIVE_BYTES` at most, if much came with it:
to copy it costs more. The buffer is not used again as long as there are views of it."""

OUTGOING_LIMIT: Final = 256 * 1024
"""Unsent bytes of a connection from which on its next request is not read."""

SMALL_RANGE: Final = 16 * 1024
"""A file range up to this size is read and sent with its neighbours: one call instead of two."""

IOV_LIMIT: Final = 256
"""Buffers given to one `sendmsg` (the kernel takes 1024)."""

SETUP_MAX_MS: Final = 30_000
"""Time for the TLS handshake and the login of a new connection. Kafka's clients wait as long for a connection
(`socket.connection.setup.timeout.max.ms`)."""

Part = bytes | bytearray | memoryview | FileRange
"""A piece of a response."""


class NetSettings:
    """Properties of listeners and connections, in their units: bytes, milliseconds, connections."""

    __slots__ = (
        "backlog",
        "connections_max_idle_ms",
        "max_connections",
        "max_connections_per_ip",
        "max_connections_per_ip_overrides",
        "receive_buffer_bytes",
        "send_buffer_bytes",
        "setup_max_ms",
    )

    def __init__(
        self,
        *,
        connections_max_idle_ms: int = 600_000,
        max_connections: int = 2**31 - 1,
        max_connections_per_ip: int = 2**31 - 1,
        max_connections_per_ip_overrides: dict[str, int] | None = None,
        send_buffer_bytes: int = 100 * 1024,
        receive_buffer_bytes: int = 100 * 1024,
        backlog: int = 50,
        setup_max_ms: int = SETUP_MAX_MS,
    ) -> None:
        self.connections_max_idle_ms = connections_max_idle_ms
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.max_connections_per_ip_overrides = max_connections_per_ip_overrides or {}
        self.send_buffer_bytes = send_buffer_bytes
        self.receive_buffer_bytes = receive_buffer_bytes
        self.backlog = backlog
        self.setup_max_ms = setup_max_ms
