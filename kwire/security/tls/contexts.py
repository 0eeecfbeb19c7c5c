"""`ssl.SSLContext`s from Kafka's TLS properties, for listeners and for clients.

TLS 1.2 and 1.3 only, no renegotiation, no compression. As in Java, every certificate of the trust store is an anchor,
also one that is not self-signed. Unlike Apache Kafka, kwire refuses at start: a listener that requests clients'
certificates without a trust store (Kafka then trusts all public authorities), and some but not all suites of TLS 1.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kwire.security.tls.ciphers import TLS13_SUITES, openssl_name
from kwire.security.tls.settings import StoreFiles, TlsError, TlsSettings
from kwire.security.tls.stores import KeyMaterial, Stores

if TYPE_CHECKING:
    import ssl
    from contextlib import AbstractContextManager

CLIENT_AUTH: Final = ("none", "requested", "required")
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")


class ContextFiles(StoreFiles, Protocol):
    """What contexts need of the files door (`kwire.base.doors.Files`)."""

    def as_path(self, data: bytes, /) -> AbstractContextManager[str]:
        """A temporary path from which the bytes can be read, without being on a disk."""
        ...


def server_context(settings: TlsSettings, files: ContextFiles, stores: Stores | None = None) -> ssl.SSLContext:
    """The context of a listener. Blocks on files; raises `TlsError`. ``stores``: those of the settings, if the caller
    needs them, too."""
    import ssl

    stores = stores or Stores(settings, files)
    if settings.client_auth not in CLIENT_AUTH:
        raise TlsError("ssl.client.auth", f"{settings.client_auth} is none of {', '.join(CLIENT_AUTH)}")
    material = stores.key_material
    if material is None:
        raise TlsError("ssl.keystore.location", "a listener needs a key store (or ssl.keystore.key)")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 1  # as Java sends; OpenSSL's two cost another 15 us of each handshake
    _restrict(context, settings)
    _present(context, material, settings, files)
    anchors = stores.trust_anchors
    if settings.client_auth != "none":
        if anchors is None:
            reason = f"ssl.client.auth={settings.client_auth} needs a trust store (or ssl.truststore.certificates)"
            raise TlsError("ssl.truststore.location", reason)
        required = settings.client_auth == "required"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        _trust(context, anchors.pem, settings)
    return context


def client_context(settings: TlsSettings, files: ContextFiles, stores: Stores | None = None) -> ssl.SSLContext:
    """The context of kwire's own clients. Blocks on files; raises `TlsError`. ``stores``: as in `server_context`.

    Without a trust store the system's authorities are trusted. If ``check_hostname`` is set, the certificate must be
    valid for the host, and ``server_hostname`` is required.
    """
    import ssl

    stores = stores or Stores(settings, files)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = _checks_hostname(settings.endpoint_identification_algorithm)
    _restrict(context, settings)
    material = stores.key_material
    if material is not None:
        _present(context, material, settings, files)
    anchors = stores.trust_anchors
    if anchors is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, anchors.pem, settings)
    return context


def _checks_hostname(algorithm: str | None) -> bool:
    if not algorithm:
        return False
    if algorithm.lower() != "https":
        raise TlsError("ssl.endpoint.identification.algorithm", f"{algorithm} is not supported: https, or empty")
    return True


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Enable only the protocols and suites that the settings name, TLS 1.2 and later."""
    import ssl

    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    protocols = _protocols(settings)
    old = [suite for suite in settings.cipher_suites if suite not in TLS13_SUITES]
    if settings.cipher_suites:
        _check_new_suites(settings, protocols)
        if old:
            _choose(context, old)
        wanted = {"TLSv1.2"} if old else set()
        wanted |= {"TLSv1.3"} if len(old) < len(settings.cipher_suites) else set()
        protocols = [each for each in protocols if each in wanted]
        if not protocols:
            raise TlsError("ssl.cipher.suites", "none of them is for one of ssl.enabled.protocols")
    versions = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
    context.minimum_version, context.maximum_version = versions[protocols[0]], versions[protocols[-1]]


def _protocols(settings: TlsSettings) -> list[str]:
    """The enabled protocols, oldest first."""
    for protocol in settings.enabled_protocols:
        if protocol not in PROTOCOLS:
            raise TlsError("ssl.enabled.protocols", f"{protocol} is not supported: {', '.join(PROTOCOLS)}")
    return [each for each in PROTOCOLS if each in (settings.enabled_protocols or PROTOCOLS)]


def _check_new_suites(settings: TlsSettings, protocols: list[str]) -> None:
    """Python cannot choose among the suites of TLS 1.3, so the settings must name all of them or none. `TlsError`."""
    named = [suite for suite in TLS13_SUITES if suite in settings.cipher_suites]
    if "TLSv1.3" in protocols and named and len(named) < len(TLS13_SUITES):
        raise TlsError("ssl.cipher.suites", f"of TLS 1.3's suites name all or none: {', '.join(TLS13_SUITES)}")


def _choose(context: ssl.SSLContext, suites: list[str]) -> None:
    """Enable suites of TLS 1.2, in this order."""
    import ssl

    names = {suite: openssl_name(suite) for suite in suites}
    for suite, name in names.items():
        if name is None:
            raise TlsError("ssl.cipher.suites", f"{suite} is not supported")
    try:
        context.set_ciphers(":".join(name for name in names.values() if name is not None))
        enabled = {cipher["name"] for cipher in context.get_ciphers()}
    except ssl.SSLError:
        enabled = set()
    for suite, name in names.items():
        if name not in enabled:
            raise TlsError("ssl.cipher.suites", f"{suite} is not enabled in this OpenSSL")


def _present(context: ssl.SSLContext, material: KeyMaterial, settings: TlsSettings, files: ContextFiles) -> None:
    import ssl

    try:
        with files.as_path((material.private_key_pem + material.chain_pem).encode()) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        name = "ssl.keystore.key" if settings.keystore_key is not None else "ssl.keystore.location"
        raise TlsError(name, f"OpenSSL refuses its key or certificates: {error.reason}") from None


def _trust(context: ssl.SSLContext, pem: str, settings: TlsSettings) -> None:
    import ssl

    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=pem)
    except ssl.SSLError as error:
        inline = settings.truststore_certificates is not None
        name = "ssl.truststore.certificates" if inline else "ssl.truststore.location"
        raise TlsError(name, f"OpenSSL refuses its certificates: {error.reason}") from None
