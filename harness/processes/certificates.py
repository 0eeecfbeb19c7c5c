"""A certificate authority with the certificates that TLS tests need, as PEM files.

The server's certificate names 127.0.0.1 and nothing else (unless another name is asked for), so that a client that
connects to `localhost` sees a name that does not match. What lives elsewhere: brokers that use them
(`harness.processes.secured`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trustme

SERVER = "127.0.0.1"
WRONG_NAME = "localhost"
_PAST = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key with its certificate chain, in one file (`pem`, as Kafka wants it) and in two."""

    pem: Path
    key: Path
    chain: Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """``ca`` has issued all but `stranger`, which comes from ``other_ca``, whom no broker trusts. ``client_name``: the
    principal of `client`."""

    ca: Path
    other_ca: Path
    server: Identity
    client: Identity
    expired: Identity
    stranger: Identity
    client_name: str

    @classmethod
    def make(cls, folder: Path, server: str = SERVER) -> Certificates:
        """New keys and certificates in a folder. ``server``: the server's name."""
        import trustme

        folder.mkdir(parents=True, exist_ok=True)
        ca, other = trustme.CA(), trustme.CA()
        client = ca.issue_cert("client.test", common_name="client")
        expired = ca.issue_cert("client.test", common_name="client", not_after=_PAST)
        return cls(
            ca=_write(folder / "ca.pem", ca.cert_pem.bytes()),
            other_ca=_write(folder / "other-ca.pem", other.cert_pem.bytes()),
            server=_identity(folder / "server", ca.issue_cert(server, common_name="broker")),
            client=_identity(folder / "client", client),
            expired=_identity(folder / "expired", expired),
            stranger=_identity(folder / "stranger", other.issue_cert("client.test", common_name="client")),
            client_name=_subject(client),
        )


def rsa_server(folder: Path) -> Identity:
    """The server's certificate with a key of RSA-2048, from an authority with one; `Certificates` has elliptic keys."""
    import trustme

    folder.mkdir(parents=True, exist_ok=True)
    ca = trustme.CA(key_type=trustme.KeyType.RSA)
    return _identity(folder / "rsa", ca.issue_cert(SERVER, common_name="broker", key_type=trustme.KeyType.RSA))


def pkcs8(key: bytes) -> bytes:
    """A private key in the only PEM form that Kafka and ZooKeeper read."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    return load_pem_private_key(key, None).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _identity(stem: Path, issued: trustme.LeafCert) -> Identity:
    key = pkcs8(issued.private_key_pem.bytes())
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    return Identity(
        pem=_write(stem.with_suffix(".pem"), key + chain),
        key=_write(stem.with_suffix(".key"), key),
        chain=_write(stem.with_suffix(".crt"), chain),
    )


def _subject(issued: trustme.LeafCert) -> str:
    from cryptography.x509 import load_pem_x509_certificate

    subject = load_pem_x509_certificate(issued.cert_chain_pems[0].bytes()).subject
    return subject.rfc4514_string().replace("#", r"\#")  # as Java does everywhere


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
