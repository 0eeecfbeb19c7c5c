"""Key stores and trust stores as Kafka's properties name them: PEM texts, PEM files, PKCS12 and JKS files.

As in Java, the first bytes of a file decide whether it is PKCS12 or JKS, because Java's ``.jks`` files are often
PKCS12: the types JKS and PKCS12 mean the same. PEM files require the type PEM. Combinations of properties that Kafka
refuses are refused. A store must have exactly one private key; Java uses any of several. Errors are `TlsError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.security.tls.jks import JCEKS_MAGIC, MAGIC, read_jks, unprotect
from kwire.security.tls.pem import pem_entries, pem_text
from kwire.security.tls.pkcs12 import read_pkcs12
from kwire.security.tls.settings import StoreFiles, StoreProblem, TlsError, TlsSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

STORE_MAX_BYTES: Final = 4 * 1024 * 1024
"""Java's own trust store has 0.2 MB."""

_PEM: Final = "PEM"
_BINARY_TYPES: Final = ("JKS", "PKCS12")
_DER_SEQUENCE: Final = 0x30
_CERTIFICATE: Final = "CERTIFICATE"
_PRIVATE_KEY: Final = "PRIVATE KEY"


class KeyMaterial(NamedTuple):
    """A private key (not encrypted) and its certificates: the key's own first, then its issuers. PEM texts."""

    private_key_pem: str
    chain_pem: str

    def __repr__(self) -> str:
        return "KeyMaterial(...)"


class TrustAnchors(NamedTuple):
    """Certificates that are trusted without a further signature."""

    pem: str


class Stores:
    """Both stores of some settings. Each is read when it is first needed, and once only."""

    def __init__(self, settings: TlsSettings, files: StoreFiles) -> None:
        self._settings = settings
        self._files = files

    @cached_property
    def key_material(self) -> KeyMaterial | None:
        """See `load_key_material`."""
        return load_key_material(self._settings, self._files)

    @cached_property
    def trust_anchors(self) -> TrustAnchors | None:
        """See `load_trust_anchors`."""
        return load_trust_anchors(self._settings, self._files)


def load_key_material(settings: TlsSettings, files: StoreFiles) -> KeyMaterial | None:
    """The key store's private key and certificates; None if the settings name none. Blocks on files; `TlsError`."""
    _check_key_store(settings)
    if settings.keystore_key is not None and settings.keystore_certificate_chain is not None:
        with _at("ssl.keystore.key"):
            return _pem_key(settings.keystore_key, settings.keystore_certificate_chain, settings.key_password)
    if settings.keystore_location is None:
        return None
    data = _read("ssl.keystore.location", settings.keystore_location, files)
    if settings.keystore_type != _PEM:
        _check_type("ssl.keystore.type", settings.keystore_type, data)
    with _at("ssl.keystore.location", settings.keystore_location):
        if settings.keystore_type == _PEM:
            text = _text(data)
            return _pem_key(text, text, settings.key_password)
        password = settings.keystore_password or ""
        key_password = settings.key_password if settings.key_password is not None else password
        read = _jks_key if data.startswith(MAGIC) else _pkcs12_key
        return read(data, password, key_password)


def load_trust_anchors(settings: TlsSettings, files: StoreFiles) -> TrustAnchors | None:
    """The trust store's certificates; None if the settings name none. Blocks on files; `TlsError`."""
    _check_trust_store(settings)
    if settings.truststore_certificates is not None:
        with _at("ssl.truststore.certificates"):
            return _anchors(pem_entries(settings.truststore_certificates, _CERTIFICATE))
    if settings.truststore_location is None:
        return None
    data = _read("ssl.truststore.location", settings.truststore_location, files)
    if settings.truststore_type != _PEM:
        _check_type("ssl.truststore.type", settings.truststore_type, data)
    with _at("ssl.truststore.location", settings.truststore_location):
        if settings.truststore_type == _PEM:
            return _anchors(pem_entries(_text(data), _CERTIFICATE))
        if data.startswith(MAGIC):
            return _jks_anchors(data, settings.truststore_password)
        return _pkcs12_anchors(data, settings.truststore_password)


