"""TLS between a connection and its socket: the record layer. Its only I/O is on the socket that it receives.

`TlsSocket` has the methods of a non-blocking socket that connections use. It consists of OpenSSL's record layer between
two memory buffers (`ssl.SSLObject`, `ssl.MemoryBIO`). Callers must consider these differences from a plain socket:

- **Pending plaintext.** Data that OpenSSL holds does not make the socket readable. While ``pending`` is true,
  `recv_into` returns more, and the caller reads again without waiting for the loop.
- **Unsent ciphertext.** `send` returns how many bytes of plaintext it accepted. Up to `UNSENT_LIMIT` bytes of their
  ciphertext may be unsent (``unsent``); they are sent by `push` or by the next `send`, and until then nothing more is
  accepted.
- Files are never sent by the system's `sendfile`, which would not encrypt them: `sendfile` here reads them.
- Failures are `TlsError`, an OSError whose text is one line. Callers never see OpenSSL's "want read" and "want write".

OpenSSL's memory buffers never shrink. They therefore get little data at a time (`FEED_BYTES`, `PIECE_BYTES`), so that
an idle connection uses little memory; their output is collected, because few large calls of the socket are cheaper.
Calls from Python are what can be saved: AES-256-GCM and OpenSSL's copies take the same time in any number of pieces.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kwire.base.doors import WOULD_BLOCK
from kwire.net.settings import RECEIVE_BYTES, SETUP_MAX_MS

RECORD_BYTES: Final = 16 * 1024
"""The plaintext of a full record."""

FEED_BYTES: Final = 88 * 1024
"""Received bytes that are given to OpenSSL at a time: five requests of 16 KiB, which clients have in flight by default,
are one piece. With the beginning of a record that an earlier piece has left, they are 106 KiB at most, for which
OpenSSL's buffer grows to 142 KiB."""

PIECE_BYTES: Final = 64 * 1024
"""Plaintext that is given to OpenSSL at a time, and ciphertext that is taken from it. Its buffer grows to 88 KiB."""

HEADER_BYTES: Final = 5
"""The header of a record; its last two bytes are the length of the rest (RFC 8446, 5.1)."""

ENCRYPTED_MAX: Final = HEADER_BYTES + RECORD_BYTES + 2048
"""The longest encrypted record, that of TLS 1.2 (RFC 5246, 6.2.3)."""

SEND_BYTES: Final = 128 * 1024
"""Ciphertext that is given to the socket at a time."""

TAKEN_MAX: Final = 512 * 1024
"""The most plaintext that one `send` accepts (about 0.25 ms): with more, other connections would wait too long."""

UNSENT_LIMIT: Final = 2 * SEND_BYTES
"""Unsent ciphertext at which a connection fails. `send` leaves at most `SEND_BYTES` and a piece unsent; the rest are
responses of OpenSSL itself (key updates) to a peer that does not read them."""

UNEXPECTED_MESSAGE: Final = 10
"""The alert for bytes that are not TLS (RFC 8446, 6.2)."""


class TlsError(OSError):
    """TLS with the peer has failed. ``reason``: the cause, in one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EPROTO, reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason

    @classmethod
    def of(cls, error: ssl.SSLError) -> TlsError:
        """An error with OpenSSL's reason: "certificate verify failed: self-signed certificate"."""
        reason = (error.reason or str(error)).lower().replace("_", " ")
        detail = getattr(error, "verify_message", None)
        return cls(f"{reason}: {detail}" if detail else reason)


class RecordBuffers:
    """Buffers that the connections of one loop share: for received ciphertext, and for pieces of files. They are empty
    between two calls."""

    __slots__ = ("file", "file_pieces", "received")

    def __init__(self) -> None:
        self.received = memoryview(bytearray(RECEIVE_BYTES))
        self.file = memoryview(bytearray(SEND_BYTES))
        self.file_pieces = tuple(_divided(self.file))  # saves 290 bytecodes for a MB


