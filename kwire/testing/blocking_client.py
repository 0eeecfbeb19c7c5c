"""A blocking Kafka client for tests: one connection, exact requests, decoded responses. It works with any broker.

No metadata, no retries. What lives elsewhere: the event loop's client, which brokers use (`kwire.net.client`).
"""

from __future__ import annotations

import socket
from typing import Any, Self

from kwire.base.addresses import parse_address
from kwire.codec.message import Message
from kwire.testing.frames import INT32, decode_response, request_frame, request_header

TIMEOUT_S = 15.0
_RECEIVED_BYTES_MAX = 1 << 20


class BlockingClient:
    """One connection to HOST:PORT. ``timeout_s`` bounds each wait for the broker (TimeoutError).

    OSError when no broker listens there, ConnectionResetError when the broker closes the connection instead of
    sending the response.
    """

    def __init__(self, bootstrap_server: str, client_id: str = "kwire-testing", timeout_s: float = TIMEOUT_S) -> None:
        self.client_id = client_id
        self.socket = socket.create_connection(parse_address(bootstrap_server), timeout_s)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, request: Message, version: int) -> Any:
        """Send a request and return its response."""
        return self.receive(request.API_KEY, version, self.send(request, version))

    def send(self, request: Message, version: int) -> int:
        """Send a request without waiting for its response; return the correlation id."""
        self._correlation_id += 1
        self.socket.sendall(request_frame(request, version, self._correlation_id, self.client_id))
        return self._correlation_id

    def header(self, api_key: int, version: int, correlation_id: int) -> bytes:
        """The bytes of a request header, in the version that the API's version uses."""
        return request_header(api_key, version, correlation_id, self.client_id)

    def receive(self, api_key: int, version: int, correlation_id: int) -> Any:
        """Wait for the next response. ConnectionError if it has another correlation id, CodecError if malformed."""
        return decode_response(self.receive_frame(), api_key, version, correlation_id)

    def receive_frame(self) -> bytes:
        """Wait for the next frame; its bytes without the size."""
        return self._read(INT32.unpack(self._read(INT32.size))[0])

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            received = self.socket.recv(min(size - len(data), _RECEIVED_BYTES_MAX))
            if not received:
                raise ConnectionResetError("the broker closed the connection without a response")
            data += received
        return bytes(data)
