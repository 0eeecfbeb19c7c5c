"""The numbers that bound the network layer. They come from the properties of the same names (`kwire.server`)."""

from __future__ import annotations

from typing import Final

from kwire.base.file_range import FileRange

RECEIVE_BYTES: Final = 128 * 1024
"""How much is received at a time: larger pieces fall out of the CPU's cache before they are looked at."""

PIPELINE_DEPTH: Final = 64
"""How many pipelined requests of one connection may be pending. Clients have 5 in flight unless told otherwise."""

FRAMES_PER_TURN: Final = 64
"""How many requests of one connection are started before the other connections have their turn."""

UNSENT_MAX: Final = 16
"""How many connections' answers leave together: the first one should not wait for long."""

LONG_BYTES: Final = 16 * 1024
"""What takes longer to handle than a client takes to wake up: its answer leaves at once."""

OUTGOING_LIMIT: Final = 256 * 1024
"""Bytes of answers that wait for a slow reader before its next request is left unread."""

SMALL_RANGE: Final = 16 * 1024
"""A file range up to this size is read and sent with its neighbours: one call instead of two."""

IOV_LIMIT: Final = 256
"""Buffers given to one `sendmsg` (the kernel takes 1024)."""

Part = bytes | bytearray | memoryview | FileRange
"""A piece of an answer."""


class NetSettings:
    """Properties of listeners and connections, in their units: bytes, milliseconds, connections."""

    __slots__ = ("backlog", "connections_max_idle_ms", "max_connections", "max_connections_per_ip",
                 "max_connections_per_ip_overrides", "receive_buffer_bytes", "request_max_bytes",
                 "send_buffer_bytes")  # fmt: skip

    def __init__(
        self,
        *,
        request_max_bytes: int = 100 * 1024 * 1024,
        connections_max_idle_ms: int = 600_000,
        max_connections: int = 2**31 - 1,
        max_connections_per_ip: int = 2**31 - 1,
        max_connections_per_ip_overrides: dict[str, int] | None = None,
        send_buffer_bytes: int = 100 * 1024,
        receive_buffer_bytes: int = 100 * 1024,
        backlog: int = 50,
    ) -> None:
        self.request_max_bytes = request_max_bytes
        self.connections_max_idle_ms = connections_max_idle_ms
        self.max_connections = max_connections
        self.max_connections_per_ip = max_connections_per_ip
        self.max_connections_per_ip_overrides = max_connections_per_ip_overrides or {}
        self.send_buffer_bytes = send_buffer_bytes
        self.receive_buffer_bytes = receive_buffer_bytes
        self.backlog = backlog