class TlsSocket:
    """A TLS socket. ``pending``: `recv_into` returns more at once. ``full``: the socket has not accepted all ciphertext
    (`push`). ``output``: what OpenSSL wants to send. ``failure``: the reason for which OpenSSL accepts no further call;
    None if there is none."""

    __slots__ = (
        "_chunks",
        "_ended",
        "_file",
        "_file_pieces",
        "_incoming",
        "_object",
        "_read",
        "_received",
        "_socket",
        "_socket_recv_into",
        "_socket_send",
        "_socket_sendmsg",
        "_write",
        "failure",
        "full",
        "output",
        "pending",
    )

    def __init__(
        self,
        sock: Any,
        context: ssl.SSLContext,
        buffers: RecordBuffers,
        *,
        server_side: bool,
        server_hostname: str | None = None,
    ) -> None:
        self._socket = sock
        self._socket_recv_into = sock.recv_into
        self._socket_send = sock.send
        self._socket_sendmsg = sock.sendmsg
        self._received = buffers.received
        self._file = buffers.file
        self._file_pieces = buffers.file_pieces
        self._incoming = ssl.MemoryBIO()
        self.output = ssl.MemoryBIO()
        # CPython's own object: saves a Python call for each record. Its methods are those that `SSLObject` calls.
        self._object = _ssl_object(context, self._incoming, self.output, server_side, server_hostname)
        self._read: Callable[[int, Any], int] = self._object.read
        self._write: Callable[[Any], int] = self._object.write
        self._chunks: list[bytes | memoryview] = []  # ciphertext that was taken from OpenSSL and is not sent
        self._ended = False  # the peer has sent close_notify
        self.failure: str | None = None
        self.full = False
        self.pending = False

    # -- facts about the peer -----------------------------------------------------------------------------------------

    @property
    def version(self) -> str | None:
        """The protocol in use: ``TLSv1.3``."""
        version: str | None = self._object.version()
        return version

    @property
    def cipher(self) -> str | None:
        """The cipher suite in use, by OpenSSL's name."""
        cipher = self._object.cipher()
        name: str | None = cipher[0] if cipher is not None else None
        return name

    def peer_certificate_der(self) -> bytes | None:
        """The certificate of the peer, verified; None if it has sent none."""
        certificate: bytes | None = self._object.getpeercert(True)
        return certificate

    # -- handshake ----------------------------------------------------------------------------------------------------

    def handshake(self) -> bool:
        """Continue the handshake with the bytes passed to `feed`. Returns whether it is complete. `TlsError`; OSError.
        Output, also an alert, is sent as far as the socket accepts it. If it is complete and further data has followed
        (``pending``), the last output, a ticket, is left to `recv_into`: a close_notify takes it along."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self.push()
            return False
        except ssl.SSLError as error:
            raise self._failure(error) from None
        self.pending = self._incoming.pending > 0
        if not self.pending:
            self.push()
        return True

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes from the peer, for `handshake`."""
        self._incoming.write(data)

    def begin_with(self, data: bytes) -> None:
        """Add the bytes that followed the complete handshake."""
        self._incoming.write(data)
        self.pending = self._incoming.pending > 0

    def receive(self) -> int:
        """Receive from the socket, for `handshake`. Returns the number of bytes, 0 at the end of the stream.
        BlockingIOError."""
        count: int = self._socket_recv_into(self._received)
        self._incoming.write(self._received[:count])
        return count

    def receive_raw(self) -> memoryview:
        """Receive from the socket without feeding OpenSSL. The bytes are in a shared buffer; empty at the end of the
        stream. BlockingIOError."""
        return self._received[: self._socket_recv_into(self._received)]

    def send_alert(self, description: int) -> None:
        """Send a fatal alert to a peer whose bytes are not passed to OpenSSL. A plaintext Kafka client reads the
        alert's first four bytes as the size of a frame, 352518912 bytes, which it also reports with Apache Kafka."""
        self.failure = "no TLS"
        self._socket_send(bytes((21, 3, 3, 0, 2, 2, description)))

    # -- in -----------------------------------------------------------------------------------------------------------

    def recv_into(self, buffer: memoryview) -> int:
        """Decrypt into a buffer. Returns the number of bytes, 0 at the end of the stream. BlockingIOError; OSError."""
        filled = self._decrypt(buffer) if self.pending else 0
        room = len(buffer)
        if filled < room and not self._ended:
            received = self._received
            if room - filled < len(received):
                received = received[: max(room - filled, RECORD_BYTES)]  # as much plaintext, at most
            try:
                count = self._socket_recv_into(received)
            except WOULD_BLOCK:
                pass
            else:
                if not count:
                    self._ended = True  # without close_notify: frames have lengths, nothing can be cut off unnoticed
                elif count <= FEED_BYTES:
                    fed = received[:count]
                    self._incoming.write(fed)
                    filled += self._decrypt(buffer[filled:] if filled else buffer, fed)
                else:
                    filled = self._decrypt_pieces(received[:count], buffer, filled)
        if self.output.pending and not self._ended and not self.push() and self.unsent > UNSENT_LIMIT:
            raise TlsError("the peer does not read")
        if not filled and not self._ended:
            raise BlockingIOError(errno.EAGAIN, "no whole record")
        return filled

    def _decrypt_pieces(self, received: memoryview, buffer: memoryview, filled: int) -> int:
        """Decrypt many received bytes into a partly filled buffer. Returns how many bytes of it are filled then."""
        room = len(buffer)
        for position in range(0, len(received), FEED_BYTES):
            fed = received[position : position + FEED_BYTES]
            self._incoming.write(fed)
            if filled < room and not self._ended:
                filled += self._decrypt(buffer[filled:], fed)
            else:
                self.pending = True
        return filled

    def _decrypt(self, buffer: memoryview, fed: memoryview | bytes = b"") -> int:
        """Decrypt received data until the buffer is full. Sets ``pending``. ``fed``: the bytes that OpenSSL was given
        last, if known. They show whether the next record is whole; to read one that is not costs an exception."""
        read, incoming = self._read, self._incoming
        room = len(buffer)
        self.pending = False
        filled = 0
        try:
            while True:
                count = read(room, buffer[filled:] if filled else buffer)
                if not count:
                    self._ended = self.pending = True
                    break
                filled += count
                if filled == room:
                    self.pending = incoming.pending > 0 or self._object.pending() > 0
                    break
                left = incoming.pending  # a read that does not fill the buffer has taken the whole record
                if left < ENCRYPTED_MAX and (not left or (left <= len(fed) and _is_begun_record(fed, left))):
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise self._failure(error) from None
        return filled

    # -- out ----------------------------------------------------------------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Encrypt and send. Returns how many bytes were accepted: not all of them if the socket is full or `TAKEN_MAX`
        is reached. BlockingIOError if earlier ciphertext is unsent; OSError."""
        size = len(data)
        if size > RECORD_BYTES:
            return self.sendmsg((data,))
        if self.full:
            self._require_all_sent()
        self._encrypt(data)
        self.push()
        return size

    def sendmsg(
        self, buffers: Sequence[bytes | bytearray | memoryview], _ancillary: object = (), flags: int = 0
    ) -> int:
        """`send` for several buffers; small ones share a record. With ``flags`` (MSG_MORE) the end may stay unsent
        and is sent together with the data that follows."""
        if self.full:
            self._require_all_sent()
        size = sum(map(len, buffers))
        if size <= RECORD_BYTES:
            self._encrypt(b"".join(buffers))
            if not flags:
                self.push()
            return size
        taken = 0
        for piece in _pieces(buffers):
            self._encrypt(piece)
            taken += len(piece)
            if self.output.pending >= PIECE_BYTES:
                self._chunks.append(self.output.read())
                if len(self._chunks) * PIECE_BYTES >= SEND_BYTES and (not self.push() or taken >= TAKEN_MAX):
                    return taken
        if not flags:
            self.push()
        return taken

    def sendfile(self, preadv: Callable[[int, Any, int], int], fd: int, position: int, size: int) -> int:
        """Encrypt and send a range of a file, read with ``preadv``. Returns how many bytes were accepted, as `send`
        does; 0 at the end of the file. BlockingIOError; OSError."""
        if self.full:
            self._require_all_sent()
        file, ciphertext, chunks = self._file, self.output.read, self._chunks
        size = min(size, TAKEN_MAX)
        taken = 0
        while taken < size:
            left = size - taken
            try:
                count = preadv(fd, (file[:left],), position + taken)
            except OSError:
                if taken:
                    break  # the next call meets it again
                raise
            if not count:
                break
            for piece in self._file_pieces if count == SEND_BYTES else _divided(file[:count]):
                self._encrypt(piece)
                chunks.append(ciphertext())
            taken += count
            if not self._push_chunks():
                break
        return taken

    def _require_all_sent(self) -> None:
        if not self.push():
            raise BlockingIOError(errno.EAGAIN, "ciphertext is unsent")

    def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt a piece. OpenSSL may accept only a part, if the peer has requested shorter records (RFC 8449)."""
        try:
            written = self._write(data)
            while written < len(data):
                written += self._write(memoryview(data)[written:])
        except ssl.SSLError as error:
            raise self._failure(error) from None

    @property
    def unsent(self) -> int:
        """Bytes of ciphertext that are unsent."""
        return (sum(map(len, self._chunks)) if self._chunks else 0) + self.output.pending

    def push(self) -> bool:
        """Send ciphertext. Returns whether all of it is sent: otherwise the socket is ``full``. OSError."""
        if not self._chunks and not self.full:  # the usual case
            data = self.output.read()
            if not data:
                return True
            try:
                sent = self._socket_send(data)
            except WOULD_BLOCK:
                sent = 0
            if sent < len(data):
                self._chunks.append(memoryview(data)[sent:])
                self.full = True
                return False
            return True
        return self._push_chunks()

    def _push_chunks(self) -> bool:
        """`push` if ciphertext was collected before."""
        chunks = self._chunks
        if self.output.pending:
            chunks.append(self.output.read())
        self.full = True
        try:
            sent = self._socket_sendmsg(chunks)
        except WOULD_BLOCK:
            return False
        if sent == sum(map(len, chunks)):
            chunks.clear()
            self.full = False
            return True
        while sent >= len(chunks[0]):
            sent -= len(chunks.pop(0))
        chunks[0] = memoryview(chunks[0])[sent:]
        return False

    # -- end ----------------------------------------------------------------------------------------------------------

    def _failure(self, error: ssl.SSLError) -> TlsError:
        """The error for a failure of OpenSSL, after its alert has been sent as far as possible."""
        failure = TlsError.of(error)
        self.failure = failure.reason
        self.pending = False
        try:
            self.push()
        except OSError:  # the peer is gone
            pass
        return failure

    def fileno(self) -> int:
        """The descriptor of the socket."""
        fd: int = self._socket.fileno()
        return fd

    def close(self) -> None:
        """Close the socket, after a close_notify if that is possible without waiting."""
        if self.failure is None and self._object.version() is not None:
            try:
                self._object.shutdown()
            except OSError:  # SSLWantReadError: the peer's own is not waited for
                pass
            try:
                self.push()
            except OSError:
                pass
        self._socket.close()


