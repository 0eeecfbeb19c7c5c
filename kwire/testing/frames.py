"""Request frames encoded and response frames decoded: what the test clients share, blocking and asynchronous.

What lives elsewhere: messages (`kwire.codec.protocol`), the client that brokers use
(`kwire.net.client`).
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from kwire.codec.message import Message
from kwire.codec.messages.request_header import RequestHeader
from kwire.codec.protocol import decode, encode, request_header_version, response_class, response_header_version

INT32: Final = Struct(">i")
"""The size before a frame, and the correlation id that a response begins with."""


class FrameError(ConnectionError):
    """A response that does not belong to the request, or with bytes after its end."""


def request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request header, in the header version that the API's version uses."""
    header = RequestHeader(
        request_api_key=api_key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    return bytes(encode(header, request_header_version(api_key, version)))


def request_frame(request: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request with its size before it."""
    frame = request_header(request.API_KEY, version, correlation_id, client_id) + bytes(encode(request, version))
    return INT32.pack(len(frame)) + frame


def decode_response(frame: bytes, api_key: int, version: int, correlation_id: int) -> Any:
    """The response in a frame. `FrameError` if it answers another request, CodecError if it is malformed."""
    (received,) = INT32.unpack_from(frame)
    if received != correlation_id:
        raise FrameError(f"response {received} instead of {correlation_id}")
    start = 5 if response_header_version(api_key, version) else 4
    response, end = decode(response_class(api_key), version, memoryview(frame), start)
    if end != len(frame):
        raise FrameError(f"{len(frame) - end} bytes after the response")
    return response
