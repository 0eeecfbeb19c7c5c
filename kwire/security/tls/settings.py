"""The TLS properties of a listener or a client, and the errors about them.

The fields of `TlsSettings` are named after Kafka's properties: ``ssl.keystore.location`` is ``keystore_location``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class TlsError(ValueError):
    """A TLS property, or what it names, cannot be used. One line, without passwords and keys.

    ``name`` is the property at fault, without a listener's prefix.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}".replace("\n", "\\n").replace("\r", "\\r")


class StoreProblem(ValueError):
    """An error in a store, raised by the reader of its format, which does not have the store's name. One line without
    secrets."""


class StoreFiles(Protocol):
    """What contexts need of the files door (`kwire.base.doors.Files`)."""

    def read_regular(self, path: str, max_bytes: int, /) -> bytes:
        """The whole of a regular file of at most so many bytes; OSError."""
        ...


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Kafka's TLS properties, with its defaults. Passwords and keys are not in its repr."""

    keystore_type: str = "JKS"
    keystore_location: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    keystore_key: str | None = field(default=None, repr=False)
    """A private key as PEM text, with ``keystore_certificate_chain``."""
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    truststore_type: str = "JKS"
    truststore_location: str | None = None
    truststore_password: str | None = field(default=None, repr=False)
    truststore_certificates: str | None = field(default=None, repr=False)
    """Certificates as PEM text."""
    client_auth: str = "none"
    """Whether clients need a certificate: none, requested, required."""
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    """IANA's names; none: OpenSSL's choice."""
    endpoint_identification_algorithm: str | None = "https"
    """``https``: a client checks that the certificate is the host's; empty or None: it does not."""
