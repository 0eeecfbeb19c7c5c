"""An asynchronous client that sends single requests through the doors: for tests, campaigns and the simulation.

No metadata, no retries, no threads: a request in, its response out. Requests may be pipelined; a response that does
not come in the order of the requests is an error. What lives elsewhere: frames (`kwire.testing.frames`), the blocking
client (`harness.wire_client`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from kwire.base.doors import Doors
from kwire.codec.message import Message
from kwire.testing.frames import INT32, decode_response, request_frame


class ConnectionClosed(Exception):
    """The broker closed the connection before it responded."""


class RawClient:
    """One connection. Get it with `connect`; use it as an async context manager or `close` it."""

    def __init__(self, doors: Doors, sock: Any, client_id: str | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._doors = doors
        self._socket = sock
        self._client_id = client_id
        self._input = bytearray()
        self._output = bytearray()
        self._waiting: deque[tuple[int, int, int, asyncio.Future[Any]]] = deque()
        self._correlation_id = 0
        self._writing = False
        self.closed = False
        self._scratch = memoryview(bytearray(65536))
        self._loop.add_reader(sock.fileno(), self._readable)

    @classmethod
    async def connect(cls, doors: Doors, host: str, port: int, client_id: str | None = "raw") -> RawClient:
        """OSError when nobody listens there."""
        return cls(doors, await doors.sockets.connect(host, port), client_id)

    async def __aenter__(self) -> RawClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def call(self, request: Message, version: int) -> Any:
        """Send a request and wait for its response. ConnectionClosed when none comes."""
        return await self.post(request, version)

    def post(self, request: Message, version: int) -> asyncio.Future[Any]:
        """Send a request; the future of its response."""
        future = self._response(request.API_KEY, version, self._correlation_id + 1)
        self.send_only(request, version)
        return future

    def send_only(self, request: Message, version: int) -> None:
        """Send a request without a response (Produce with acks=0)."""
        self._correlation_id += 1
        self.send_bytes(request_frame(request, version, self._correlation_id, self._client_id))

    def post_frame(self, frame: bytes, key: int, version: int) -> asyncio.Future[Any]:
        """Send a request that the caller has encoded, without its size; the future of its response, which is that of an
        API and a version."""
        future = self._response(key, version, INT32.unpack_from(frame, 4)[0])
        self.send_bytes(INT32.pack(len(frame)) + frame)
        return future

    def _response(self, key: int, version: int, correlation_id: int) -> asyncio.Future[Any]:
        """The future of the next response that is to come."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((key, version, correlation_id, future))
        return future

    def send_bytes(self, data: bytes) -> None:
        """Send anything at all."""
        if self.closed:
            raise ConnectionClosed
        self._output += data
        self._writable()

    def _writable(self) -> None:
        try:
            while self._output:
                sent = self._socket.send(self._output)
                del self._output[:sent]
        except (BlockingIOError, InterruptedError):
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._socket.fileno(), self._writable)
            return
        except OSError:
            self.close()
            return
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        try:
            received = self._socket.recv_into(self._scratch)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            received = 0
        if not received:
            self.close()
            return
        self._input += self._scratch[:received]
        while len(self._input) >= 4 and not self.closed:
            end = 4 + INT32.unpack_from(self._input)[0]
            if len(self._input) < end:
                return
            frame = bytes(self._input[4:end])
            del self._input[:end]
            self._answered(frame)

    def _answered(self, frame: bytes) -> None:
        key, version, correlation_id, future = self._waiting.popleft()
        if future.done():  # the caller has given up
            return
        try:
            future.set_result(decode_response(frame, key, version, correlation_id))
        except Exception as error:
            future.set_exception(error)
            self.close()  # what comes now may be the response to another request

    def close(self) -> None:
        """Close the connection; requests without a response fail with ConnectionClosed."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._socket.fileno())
        if self._writing:
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        for *_, future in self._waiting:
            if not future.done():
                future.set_exception(ConnectionClosed())
        self._waiting.clear()
