"""Certificates for tests: an authority of a few weeks, and what it certifies. Nobody should trust them elsewhere.

    authority = Authority(directory)
    broker = authority.issue("broker", "localhost", "127.0.0.1", "::1")

Files are PEM: ``ca.pem`` is what clients trust, a key and its chain are in one file, as Kafka's PEM key stores want.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS: Final = 60


class Authority:
    """Signs certificates. ``directory``: where its files are."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("kwire's tests")
        builder = self._certificate(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.path = directory / "ca.pem"
        """The authority's certificate."""
        self.path.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def issue(
        self, name: str, *hosts: str, password: str | None = None, file: str | None = None, days: int = VALID_DAYS
    ) -> Path:
        """A key with a certificate for a common name, valid for hosts (names and addresses), for brokers and clients.
        ``password``: the key is encrypted with it. ``file``: the name of the file, without its ending."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._certificate(_name(name), key.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        path = self._directory / f"{file or name}.pem"
        path.touch(mode=0o600)
        path.write_bytes(private + _pem(builder.sign(self._key, hashes.SHA256())) + self.path.read_bytes())
        return path

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int = VALID_DAYS
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(authority, critical=False)
        )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
