"""A bare client for tests that need one exact request: kwire's codec over a blocking socket.

``with WireClient(broker.bootstrap) as client: response = client.call(MetadataRequest(topics=None), 13)``. The codec
itself is compared with the Java classes elsewhere; here it is only the pen.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from kwire.codec.protocol import (
    ApiKey,
    decode,
    encode,
    request_header_version,
    response_class,
    response_header_version,
)


class WireClient:
    """One connection. Requests are answered in the order they were sent."""

    def __init__(self, bootstrap: str, client_id: str = "wire", timeout_s: float = 20.0) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.client_id = client_id
        self._correlation_id = 0

    def call(self, request: Any, version: int) -> Any:
        """Send and return the decoded response. `EOFError` when the broker closes the connection instead."""
        correlation_id = self.send(request, version)
        return self.receive(request.API_KEY, version, correlation_id)

    def send(self, request: Any, version: int) -> int:
        """Send without waiting; return the correlation id."""
        self._correlation_id += 1
        frame = self.header(request.API_KEY, version, self._correlation_id) + bytes(encode(request, version))
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        return self._correlation_id

    def header(self, api_key: int, version: int, correlation_id: int) -> bytes:
        """A request header as clients write it."""
        name = self.client_id.encode()
        plain = struct.pack(f">hhih{len(name)}s", api_key, version, correlation_id, len(name), name)
        return plain + b"\0" if request_header_version(ApiKey(api_key), version) >= 2 else plain

    def receive(self, api_key: int, version: int, correlation_id: int) -> Any:
        """The next response, which must carry this correlation id."""
        frame = self.receive_frame()
        (seen,) = struct.unpack_from(">i", frame)
        assert seen == correlation_id, f"response {seen} instead of {correlation_id}"
        start = 5 if response_header_version(ApiKey(api_key), version) >= 1 else 4
        message, end = decode(response_class(ApiKey(api_key)), version, memoryview(frame), start)
        assert end == len(frame), f"{len(frame) - end} bytes after the response"
        return message

    def receive_frame(self) -> bytes:
        """The next frame without its size."""
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise EOFError("the broker closed the connection")
            data += part
        return bytes(data)
