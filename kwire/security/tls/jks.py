"""Reading Java's own key stores (JKS), whose first bytes are FE ED FE ED.

A file has entries (a private key with its chain, or a trusted certificate) and ends with a SHA-1 digest of the password
and all bytes before it. Private keys are encrypted with a key stream of SHA-1 digests of the password, a proprietary
format of Sun. JCEKS stores are similar, but not supported. Malformed files raise `StoreProblem` only.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final, NamedTuple

from kwire.security.der import SEQUENCE, read_whole
from kwire.security.tls.settings import StoreProblem

MAGIC: Final = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_WHITENER: Final = b"Mighty Aphrodite"
_KEY_PROTECTION: Final = "1.3.6.1.4.1.42.2.17.1.1"
_DIGEST_BYTES: Final = 20
_KEY, _CERTIFICATE = 1, 2


class JksKey(NamedTuple):
    """A private key, still protected, and its chain: the certificate of the key first (DER)."""

    protected: bytes
    chain: list[bytes]

    def __repr__(self) -> str:
        return f"JksKey(chain={len(self.chain)} certificates)"


class JksStore(NamedTuple):
    """What a file holds."""

    keys: list[JksKey]
    trusted: list[bytes]


def read_jks(data: bytes, password: str | None) -> JksStore:
    """Read a file. Without a password it is not verified, as in Java."""
    reader = _Reader(data)
    try:
        store = reader.store()
    except (struct.error, IndexError):
        raise StoreProblem("the file is damaged") from None
    if password is not None:
        body, digest = data[: reader.offset], data[reader.offset : reader.offset + _DIGEST_BYTES]
        expected = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body).digest()
        if not hmac.compare_digest(digest, expected):
            raise StoreProblem("the password is wrong, or the file is damaged")
    return store


def unprotect(protected: bytes, password: str) -> bytes:
    """The private key (PKCS8, DER) of a protected one."""
    try:
        algorithm, encrypted = read_whole(protected).parts(SEQUENCE)
        if algorithm.parts(SEQUENCE)[0].identifier() != _KEY_PROTECTION:
            raise StoreProblem("its private key is protected in a way that only Java knows")
        data = encrypted.octets()
    except StoreProblem:
        raise
    except (ValueError, IndexError):
        raise StoreProblem("its private key is damaged") from None
    secret = password.encode("utf-16-be")
    stream, hidden, digest = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    plain = bytearray()
    for start in range(0, len(hidden), _DIGEST_BYTES):
        stream = hashlib.sha1(secret + stream).digest()
        plain += bytes(a ^ b for a, b in zip(hidden[start : start + _DIGEST_BYTES], stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), digest):
        raise StoreProblem("the password of its private key is wrong")
    return bytes(plain)


class _Reader:
    """Reads the file's numbers and strings one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.offset = len(MAGIC)

    def store(self) -> JksStore:
        version = self._number()
        if version not in (1, 2):
            raise StoreProblem(f"its format has the unknown version {version}")
        store = JksStore([], [])
        for _ in range(self._number()):
            kind = self._number()
            self._bytes(self._short())  # alias
            self.offset += 8  # time of creation
            if kind == _KEY:
                protected = self._bytes(self._number())
                store.keys.append(JksKey(protected, [self._certificate(version) for _ in range(self._number())]))
            elif kind == _CERTIFICATE:
                store.trusted.append(self._certificate(version))
            else:
                raise StoreProblem("the file is damaged")
        return store

    def _certificate(self, version: int) -> bytes:
        if version == 2:
            self._bytes(self._short())  # its type: X.509
        return self._bytes(self._number())

    def _number(self) -> int:
        (value,) = struct.unpack_from(">I", self._data, self.offset)
        self.offset += 4
        return int(value)

    def _short(self) -> int:
        (value,) = struct.unpack_from(">H", self._data, self.offset)
        self.offset += 2
        return int(value)

    def _bytes(self, size: int) -> bytes:
        end = self.offset + size
        if end > len(self._data):
            raise IndexError
        start, self.offset = self.offset, end
        return self._data[start:end]
