"""Reading PKCS12 files (RFC 7292): private keys, certificates, and which of them are trusted.

Java writes them by default, also into files named ``.jks``. The package cryptography reads them, but does not return a
second key, nor the attribute by which Java marks trusted certificates; so this module parses the file, and cryptography
decrypts. Supported encryptions: PBES2 with AES or triple DES, and PKCS12's own with triple DES or RC2, which Java 8
wrote. Malformed files raise `StoreProblem` only.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from typing import Final, NamedTuple

from kwire.security.der import CONTEXT_0, SEQUENCE, SET, DerError, Element, elements, read_whole
from kwire.security.tls.rc2 import BLOCK_BYTES, decrypt_cbc
from kwire.security.tls.settings import StoreProblem

_DATA: Final = "1.2.840.113549.1.7.1"
_ENCRYPTED_DATA: Final = "1.2.840.113549.1.7.6"
_KEY_BAG: Final = "1.2.840.113549.1.12.10.1.1"
_SHROUDED_KEY_BAG: Final = "1.2.840.113549.1.12.10.1.2"
_CERTIFICATE_BAG: Final = "1.2.840.113549.1.12.10.1.3"
_SAFE_CONTENTS_BAG: Final = "1.2.840.113549.1.12.10.1.6"
_X509: Final = "1.2.840.113549.1.9.22.1"
_TRUSTED_KEY_USAGE: Final = "2.16.840.1.113894.746875.1.1"
_LOCAL_KEY_ID: Final = "1.2.840.113549.1.9.21"
_PBES2: Final = "1.2.840.113549.1.5.13"
_PBKDF2: Final = "1.2.840.113549.1.5.12"
_DIGESTS: Final = {
    "1.3.14.3.2.26": "sha1",
    "2.16.840.1.101.3.4.2.4": "sha224",
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}
_PSEUDO_RANDOM: Final = {
    "1.2.840.113549.2.7": "sha1",
    "1.2.840.113549.2.8": "sha224",
    "1.2.840.113549.2.9": "sha256",
    "1.2.840.113549.2.10": "sha384",
    "1.2.840.113549.2.11": "sha512",
}
_PBES2_CIPHERS: Final = {
    "2.16.840.1.101.3.4.1.2": ("AES", 16),
    "2.16.840.1.101.3.4.1.22": ("AES", 24),
    "2.16.840.1.101.3.4.1.42": ("AES", 32),
    "1.2.840.113549.3.7": ("TripleDES", 24),
}
_PKCS12_CIPHERS: Final = {
    "1.2.840.113549.1.12.1.3": ("TripleDES", 24),
    "1.2.840.113549.1.12.1.4": ("TripleDES", 16),
    "1.2.840.113549.1.12.1.5": ("RC2", 16),
    "1.2.840.113549.1.12.1.6": ("RC2", 5),
}
_ITERATIONS_MAX: Final = 5_000_000
"""Java's limit. A file with more iterations would delay the start for minutes."""
_FOR_KEYS, _FOR_VECTORS, _FOR_MACS = 1, 2, 3
_BAGS_DEPTH_MAX: Final = 8


class Pkcs12Store(NamedTuple):
    """What a file holds, as DER. Keys are PKCS8: encrypted ones are of ``encrypted_keys``."""

    plain_keys: list[bytes]
    encrypted_keys: list[bytes]
    certificates: list[bytes]
    trusted: list[bytes]
    """Those of the certificates that are marked as trusted."""
    own: list[bytes]
    """Those that belong to a private key."""

    def __repr__(self) -> str:
        return f"Pkcs12Store({len(self.certificates)} certificates)"


def read_pkcs12(data: bytes, password: str | None) -> Pkcs12Store:
    """Read a file. Without a password it is not verified, and only its keys may be encrypted."""
    store = Pkcs12Store([], [], [], [], [])
    try:
        parts = read_whole(data).parts(SEQUENCE)
        safes = _content(parts[1], _DATA).octets()
        if password is not None and len(parts) > 2:
            _verify(safes, parts[2], password)
        for safe in elements(read_whole(safes).expect(SEQUENCE).content):
            _collect(_safe_contents(safe, password), store)
    except StoreProblem:
        raise
    except (ValueError, IndexError):
        raise StoreProblem("the file is damaged") from None
    return store