@contextmanager
def _at(name: str, path: str = "") -> Iterator[None]:
    """Turn `StoreProblem` into a `TlsError` that names the property and the file."""
    try:
        yield
    except StoreProblem as problem:
        raise TlsError(name, f"{path}: {problem}" if path else str(problem)) from None


# --- which properties go together


def _check_key_store(settings: TlsSettings) -> None:
    inline = settings.keystore_key is not None
    if inline and settings.keystore_type != _PEM:
        raise TlsError("ssl.keystore.key", f"only for ssl.keystore.type=PEM, which is {settings.keystore_type}")
    if inline and settings.keystore_certificate_chain is None:
        raise TlsError("ssl.keystore.key", "needs ssl.keystore.certificate.chain beside it")
    if not inline and settings.keystore_certificate_chain is not None:
        raise TlsError("ssl.keystore.certificate.chain", "needs ssl.keystore.key beside it")
    if inline and settings.keystore_location is not None:
        raise TlsError("ssl.keystore.key", "not beside ssl.keystore.location")
    pem = settings.keystore_type == _PEM and (inline or settings.keystore_location is not None)
    if pem and settings.keystore_password is not None:
        raise TlsError("ssl.keystore.password", "not for PEM, where ssl.key.password is for an encrypted key")
    if not pem and settings.keystore_location is not None and settings.keystore_password is None:
        raise TlsError("ssl.keystore.location", "needs ssl.keystore.password beside it, or ssl.keystore.type=PEM")
    if not pem and settings.keystore_location is None and settings.keystore_password is not None:
        raise TlsError("ssl.keystore.password", "needs ssl.keystore.location beside it")


def _check_trust_store(settings: TlsSettings) -> None:
    inline = settings.truststore_certificates is not None
    if inline and settings.truststore_type != _PEM:
        name = "ssl.truststore.certificates"
        raise TlsError(name, f"only for ssl.truststore.type=PEM, which is {settings.truststore_type}")
    if inline and settings.truststore_location is not None:
        raise TlsError("ssl.truststore.certificates", "not beside ssl.truststore.location")
    if settings.truststore_password is not None:
        if inline or (settings.truststore_type == _PEM and settings.truststore_location is not None):
            raise TlsError("ssl.truststore.password", "not for PEM")
        if settings.truststore_location is None:
            raise TlsError("ssl.truststore.password", "needs ssl.truststore.location beside it")


def _check_type(name: str, kind: str, data: bytes) -> None:
    if kind.upper() not in _BINARY_TYPES:
        raise TlsError(name, f"{kind} is not supported: PEM, PKCS12 or JKS")
    location = name.replace(".type", ".location")
    if data.startswith(JCEKS_MAGIC):
        raise TlsError(location, "the file is a JCEKS store, which is not supported: PEM, PKCS12 or JKS")
    if b"-----BEGIN " in data:
        raise TlsError(location, f"the file is PEM: set {name}=PEM")
    if not data.startswith(MAGIC) and data[:1] != bytes([_DER_SEQUENCE]):
        raise TlsError(location, "the file is neither a PKCS12 nor a JKS store")


def _read(name: str, path: str, files: StoreFiles) -> bytes:
    try:
        return files.read_regular(path, STORE_MAX_BYTES)
    except OSError as error:
        raise TlsError(name, f"{path} cannot be read: {error.strerror or error}") from None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# --- private keys


def _pem_key(key: str, chain: str, key_password: str | None) -> KeyMaterial:
    keys = pem_entries(key, _PRIVATE_KEY)
    if len(keys) != 1:
        raise StoreProblem(f"it has {len(keys)} private keys instead of one")
    return _material(_private_key(keys[0], key_password), pem_entries(chain, _CERTIFICATE))


