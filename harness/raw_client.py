"""A client that speaks raw Kafka protocol through the doors: for tests, scripts and the simulation.

No metadata, no retries, no threads: a request in, its response out. Requests may be pipelined; the broker answers in
order, and this client holds it to that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import Any

from kwire.base.doors import Doors
from kwire.codec.message import Message
from kwire.codec.messages.request_header import RequestHeader
from kwire.codec.protocol import decode, encode, request_header_version, response_class, response_header_version

_SIZE = Struct(">i")


class ConnectionClosed(Exception):
    """The broker closed the connection before it answered."""


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
        future: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((request.API_KEY, version, self._correlation_id + 1, future))
        self.send_only(request, version)
        return future

    def send_only(self, request: Message, version: int) -> None:
        """Send a request that is not answered (Produce with acks=0)."""
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=request.API_KEY,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        body = encode(header, request_header_version(request.API_KEY, version)) + encode(request, version)
        self.send_bytes(_SIZE.pack(len(body)) + body)

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
        while len(self._input) >= 4:
            end = 4 + _SIZE.unpack_from(self._input)[0]
            if len(self._input) < end:
                return
            frame = bytes(self._input[4:end])
            del self._input[:end]
            self._answered(frame)

    def _answered(self, frame: bytes) -> None:
        key, version, correlation_id, future = self._waiting.popleft()
        answered = _SIZE.unpack_from(frame)[0]
        if answered != correlation_id:
            future.set_exception(AssertionError(f"answer to request {answered}, expected one to {correlation_id}"))
            return
        if future.done():  # nobody waits any more
            return
        position = 5 if response_header_version(key, version) else 4
        try:
            future.set_result(decode(response_class(key), version, frame, position)[0])
        except Exception as error:
            future.set_exception(error)

    def close(self) -> None:
        """Close the connection; whoever waits gets ConnectionClosed."""
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