def _content(info: Element, kind: str) -> Element:
    """The content of a ContentInfo."""
    identifier, content = info.parts(SEQUENCE)
    if identifier.identifier() != kind:
        raise StoreProblem("the file is signed with a key, which is not supported")
    return content.only(CONTEXT_0)


def _safe_contents(safe: Element, password: str | None) -> Element:
    if safe.parts(SEQUENCE)[0].identifier() == _DATA:
        return read_whole(_content(safe, _DATA).octets())
    if password is None:
        raise StoreProblem("it is encrypted, but no password is given")
    encrypted = _content(safe, _ENCRYPTED_DATA).parts(SEQUENCE)[1].parts(SEQUENCE)
    return read_whole(_decrypt(encrypted[1], encrypted[2].octets(), password))


def _collect(contents: Element, store: Pkcs12Store, depth: int = 0) -> None:
    """Put what bags hold into the store."""
    if depth > _BAGS_DEPTH_MAX:
        raise DerError("bags within too many bags")
    for bag in contents.parts(SEQUENCE):
        parts = bag.parts(SEQUENCE)
        kind, value = parts[0].identifier(), parts[1].only(CONTEXT_0)
        if kind == _KEY_BAG:
            store.plain_keys.append(value.encoded)
        elif kind == _SHROUDED_KEY_BAG:
            store.encrypted_keys.append(value.encoded)
        elif kind == _CERTIFICATE_BAG:
            certificate_kind, content = value.parts(SEQUENCE)
            if certificate_kind.identifier() == _X509:
                certificate = content.only(CONTEXT_0).octets()
                store.certificates.append(certificate)
                attributes = set(_attributes(parts))
                if _TRUSTED_KEY_USAGE in attributes:
                    store.trusted.append(certificate)
                if _LOCAL_KEY_ID in attributes:
                    store.own.append(certificate)
        elif kind == _SAFE_CONTENTS_BAG:
            _collect(value, store, depth + 1)


def _attributes(bag: list[Element]) -> Iterator[str]:
    for attribute in bag[2].parts(SET) if len(bag) > 2 else ():
        yield attribute.parts(SEQUENCE)[0].identifier()


def _verify(safes: bytes, mac: Element, password: str) -> None:
    """Check the keyed digest of a file."""
    parts = mac.parts(SEQUENCE)
    algorithm, expected = parts[0].parts(SEQUENCE)
    identifier = algorithm.parts(SEQUENCE)[0].identifier()
    digest = _DIGESTS.get(identifier)
    if digest is None:
        raise StoreProblem(f"its integrity is protected by the algorithm {identifier}, which is not supported")
    iterations = _checked(parts[2].integer() if len(parts) > 2 else 1)
    size = hashlib.new(digest).digest_size
    key = derive_key(digest, _utf16(password), parts[1].octets(), iterations, _FOR_MACS, size)
    if not hmac.compare_digest(hmac.digest(key, safes, digest), expected.octets()):
        raise StoreProblem("the password is wrong, or the file is damaged")


def _decrypt(algorithm: Element, data: bytes, password: str) -> bytes:
    identifier, parameters = algorithm.parts(SEQUENCE)
    kind = identifier.identifier()
    if kind == _PBES2:
        name, key, vector = _pbes2_key(parameters, password)
    elif kind in _PKCS12_CIPHERS:
        name, key, vector = _pkcs12_key(kind, parameters, password)
    else:
        raise StoreProblem(f"it is encrypted with the algorithm {kind}, which is not supported")
    try:
        return _unpadded(_decrypt_cbc(name, key, vector, data))
    except ValueError:
        raise StoreProblem("the password is wrong, or the file is damaged") from None