def _ssl_object(
    context: Any, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, server_side: bool, server_hostname: str | None
) -> Any:
    if server_side:
        return context._wrap_bio(incoming, outgoing, True)
    return context.wrap_bio(incoming, outgoing, server_hostname=server_hostname)._sslobj


def _pieces(buffers: Sequence[bytes | bytearray | memoryview]) -> Iterator[bytes | bytearray | memoryview]:
    """The bytes of the buffers, in pieces: neighbours that fit into a record are joined, and larger buffers are divided
    into `PIECE_BYTES`, which OpenSSL divides into records."""
    joined: list[bytes | bytearray | memoryview] = []
    size = 0
    for buffer in buffers:
        length = len(buffer)
        if size + length > RECORD_BYTES and joined:
            yield b"".join(joined)
            joined, size = [], 0
        if length <= RECORD_BYTES:
            joined.append(buffer)
            size += length
            continue
        yield from _divided(memoryview(buffer))
    if joined:
        yield joined[0] if len(joined) == 1 else b"".join(joined)


def _divided(data: memoryview) -> Iterator[memoryview]:
    """The data in pieces of `PIECE_BYTES`."""
    for position in range(0, len(data), PIECE_BYTES):
        yield data[position : position + PIECE_BYTES]


def _is_begun_record(data: memoryview | bytes, left: int) -> bool:
    """Whether the last ``left`` bytes, which begin with a record, are only a part of it. OpenSSL judges a length that
    is not allowed at once."""
    if left < HEADER_BYTES:
        return True
    return left < HEADER_BYTES + (data[-left + 3] << 8 | data[-left + 4]) <= ENCRYPTED_MAX


