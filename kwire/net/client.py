"""A connection to another broker: requests out, responses back, in order.

No retries, no timeouts, no choice of address: `kwire.cluster.replication.peers` has those. Frames are received into
buffers of their own, so that the records in a response are not copied again.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kwire.base.doors import WOULD_BLOCK
from kwire.codec.message import Message
from kwire.codec.messages.request_header import RequestHeader
from kwire.codec.protocol import (
    decode,
    encode,
    encode_parts,
    request_header_version,
    response_class,
    response_header_version,
)

if TYPE_CHECKING:
    from ssl import SSLContext

    from kwire.base.doors import Doors
    from kwire.net.tls import TlsSocket

FRAME_BYTES_MAX: Final = 128 * 1024 * 1024
_SIZE: Final = Struct(">i")
_HEAD: Final = 4


class ConnectionLost(Exception):
    """The connection closed before the response came; the broker may or may not have handled the request."""


class ClientConnection:
    """One connection to a broker. All methods belong to the event loop. With TLS, ``sock`` is ``tls``, whose handshake
    is complete."""

    def __init__(self, sock: Any, client_id: str, tls: TlsSocket | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._tls = tls
        self._fd: int = sock.fileno()
        self._client_id = client_id
        self._output: deque[memoryview] = deque()
        self._writing = False
        self._waiting: deque[tuple[int, int, int, asyncio.Future[Any]]] = deque()
        self._correlation_id = 0
        self._head = bytearray(_HEAD)
        self._frame: bytearray | None = None
        self._filled = 0
        self._read_scheduled = False
        self.closed = False
        self.renewed_at_s = math.inf
        """When the login should be renewed, by the loop's clock: then another connection takes over (KIP-368)."""
        self._loop.add_reader(self._fd, self._readable)

    @classmethod
    async def connect(
        cls, doors: Doors, host: str, port: int, client_id: str, tls: SSLContext | None = None
    ) -> ClientConnection:
        """Connect to a broker, over TLS if there is a context for it. OSError if none listens there, if the broker is
        not the one it should be (`kwire.net.tls.TlsError`), or if the handshake takes too long."""
        sock = await doors.sockets.connect(host, port)
        if tls is None:
            return cls(sock, client_id)
        from kwire.net.tls import connect_tls

        secured = await connect_tls(sock, tls, host)
        return cls(secured, client_id, secured)

    @property
    def is_due(self) -> bool:
        """Whether another connection should take over, because the login of this one ends soon."""
        return self._loop.time() >= self.renewed_at_s

    def call(self, request: Message, version: int) -> asyncio.Future[Any]:
        """Send a request; the future of its response, which fails with `ConnectionLost`."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.closed:
            future.set_exception(ConnectionLost())
            return future
        correlation_id = self._queue(request, version)
        self._waiting.append((request.API_KEY, version, correlation_id, future))
        if not self._writing:
            self._writable()
        return future

    def send(self, request: Message, version: int) -> None:
        """Send a request that has no response: Produce with acks=0. If the connection is lost, so is the request."""
        if not self.closed:
            self._queue(request, version)
            if not self._writing:
                self._writable()

    def _queue(self, request: Message, version: int) -> int:
        """Append a request to the output; its correlation id."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        key = request.API_KEY
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id=self._client_id,
        )
        parts: list[Any] = [encode(header, request_header_version(key, version)), *encode_parts(request, version)]
        self._output.append(memoryview(_SIZE.pack(sum(map(len, parts)))))
        self._output.extend(memoryview(part) for part in parts if len(part))
        return self._correlation_id

    def _writable(self) -> None:
        output = self._output
        try:
            while output:
                sent = self._socket.sendmsg(list(output)[:64])
                while sent:
                    if sent < len(output[0]):
                        output[0] = output[0][sent:]
                        break
                    sent -= len(output.popleft())
            all_sent = self._tls is None or self._tls.push()
        except WOULD_BLOCK:
            all_sent = False
        except OSError:
            self.close()
            return
        if not all_sent:
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._fd, self._writable)
        elif self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)

    def _readable(self) -> None:
        try:
            if self._frame is None:
                received = self._socket.recv_into(memoryview(self._head)[self._filled :])
                wanted = _HEAD
            else:
                received = self._socket.recv_into(memoryview(self._frame)[self._filled :])
                wanted = len(self._frame)
        except WOULD_BLOCK:
            return
        except OSError:
            received = wanted = 0
        if not received:
            self.close()
            return
        self._filled += received
        if self._filled == wanted:
            self._complete()
        if self._tls is not None and self._tls.pending and not self._read_scheduled:
            self._read_scheduled = True  # what OpenSSL holds wakes no reader
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._read_scheduled = False
        if not self.closed:
            self._readable()

    def _complete(self) -> None:
        self._filled = 0
        frame = self._frame
        if frame is not None:
            self._frame = None
            self._answered(frame)
            return
        size = _SIZE.unpack(self._head)[0]
        if not _HEAD <= size <= FRAME_BYTES_MAX:
            self.close()
            return
        self._frame = bytearray(size)
        self._readable()

    def _answered(self, frame: bytearray) -> None:
        if not self._waiting or _SIZE.unpack_from(frame)[0] != self._waiting[0][2]:
            self.close()
            return
        key, version, _, future = self._waiting.popleft()
        if future.done():  # the call was cancelled
            return
        try:
            future.set_result(
                decode(response_class(key), version, frame, 5 if response_header_version(key, version) else 4)[0]
            )
        except Exception as error:
            future.set_exception(error)

    def close(self) -> None:
        """Close the connection; pending calls fail with `ConnectionLost`."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._fd)
        if self._writing:
            self._loop.remove_writer(self._fd)
        self._output.clear()
        self._socket.close()
        while self._waiting:
            *_, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(ConnectionLost())
