"""One request, one response, one blocking connection: what a fixture asks a broker, kwire or any other Kafka."""

from __future__ import annotations

import socket
from struct import Struct
from typing import Any

from kwire.codec.message import Message
from kwire.codec.messages.request_header import RequestHeader
from kwire.codec.protocol import decode, encode, request_header_version, response_class, response_header_version

_SIZE = Struct(">i")
TIMEOUT_S = 15.0


def call(bootstrap_server: str, request: Message, version: int, timeout_s: float = TIMEOUT_S) -> Any:
    """Connect to HOST:PORT, ask, return the response. OSError when nobody answers (TimeoutError: not in time)."""
    host, _, port = bootstrap_server.rpartition(":")
    key = request.API_KEY
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=1, client_id="kwire-testing"
    )
    body = encode(header, request_header_version(key, version)) + encode(request, version)
    with socket.create_connection((host.strip("[]"), int(port)), timeout_s) as connection:
        connection.sendall(_SIZE.pack(len(body)) + body)
        frame = _read(connection, _SIZE.unpack(_read(connection, _SIZE.size))[0])
    answer, _ = decode(response_class(key), version, frame, 5 if response_header_version(key, version) else 4)
    return answer


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = connection.recv(size - len(data))
        if not received:
            raise ConnectionResetError("the broker closed the connection without an answer")
        data += received
    return bytes(data)