async def connect_tls(sock: Any, context: ssl.SSLContext, host: str) -> TlsSocket:
    """Make a TLS handshake with a server, whose certificate must be valid for ``host`` if the context checks host
    names. The socket is closed if the handshake fails: `TlsError`; TimeoutError; OSError."""
    tls = TlsSocket(sock, context, RecordBuffers(), server_side=False, server_hostname=host)
    try:
        async with asyncio.timeout(SETUP_MAX_MS / 1000):
            await _shake_hands(tls, asyncio.get_running_loop())
    except TimeoutError:
        tls.close()
        raise TimeoutError(errno.ETIMEDOUT, "the TLS handshake takes too long") from None
    except BaseException:
        tls.close()
        raise
    return tls


async def _shake_hands(tls: TlsSocket, loop: asyncio.AbstractEventLoop) -> None:
    """The whole handshake of a client."""
    while not tls.handshake():
        while not tls.push():
            await _ready(loop.add_writer, loop.remove_writer, loop, tls.fileno())
        await _ready(loop.add_reader, loop.remove_reader, loop, tls.fileno())
        try:
            if not tls.receive():
                raise TlsError("the server closed the connection during the TLS handshake")
        except WOULD_BLOCK:
            pass
    tls.push()


async def _ready(
    add: Callable[..., object], remove: Callable[[int], object], loop: asyncio.AbstractEventLoop, fd: int
) -> None:
    """Wait until the loop reports the descriptor as ready."""
    ready = loop.create_future()

    def report() -> None:
        if not ready.done():
            ready.set_result(None)

    add(fd, report)
    try:
        await ready
    finally:
        remove(fd)
