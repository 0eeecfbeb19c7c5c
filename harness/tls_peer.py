"""The other side of a TLS connection whose bytes its user moves."""

from __future__ import annotations

import ssl


class Peer:
    """A TLS client without a socket."""

    def __init__(self, context: ssl.SSLContext, name: str = "localhost") -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self.ended = False  # by close_notify

    def handshake(self, received: bytes = b"") -> bytes:
        """Go on with what the server has sent; what is to be sent."""
        self._incoming.write(received)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self._outgoing.read()

    def is_established(self) -> bool:
        """Whether the client's part of the handshake is done."""
        return self._object.version() is not None

    def encrypt(self, data: bytes) -> bytes:
        """The records of some data."""
        written = 0
        while written < len(data):
            written += self._object.write(data[written:])
        return self._outgoing.read()

    def end(self) -> bytes:
        """A close_notify."""
        try:
            self._object.unwrap()
        except ssl.SSLWantReadError:
            pass
        return self._outgoing.read()

    def decrypt(self, received: bytes) -> bytes:
        """The data of what the server has sent."""
        self._incoming.write(received)
        data = bytearray()
        try:
            while piece := self._object.read(1 << 20):
                data += piece
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        return bytes(data)
