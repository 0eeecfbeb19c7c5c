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
_BEGIN: Final = bytes((_HANDSHAKE, _VERSION_MAJOR))


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

    def add(self, data: memoryview) -> bool:
        """Add received bytes, and check the beginning of the next record. Returns whether a whole record is here.
        `InvalidHandshake`."""
        self._bytes += data
        self.received += len(data)
        return self._check_header()

    def check(self) -> None:
        """Check what has been received: the handshake was not complete with the records taken. `InvalidHandshake`."""
        if self.received - len(self._bytes) > HANDSHAKE_MAX:
            raise InvalidHandshake(f"a handshake of more than {HANDSHAKE_MAX} bytes")
        self._check_header()

    def _check_header(self) -> bool:
        """Check the header of the next record, as far as it is here. Returns whether the record is whole.
        `InvalidHandshake`."""
        data = self._bytes
        size = len(data)
        if size < HEADER:
            if not self._begun and data and not _BEGIN.startswith(data[: len(_BEGIN)]):
                raise InvalidHandshake("the client does not speak TLS", is_tls=False)
            return False
        length = data[3] << 8 | data[4]
        if not self._begun:
            self._check_hello(data, length)
        elif data[0] not in _CONTENT_TYPES or data[1] != _VERSION_MAJOR:
            raise InvalidHandshake("a record with an invalid header")
        elif length > self._max:
            raise InvalidHandshake(f"a record of {length} bytes before the end of the handshake")
        return size >= HEADER + length

    def _check_hello(self, data: bytes, length: int) -> None:
        if data[:2] != _BEGIN:
            raise InvalidHandshake("the client does not speak TLS", is_tls=False)
        if length < 4:
            raise InvalidHandshake("the first record is too short for a ClientHello")
        if len(data) < 9:
            return
        if data[HEADER] != _CLIENT_HELLO:
            raise InvalidHandshake("the first message is no ClientHello")
        size = data[6] << 16 | data[7] << 8 | data[8]
        if size > CLIENT_HELLO_MAX or length > CLIENT_HELLO_MAX:
            raise InvalidHandshake(f"a ClientHello of {size} bytes")

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
