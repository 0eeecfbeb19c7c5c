"""A blocking Kafka client for tests: one connection, exact requests, decoded responses. It works with any broker.

No metadata, no retries. What lives elsewhere: the event loop's client, which brokers use (`kwire.net.client`).
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Self

from kwire.base.addresses import parse_address
from kwire.codec.message import Message
from kwire.testing.frames import INT32, decode_response, request_frame, request_header

TIMEOUT_S = 60.0
_RECEIVED_BYTES_MAX = 1 << 20


class BlockingClient:
    """One connection to HOST:PORT. ``timeout_s`` bounds each wait for the broker (TimeoutError). ``properties``:
    Kafka's client properties for a secured listener (``security.protocol``, ``ssl.*``, ``sasl.*``).

    OSError when no broker listens there or TLS fails, PermissionError when the login fails, ConnectionResetError when
    the broker closes the connection instead of sending the response. ConfigError for wrong properties.
    """

    def __init__(
        self,
        bootstrap_server: str,
        client_id: str = "kwire-testing",
        timeout_s: float = TIMEOUT_S,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.client_id = client_id
        self._correlation_id = 0
        address = parse_address(bootstrap_server)
        self.socket = socket.create_connection(address, timeout_s)
        if properties:
            try:
                self._secure(address.host, properties)
            except BaseException:
                self.socket.close()
                raise

    def _secure(self, host: str, properties: Mapping[str, str]) -> None:
        """TLS and a login, as the properties say."""
        from kwire.base.doors import Doors
        from kwire.security.client import client_exchange, client_security, login_requests
        from kwire.security.errors import AuthenticationError

        doors, security = Doors(), client_security(properties)
        if security.tls is not None:
            from kwire.security.tls.contexts import client_context

            self.socket = client_context(security.tls, doors.files).wrap_socket(self.socket, server_hostname=host)
        if not security.mechanism:
            return
        steps = login_requests(security.mechanism, client_exchange(security, doors, host))
        try:
            request, version = next(steps)
            while True:
                request, version = steps.send(self.call(request, version))
        except StopIteration:
            return
        except AuthenticationError as error:
            raise PermissionError(f"login failed: {error}") from None

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
