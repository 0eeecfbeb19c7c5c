"""A client that encrypts any record after a real handshake: renegotiations, key updates, alerts, empty records.

Python's `ssl` sends nothing but data. This takes the client's keys from the key log of a finished handshake (RFC 8446,
section 7; RFC 5246, section 6.3). For AES-256-GCM with SHA-384 only.
"""

from __future__ import annotations

import hmac
import struct
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_HASH: Final = "sha384"
_KEY_BYTES: Final = 32
_VERSION: Final = b"\x03\x03"
APPLICATION_DATA: Final = 23


def secrets(key_log: str) -> dict[str, bytes]:
    """The secrets in the lines of one handshake, by label."""
    return {line.split()[0]: bytes.fromhex(line.split()[2]) for line in key_log.splitlines() if line[:1] != "#"}


class Encryptor13:
    """Records of TLS 1.3, from the client's first traffic secret."""

    def __init__(self, found: dict[str, bytes]) -> None:
        secret = found["CLIENT_TRAFFIC_SECRET_0"]
        self._cipher = AESGCM(_expand_label(secret, b"key", _KEY_BYTES))
        self._iv = int.from_bytes(_expand_label(secret, b"iv", 12), "big")
        self._number = 0

    def record(self, kind: int, content: bytes, padding: int = 0) -> bytes:
        """A record of a content type."""
        inner = content + bytes((kind,)) + bytes(padding)
        return self.raw(inner)

    def raw(self, inner: bytes) -> bytes:
        """A record with this inner plaintext, which should end with its content type."""
        header = bytes((APPLICATION_DATA,)) + _VERSION + struct.pack(">H", len(inner) + 16)
        nonce = (self._iv ^ self._number).to_bytes(12, "big")
        self._number += 1
        return header + self._cipher.encrypt(nonce, inner, header)


class Encryptor12:
    """Records of TLS 1.2, after the client's Finished (number 0)."""

    def __init__(self, found: dict[str, bytes], client_random: bytes, server_random: bytes) -> None:
        block = _prf(found["CLIENT_RANDOM"], b"key expansion" + server_random + client_random, 72)
        self._cipher = AESGCM(block[:_KEY_BYTES])
        self._salt = block[64:68]
        self._number = 1

    def record(self, kind: int, content: bytes, padding: int = 0) -> bytes:
        """A record of a content type; there is no padding in TLS 1.2."""
        del padding
        explicit = struct.pack(">Q", self._number)
        header = explicit + bytes((kind,)) + _VERSION + struct.pack(">H", len(content))
        self._number += 1
        sealed = explicit + self._cipher.encrypt(self._salt + explicit, content, header)
        return bytes((kind,)) + _VERSION + struct.pack(">H", len(sealed)) + sealed


def _expand_label(secret: bytes, label: bytes, size: int) -> bytes:
    label = b"tls13 " + label
    info = struct.pack(">HB", size, len(label)) + label + b"\0"
    return hmac.digest(secret, info + b"\x01", _HASH)[:size]


def _prf(secret: bytes, seed: bytes, size: int) -> bytes:
    found, step = b"", seed
    while len(found) < size:
        step = hmac.digest(secret, step, _HASH)
        found += hmac.digest(secret, step + seed, _HASH)
    return found[:size]
