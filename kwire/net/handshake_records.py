"""The records received during a server's TLS handshake, checked before they are passed to OpenSSL.

An unfinished handshake should cost little memory, at most 64 KiB, because there may be 10,000 of them at a time.
OpenSSL allocates as much memory as a record or a message announces. It therefore gets whole records only, a ClientHello
may not be larger than OpenSSL's own first buffer, and the records of clients that send no certificate must be short.
Bytes that are not TLS are recognised by the first of them.
"""

from __future__ import annotations

from typing import Final

HEADER: Final = 5
CLIENT_HELLO_MAX: Final = 16 * 1024
"""Usual ones have 200 to 2,000 bytes."""

SHORT_RECORD_MAX: Final = 4 * 1024
"""Finished, and a key exchange before TLS 1.3: below 1 KiB."""

HANDSHAKE_MAX: Final = 48 * 1024
"""All records of a client's handshake. OpenSSL would accept 100 KiB of certificates, Java accepts 32 KiB."""

RECORD_MAX: Final = 16 * 1024 + 256
"""The longest record that there is (RFC 8446, 5.2); TLS 1.2 allows longer ones that do not occur."""

_CONTENT_TYPES: Final = frozenset((20, 21, 22, 23))
_HANDSHAKE, _CLIENT_HELLO, _VERSION_MAJOR = 22, 1, 3


class InvalidHandshake(Exception):
    """The bytes begin no TLS handshake, or records of it are too long. ``is_tls`` is False for another protocol."""

    def __init__(self, reason: str, is_tls: bool = True) -> None:
        super().__init__(reason)
        self.is_tls = is_tls


class HandshakeRecords:
    """The records of one handshake. ``long_records``: whether the client may send certificates. ``received``: the bytes
    that were added."""

    __slots__ = ("_begun", "_bytes", "_max", "received")

    def __init__(self, long_records: bool) -> None:
        self._bytes = b""
        self._begun = False
        self.received = 0
        self._max = RECORD_MAX if long_records else SHORT_RECORD_MAX

    def add(self, data: memoryview) -> None:
        """Add received bytes, and check the beginning of the next record. `InvalidHandshake`."""
        self._bytes += data
        self.received += len(data)
        self._check_header()

    def check(self) -> None:
        """Check what has been received: the handshake was not complete with the records taken. `InvalidHandshake`."""
        if self.received - len(self._bytes) > HANDSHAKE_MAX:
            raise InvalidHandshake(f"a handshake of more than {HANDSHAKE_MAX} bytes")
        self._check_header()

    def _check_header(self) -> None:
        """Check the header of the next record, as far as it is here. `InvalidHandshake`."""
        if not self._begun:
            self._check_hello()
        elif len(self._bytes) >= HEADER:
            kind, major = self._bytes[:2]
            if kind not in _CONTENT_TYPES or major != _VERSION_MAJOR:
                raise InvalidHandshake("a record with an invalid header")
            if self._length() > self._max:
                raise InvalidHandshake(f"a record of {self._length()} bytes before the end of the handshake")

    def _check_hello(self) -> None:
        begin = self._bytes[:9]
        if begin[:1] not in (b"", b"\x16") or begin[1:2] not in (b"", b"\x03"):
            raise InvalidHandshake("the client does not speak TLS", is_tls=False)
        if len(begin) < 9:
            if len(begin) >= HEADER and self._length() < 4:
                raise InvalidHandshake("the first record is too short for a ClientHello")
            return
        if begin[HEADER] != _CLIENT_HELLO:
            raise InvalidHandshake("the first message is no ClientHello")
        size = int.from_bytes(begin[6:9], "big")
        if max(size, self._length()) > CLIENT_HELLO_MAX:
            raise InvalidHandshake(f"a ClientHello of {size} bytes")

    def _length(self) -> int:
        return self._bytes[3] << 8 | self._bytes[4]

    def has_whole(self) -> bool:
        """Whether a whole record is here."""
        return len(self._bytes) >= HEADER and len(self._bytes) >= HEADER + self._length()

    def take_whole(self) -> bytes:
        """The whole records at the beginning; they are removed."""
        data = self._bytes
        end, size = 0, len(data)
        while size - end >= HEADER:
            following = end + HEADER + (data[end + 3] << 8 | data[end + 4])
            if following > size:
                break
            end = following
        self._begun = self._begun or end > 0
        self._bytes = data[end:]
        return data[:end]

    def take_rest(self) -> bytes:
        """What follows the handshake."""
        rest, self._bytes = self._bytes, b""
        return rest
