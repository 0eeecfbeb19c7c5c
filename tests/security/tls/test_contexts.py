"""Contexts of listeners and clients: what they let each other agree on, in memory."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from kwire.base.doors import Files
from kwire.security.tls.ciphers import openssl_name
from kwire.security.tls.contexts import client_context, server_context
from kwire.security.tls.settings import TlsError, TlsSettings
from kwire.security.tls.stores import Stores

STORES = Path(__file__).parent / "stores"
SERVER = TlsSettings(keystore_location=str(STORES / "broker.p12"), keystore_password="changeit")
CLIENT = TlsSettings(truststore_location=str(STORES / "trust.p12"), truststore_password="changeit")
BOTH = replace(CLIENT, keystore_location=SERVER.keystore_location, keystore_password="changeit")
NEW_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
OLD_SUITE = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"


class Pair:
    """A server and a client that have shaken hands."""

    def __init__(self, server: TlsSettings, client: TlsSettings, host: str = "localhost") -> None:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = server_context(server, Files()).wrap_bio(to_server, to_client, server_side=True)
        self.client = client_context(client, Files()).wrap_bio(to_client, to_server, server_hostname=host)
        self.shake_hands()

    def shake_hands(self) -> None:
        for _ in range(4):
            for side in (self.client, self.server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    pass
        self.server.write(b"x")
        assert self.client.read() == b"x"


def test_a_client_that_trusts_the_authority_connects() -> None:
    pair = Pair(SERVER, CLIENT)
    assert pair.client.version() == "TLSv1.3"
    assert pair.server.getpeercert(binary_form=True) is None


@pytest.mark.parametrize("store", ["both.p12", "trust.jks", "broker.p12"])
def test_a_certificate_is_trusted_that_is_an_anchor_or_signed_by_one(store: str) -> None:
    assert Pair(SERVER, replace(CLIENT, truststore_location=str(STORES / store))).client.version() == "TLSv1.3"


def test_a_client_refuses_a_server_of_another_name_unless_identification_is_off() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        Pair(SERVER, CLIENT, "broker.example")
    for off in ("", None):
        Pair(SERVER, replace(CLIENT, endpoint_identification_algorithm=off), "broker.example")


def test_a_client_without_a_trust_store_trusts_the_systems_authorities_only() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        Pair(SERVER, TlsSettings())


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_a_listener_sees_the_certificate_of_a_client(client_auth: str) -> None:
    server = replace(BOTH, client_auth=client_auth)
    certificate = Pair(server, BOTH).server.getpeercert(binary_form=True)
    assert certificate == ssl.PEM_cert_to_DER_cert((STORES / "broker.crt").read_text())


def test_a_client_without_a_certificate_is_served_unless_one_is_required() -> None:
    assert Pair(replace(BOTH, client_auth="requested"), CLIENT).server.getpeercert(binary_form=True) is None
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        Pair(replace(BOTH, client_auth="required"), CLIENT)


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_a_client_whose_certificate_is_not_trusted_is_refused(client_auth: str, tmp_path: Path) -> None:
    import trustme

    (tmp_path / "other.pem").write_bytes(trustme.CA().cert_pem.bytes())
    other = replace(SERVER, truststore_type="PEM", truststore_location=str(tmp_path / "other.pem"))
    with pytest.raises(ssl.SSLCertVerificationError):
        Pair(replace(other, client_auth=client_auth), BOTH)


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_only_enabled_protocols_are_agreed_on(protocol: str) -> None:
    assert Pair(replace(SERVER, enabled_protocols=(protocol,)), CLIENT).client.version() == protocol


def test_only_enabled_suites_are_agreed_on() -> None:
    pair = Pair(replace(SERVER, cipher_suites=(OLD_SUITE,)), CLIENT)
    assert pair.client.cipher() == ("ECDHE-RSA-AES256-GCM-SHA384", "TLSv1.2", 256)
    assert Pair(replace(SERVER, cipher_suites=NEW_SUITES), CLIENT).client.version() == "TLSv1.3"
    assert Pair(replace(SERVER, cipher_suites=(*NEW_SUITES, OLD_SUITE)), CLIENT).client.version() == "TLSv1.3"
    old = replace(CLIENT, enabled_protocols=("TLSv1.2",))
    assert Pair(replace(SERVER, cipher_suites=(OLD_SUITE, *NEW_SUITES)), old).client.cipher() == pair.client.cipher()
    with pytest.raises(ssl.SSLError):
        Pair(replace(SERVER, cipher_suites=NEW_SUITES), old)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keystore_location": None, "keystore_password": None}, "ssl.keystore.location: a listener needs a key store"),
        ({"client_auth": "maybe"}, "ssl.client.auth: maybe is none of none, requested, required"),
        ({"client_auth": "required"}, "ssl.truststore.location: ssl.client.auth=required needs a trust store"),
        ({"enabled_protocols": ("TLSv1.1", "TLSv1.2")}, "ssl.enabled.protocols: TLSv1.1 is not supported"),
        ({"cipher_suites": ("TLS_RSA_WITH_RC4_128_MD5",)}, "TLS_RSA_WITH_RC4_128_MD5 is not supported"),
        ({"cipher_suites": ("AES128-SHA",)}, "ssl.cipher.suites: AES128-SHA is not supported"),
        ({"cipher_suites": (OLD_SUITE, NEW_SUITES[0])}, "of TLS 1.3's suites name all or none"),
        (
            {"cipher_suites": (OLD_SUITE,), "enabled_protocols": ("TLSv1.3",)},
            "ssl.cipher.suites: none of them is for one of ssl.enabled.protocols",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused_with_one_line(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TlsError, match=message) as refusal:
        server_context(replace(SERVER, **changes), Files())  # type: ignore[arg-type] # the values are of the fields' types
    assert "\n" not in str(refusal.value)


def test_an_unknown_identification_of_hosts_is_refused() -> None:
    with pytest.raises(TlsError, match=r"ssl.endpoint.identification.algorithm: LDAPS is not supported"):
        client_context(replace(CLIENT, endpoint_identification_algorithm="LDAPS"), Files())


def test_every_suite_of_openssl_that_iana_names_can_be_chosen() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    known = {cipher["name"] for cipher in context.get_ciphers()}
    exchanges, hashes = ("ECDHE_ECDSA", "ECDHE_RSA", "DHE_RSA", "RSA"), {"128": "SHA256", "256": "SHA384"}
    for exchange in exchanges:
        for bits, digest in hashes.items():
            assert openssl_name(f"TLS_{exchange}_WITH_AES_{bits}_GCM_{digest}") in known
            assert openssl_name(f"TLS_{exchange}_WITH_AES_{bits}_CBC_SHA") in known
    for exchange in exchanges[:3]:
        assert openssl_name(f"TLS_{exchange}_WITH_CHACHA20_POLY1305_SHA256") in known
    assert openssl_name("TLS_RSA_WITH_CHACHA20_POLY1305_SHA256") is None
    assert openssl_name("TLS_RSA_WITH_AES_256_CBC_SHA256") == "AES256-SHA256"
    assert openssl_name("TLS_AES_256_GCM_SHA384") is None


def test_contexts_that_share_stores_read_each_file_once() -> None:
    read: list[str | None] = []

    class Counting(Files):
        def read_regular(self, path: str, max_bytes: int) -> bytes:
            read.append(path)
            return super().read_regular(path, max_bytes)

    files = Counting()
    stores = Stores(BOTH, files)
    server_context(replace(BOTH, client_auth="required"), files, stores)
    client_context(BOTH, files, stores)
    assert stores.key_material is not None
    assert read == [BOTH.keystore_location, BOTH.truststore_location]


def test_a_key_never_reaches_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Files().as_path(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        assert path.startswith(("/proc/self/fd/", str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
