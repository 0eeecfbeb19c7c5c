"""The names and validity of certificates, and whether one may replace another while a broker runs.

Kafka lets a listener's key store be changed at run time only if the certificate still names the same subject and at
least the same hosts, unless ``ssl.allow.dn.changes`` or ``ssl.allow.san.changes`` allow more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.security.names.distinguished import format_name
from kwire.security.tls.pem import pem_entries
from kwire.security.tls.settings import StoreProblem, TlsError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


class CertificateFacts(NamedTuple):
    """A certificate. Times are wall clock, in milliseconds."""

    subject: str
    """The distinguished name in Java's form."""
    alternative_names: frozenset[str]
    """Hosts and other names, each with its kind: ``DNS:broker1``."""
    not_before_ms: int
    not_after_ms: int


def certificate_facts(pem: str) -> list[CertificateFacts]:
    """The facts of all certificates of a PEM text, in its order. Raises `StoreProblem`."""
    from cryptography.x509 import load_der_x509_certificate

    try:
        return [_facts(load_der_x509_certificate(der)) for der in pem_entries(pem, "CERTIFICATE")]
    except StoreProblem:
        raise
    except ValueError:
        raise StoreProblem("one of its certificates is damaged") from None


def check_replacement(
    old_chain_pem: str, new_chain_pem: str, *, allow_dn_changes: bool = False, allow_san_changes: bool = False
) -> None:
    """Raise `TlsError` if a listener's certificate may not be replaced by another one under Kafka's rules."""
    old, new = certificate_facts(old_chain_pem)[0], certificate_facts(new_chain_pem)[0]
    if not allow_dn_changes and not _same_name(old.subject, new.subject):
        reason = f"the new certificate's name {new.subject} is not {old.subject} (ssl.allow.dn.changes)"
        raise TlsError("ssl.keystore.location", reason)
    missing = sorted(old.alternative_names - new.alternative_names)
    if not allow_san_changes and missing:
        reason = f"the new certificate lacks the names {', '.join(missing)} (ssl.allow.san.changes)"
        raise TlsError("ssl.keystore.location", reason)


def _same_name(old: str, new: str) -> bool:
    """Whether two names are equal but for case and white space."""
    return " ".join(old.casefold().split()) == " ".join(new.casefold().split())


def _facts(certificate: Certificate) -> CertificateFacts:
    return CertificateFacts(
        format_name(certificate.subject.public_bytes()),
        frozenset(_alternative_names(certificate)),
        int(certificate.not_valid_before_utc.timestamp() * 1000),
        int(certificate.not_valid_after_utc.timestamp() * 1000),
    )


def _alternative_names(certificate: Certificate) -> list[str]:
    from cryptography.x509 import (
        DirectoryName,
        DNSName,
        ExtensionNotFound,
        IPAddress,
        OtherName,
        RegisteredID,
        RFC822Name,
        SubjectAlternativeName,
        UniformResourceIdentifier,
    )

    try:
        names = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return []
    found = []
    for name in names:
        if isinstance(name, DNSName | RFC822Name | UniformResourceIdentifier):
            kind = {DNSName: "DNS", RFC822Name: "email", UniformResourceIdentifier: "URI"}[type(name)]
            found.append(f"{kind}:{name.value}")
        elif isinstance(name, IPAddress):
            found.append(f"IP:{name.value}")
        elif isinstance(name, DirectoryName):
            found.append(f"name:{format_name(name.value.public_bytes())}")
        elif isinstance(name, RegisteredID):
            found.append(f"id:{name.value.dotted_string}")
        elif isinstance(name, OtherName):
            found.append(f"other:{name.type_id.dotted_string}={name.value.hex()}")
    return found