def _jks_key(data: bytes, password: str, key_password: str) -> KeyMaterial:
    keys = read_jks(data, password).keys
    if len(keys) != 1:
        raise StoreProblem(f"it has {len(keys)} private keys instead of one")
    return _material(_private_key(unprotect(keys[0].protected, key_password), None), keys[0].chain)


def _pkcs12_key(data: bytes, password: str, key_password: str) -> KeyMaterial:
    store = read_pkcs12(data, password)
    if len(store.plain_keys) + len(store.encrypted_keys) != 1:
        count = len(store.plain_keys) + len(store.encrypted_keys)
        raise StoreProblem(f"it has {count} private keys instead of one")
    key = (
        _private_key(store.encrypted_keys[0], key_password)
        if store.encrypted_keys
        else _private_key(store.plain_keys[0], None)
    )
    return _material(key, _chain(key, store.certificates))


def _private_key(der: bytes, password: str | None) -> PrivateKeyTypes:
    """A private key of DER bytes, decrypted with the password if there is one."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        return load_der_private_key(der, None if password is None else password.encode())
    except TypeError:
        if password is None:
            raise StoreProblem("its private key is encrypted, but ssl.key.password is not set") from None
        raise StoreProblem("its private key is not encrypted, but ssl.key.password is set") from None
    except (ValueError, UnsupportedAlgorithm):
        if password is None:
            raise StoreProblem("its private key is damaged or of an unknown kind") from None
        raise StoreProblem("the password of its private key is wrong, or the key is damaged") from None


def _material(key: PrivateKeyTypes, chain: list[bytes]) -> KeyMaterial:
    """A key with its chain. Raises `StoreProblem` if they do not belong together."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if not chain:
        raise StoreProblem("it has no certificate of its private key")
    if not _belongs(key, _certificate(chain[0])):
        raise StoreProblem("its first certificate is not that of its private key")
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return KeyMaterial(text, "".join(pem_text(_CERTIFICATE, der) for der in chain))


def _chain(key: PrivateKeyTypes, certificates: list[bytes]) -> list[bytes]:
    """The key's certificate, then its issuer's and so on, as far as they are among the certificates."""
    parsed = {der: _certificate(der) for der in certificates}
    chain = [der for der, certificate in parsed.items() if _belongs(key, certificate)][:1]
    by_subject = {certificate.subject.public_bytes(): der for der, certificate in parsed.items()}
    while chain:
        issuer = by_subject.get(parsed[chain[-1]].issuer.public_bytes())
        if issuer is None or issuer in chain:
            break
        chain.append(issuer)
    return chain


def _certificate(der: bytes) -> Certificate:
    from cryptography.x509 import load_der_x509_certificate

    try:
        return load_der_x509_certificate(der)
    except ValueError:
        raise StoreProblem("one of its certificates is damaged") from None


def _belongs(key: PrivateKeyTypes, certificate: Certificate) -> bool:
    """Whether a certificate is that of a key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return public == key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


# --- trusted certificates


def _jks_anchors(data: bytes, password: str | None) -> TrustAnchors:
    store = read_jks(data, password)
    return _anchors([*store.trusted, *(certificate for key in store.keys for certificate in key.chain[:1])])


def _pkcs12_anchors(data: bytes, password: str | None) -> TrustAnchors:
    """As in Java, the certificates that are marked as trusted and those of private keys, but not the chains of keys.
    If there is neither, as in files that OpenSSL writes, all certificates; Java trusts none of them."""
    store = read_pkcs12(data, password)
    if store.trusted or store.plain_keys or store.encrypted_keys:
        return _anchors([*store.trusted, *store.own])
    return _anchors(store.certificates)


def _anchors(certificates: list[bytes]) -> TrustAnchors:
    if not certificates:
        raise StoreProblem("it has no trusted certificate")
    return TrustAnchors("".join(pem_text(_CERTIFICATE, der) for der in dict.fromkeys(certificates)))