def _pbes2_key(parameters: Element, password: str) -> tuple[str, bytes, bytes]:
    """Cipher, key and vector."""
    derivation, encryption = (part.parts(SEQUENCE) for part in parameters.parts(SEQUENCE))
    cipher = encryption[0].identifier()
    if derivation[0].identifier() != _PBKDF2 or cipher not in _PBES2_CIPHERS:
        raise StoreProblem(f"it is encrypted with the algorithm {cipher}, which is not supported")
    salt, iterations, *rest = derivation[1].parts(SEQUENCE)
    named = [part.parts(SEQUENCE)[0].identifier() for part in rest if part.tag == SEQUENCE]
    digest = _PSEUDO_RANDOM.get(named[0]) if named else "sha1"
    if digest is None:
        raise StoreProblem(f"its key is derived with the algorithm {named[0]}, which is not supported")
    name, size = _PBES2_CIPHERS[cipher]
    key = hashlib.pbkdf2_hmac(digest, password.encode(), salt.octets(), _checked(iterations.integer()), size)
    return name, key, encryption[1].octets()


def _pkcs12_key(kind: str, parameters: Element, password: str) -> tuple[str, bytes, bytes]:
    """Cipher, key and vector."""
    salt, count = parameters.parts(SEQUENCE)
    iterations = _checked(count.integer())
    name, size = _PKCS12_CIPHERS[kind]
    secret = _utf16(password)
    key = derive_key("sha1", secret, salt.octets(), iterations, _FOR_KEYS, size)
    return name, key, derive_key("sha1", secret, salt.octets(), iterations, _FOR_VECTORS, BLOCK_BYTES)


def _decrypt_cbc(name: str, key: bytes, vector: bytes, data: bytes) -> bytes:
    """Decrypt with a cipher, key and vector; the padding is left."""
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher, modes
    from cryptography.hazmat.primitives.ciphers.algorithms import AES

    if name == "RC2":
        return decrypt_cbc(key, vector, data)
    algorithm = AES(key) if name == "AES" else TripleDES(key + key[: 24 - len(key)])
    decryptor = Cipher(algorithm, modes.CBC(vector)).decryptor()
    return decryptor.update(data) + decryptor.finalize()


def _unpadded(padded: bytes) -> bytes:
    """Data without its padding (PKCS7). ValueError if that is wrong."""
    size = padded[-1] if padded else 0
    if not 1 <= size <= len(padded) or padded[-size:] != bytes([size]) * size:
        raise ValueError("wrong padding")
    return padded[:-size]


def derive_key(digest: str, password: bytes, salt: bytes, iterations: int, purpose: int, size: int) -> bytes:
    """A key, vector or MAC key of PKCS12's own kind (RFC 7292, appendix B.2). ``password`` is UTF-16 and ends in 0."""
    block = hashlib.new(digest).block_size
    diversifier = bytes([purpose]) * block
    mixed = bytearray(_stretched(salt, block) + _stretched(password, block))
    found = b""
    while len(found) < size:
        piece = hashlib.new(digest, diversifier + mixed).digest()
        for _ in range(iterations - 1):
            piece = hashlib.new(digest, piece).digest()
        found += piece
        addend = int.from_bytes(_stretched(piece, block)[:block], "big") + 1
        for start in range(0, len(mixed), block):
            summed = int.from_bytes(mixed[start : start + block], "big") + addend
            mixed[start : start + block] = (summed % (1 << 8 * block)).to_bytes(block, "big")
    return found[:size]


def _stretched(data: bytes, block: int) -> bytes:
    """Data repeated to a multiple of a block."""
    size = -(-len(data) // block) * block
    return (data * (size // len(data) + 1))[:size] if data else b""


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be") + b"\0\0"


def _checked(iterations: int) -> int:
    if not 1 <= iterations <= _ITERATIONS_MAX:
        raise StoreProblem(f"its password is to be hashed {iterations} times; at most {_ITERATIONS_MAX} are allowed")
    return iterations
