"""SCRAM credentials: what a server stores instead of a password (RFC 5802, RFC 7677).

The stored key and the server key do not allow a login, and reveal the password only to guessing; a credential must be
kept as secret as a password file. Kafka's limits of the iteration count are here as well. What lives elsewhere: the
exchange of a login (`kwire.security.sasl`), where credentials are kept (`kwire.cluster.metadata.credentials`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4096
"""Kafka's minimum of iterations for both mechanisms; also the default of its tools."""
ITERATIONS_MAX: Final = 16384

RandomBytes = Callable[[int], bytes]
"""Returns the given number of unpredictable random bytes."""

_TEXT_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(IntEnum):
    """A mechanism by its code in Kafka's requests (KIP-554)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The SASL name: ``SCRAM-SHA-256``."""
        return f"SCRAM-{self.hash_name}"

    @property
    def hash_name(self) -> str:
        """The hash function's name: ``SHA-256``."""
        return self.name.replace("_", "-")

    @property
    def algorithm(self) -> str:
        """The hash function's name for `hashlib`."""
        return self.name.replace("_", "").lower()

    def digest(self, data: bytes) -> bytes:
        """The hash, H() of RFC 5802."""
        return hashlib.new(self.algorithm, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """HMAC() of RFC 5802."""
        return hmac.digest(key, data, self.algorithm)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Hi() of RFC 5802 over the password's UTF-8. As in Kafka, it is not normalised (no SASLprep)."""
        return hashlib.pbkdf2_hmac(self.algorithm, password.encode(), salt, iterations)


MECHANISMS: Final = {each.mechanism_name: each for each in ScramMechanism}
"""Mechanisms by SASL name."""


class ScramCredential(NamedTuple):
    """A user's credential of one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def random_text(random_bytes: RandomBytes) -> str:
    """130 random bits as Kafka writes them, in nonces and in the salts that its tools make: 26 digits of base 36."""
    return printable(random_bytes(-(-_TEXT_BITS // 8)))


def printable(data: bytes) -> str:
    """The first 130 bits of ``data`` in base 36."""
    number = int.from_bytes(data, "big") >> (len(data) * 8 - _TEXT_BITS)
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def credential_of(mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a salted password, which a client has sent (KIP-554)."""
    stored_key = mechanism.digest(mechanism.hmac(salted_password, b"Client Key"))
    return ScramCredential(salt, stored_key, mechanism.hmac(salted_password, b"Server Key"), iterations)


def make_credential(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a password; computing it takes some milliseconds."""
    return credential_of(mechanism, mechanism.salted_password(password, salt, iterations), salt, iterations)
