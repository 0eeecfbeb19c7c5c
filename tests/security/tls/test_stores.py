"""Key stores and trust stores that keytool and OpenSSL wrote (`stores/README.md`)."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from kwire.base.doors import Files
from kwire.security.tls.pem import pem_text
from kwire.security.tls.rc2 import decrypt_cbc
from kwire.security.tls.settings import TlsError, TlsSettings
from kwire.security.tls.stores import STORE_MAX_BYTES, load_key_material, load_trust_anchors

STORES = Path(__file__).parent / "stores"
SECRETS = ("changeit", "keysecret", "wrong-password")


def text(name: str) -> str:
    return (STORES / name).read_text()


def key_store(name: str, **more: str | None) -> TlsSettings:
    settings = {"keystore_location": str(STORES / name), "keystore_password": "changeit", **more}
    return TlsSettings(**settings)  # type: ignore[arg-type] # the values are strings


def trust_store(name: str, **more: str | None) -> TlsSettings:
    settings = {"truststore_location": str(STORES / name), "truststore_password": "changeit", **more}
    return TlsSettings(**settings)  # type: ignore[arg-type] # the values are of the fields' types


def body(pem: str) -> str:
    """What PEM texts have between their marks; their line lengths may differ."""
    return "".join(pem.split())


@pytest.mark.parametrize(
    "settings",
    [
        key_store("broker.jks", key_password="keysecret"),
        key_store("broker.jks", key_password="keysecret", keystore_type="PKCS12"),
        key_store("broker.p12"),
        key_store("broker.p12", keystore_type="PKCS12"),
        key_store("both.p12", keystore_type="pkcs12"),
        key_store("java8.p12"),
        key_store("openssl.p12"),
        key_store("openssl-legacy.p12"),
        TlsSettings(
            keystore_type="PEM",
            keystore_key=text("plain.key"),
            keystore_certificate_chain=text("broker.crt") + text("ca.crt"),
        ),
        TlsSettings(
            keystore_type="PEM",
            keystore_key=text("encrypted.key"),
            keystore_certificate_chain=f"subject=localhost\n{text('broker.crt')}\nissuer:\n{text('ca.crt')}",
            key_password="keysecret",
        ),
        TlsSettings(
            keystore_type="PEM",
            keystore_key=text("plain.key").replace("\n", " "),
            keystore_certificate_chain=(text("broker.crt") + text("ca.crt")).replace("\n", " "),
        ),
    ],
)
def test_a_key_comes_from_a_store_of_any_format_with_its_chain(settings: TlsSettings) -> None:
    material = load_key_material(settings, Files())
    assert material is not None
    assert body(material.private_key_pem) == body(text("plain.key"))
    assert body(material.chain_pem) == body(text("broker.crt") + text("ca.crt"))
    assert repr(material) == "KeyMaterial(...)"


def test_a_pem_file_has_key_and_chain(tmp_path: Path) -> None:
    (tmp_path / "broker.pem").write_text(text("broker.crt") + text("ca.crt") + text("plain.key"))
    material = load_key_material(
        TlsSettings(keystore_type="PEM", keystore_location=str(tmp_path / "broker.pem")), Files()
    )
    assert material is not None
    assert body(material.chain_pem) == body(text("broker.crt") + text("ca.crt"))


@pytest.mark.parametrize(
    ("settings", "certificates"),
    [
        (trust_store("trust.jks"), ["ca.crt"]),
        (trust_store("trust.jks", truststore_password=None), ["ca.crt"]),
        (trust_store("trust.p12"), ["ca.crt"]),
        (trust_store("trust-java8.p12"), ["ca.crt"]),
        (trust_store("openssl-trust.p12"), ["ca.crt"]),
        (trust_store("broker.jks"), ["ca.crt", "broker.crt"]),
        # As in Java, the certificate of a key is trusted, but not its chain,
        (trust_store("broker.p12"), ["broker.crt"]),
        # unless the chain's certificate is an entry of its own.
        (trust_store("both.p12"), ["ca.crt", "broker.crt"]),
        (TlsSettings(truststore_type="PEM", truststore_location=str(STORES / "ca.crt")), ["ca.crt"]),
        (TlsSettings(truststore_type="PEM", truststore_certificates=text("chain.crt")), ["ca.crt", "broker.crt"]),
    ],
)
def test_trusted_certificates_come_from_a_store_of_any_format(settings: TlsSettings, certificates: list[str]) -> None:
    anchors = load_trust_anchors(settings, Files())
    assert anchors is not None
    found = {body(part) for part in anchors.pem.split("-----BEGIN CERTIFICATE-----") if part}
    assert found == {body(text(name)).removeprefix("-----BEGINCERTIFICATE-----") for name in certificates}


def test_settings_without_stores_have_none() -> None:
    assert load_key_material(TlsSettings(), Files()) is None
    assert load_trust_anchors(TlsSettings(), Files()) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (key_store("no.jks"), "ssl.keystore.location: .*no.jks cannot be read: No such file or directory"),
        (key_store("broker.jceks"), "ssl.keystore.location: the file is a JCEKS store, which is not supported"),
        (key_store("plain.key"), "ssl.keystore.location: the file is PEM: set ssl.keystore.type=PEM"),
        (key_store("README.md"), "ssl.keystore.location: the file is neither a PKCS12 nor a JKS store"),
        (key_store("broker.p12", keystore_type="BCFKS"), "ssl.keystore.type: BCFKS is not supported"),
        (key_store("broker.jks"), "broker.jks: the password of its private key is wrong"),
        (key_store("broker.p12", keystore_password="wrong-password"), "broker.p12: the password is wrong, or the file"),
        (key_store("broker.jks", keystore_password="wrong-password"), "broker.jks: the password is wrong, or the file"),
        (
            key_store("broker.p12", key_password="wrong-password"),
            "the password of its private key is wrong, or the",
        ),
        (key_store("two.p12"), "two.p12: it has 2 private keys instead of one"),
        (key_store("trust.p12"), "trust.p12: it has 0 private keys instead of one"),
        (key_store("trust.jks"), "trust.jks: it has 0 private keys instead of one"),
        (key_store("broker.p12", keystore_password=None), "ssl.keystore.location: needs ssl.keystore.password"),
        (TlsSettings(keystore_password="changeit"), "ssl.keystore.password: needs ssl.keystore.location"),
        (TlsSettings(keystore_key="x"), "ssl.keystore.key: only for ssl.keystore.type=PEM, which is JKS"),
        (TlsSettings(keystore_type="PEM", keystore_key="x"), "needs ssl.keystore.certificate.chain beside it"),
        (TlsSettings(keystore_type="PEM", keystore_certificate_chain="x"), "chain: needs ssl.keystore.key beside it"),
        (
            TlsSettings(keystore_type="PEM", keystore_key="x", keystore_certificate_chain="x"),
            "ssl.keystore.key: it has 0 private keys instead of one",
        ),
        (
            TlsSettings(keystore_type="PEM", keystore_key="x", keystore_certificate_chain="x", keystore_location="/x"),
            "ssl.keystore.key: not beside ssl.keystore.location",
        ),
        (key_store("plain.key", keystore_type="PEM"), "ssl.keystore.password: not for PEM"),
        (
            TlsSettings(
                keystore_type="PEM",
                keystore_key=text("encrypted.key"),
                keystore_certificate_chain=text("broker.crt"),
            ),
            "its private key is encrypted, but ssl.key.password is not set",
        ),
        (
            TlsSettings(
                keystore_type="PEM",
                keystore_key=text("plain.key"),
                keystore_certificate_chain=text("broker.crt"),
                key_password="keysecret",
            ),
            "its private key is not encrypted, but ssl.key.password is set",
        ),
        (
            TlsSettings(
                keystore_type="PEM",
                keystore_key=text("plain.key"),
                keystore_certificate_chain=text("ca.crt"),
            ),
            "its first certificate is not that of its private key",
        ),
        (
            TlsSettings(
                keystore_type="PEM",
                keystore_key=text("plain.key").replace("M", "?", 1),
                keystore_certificate_chain=text("broker.crt"),
            ),
            "its PEM entry PRIVATE KEY is not base64",
        ),
        (
            TlsSettings(
                keystore_type="PEM",
                keystore_key=text("plain.key")[:900],
                keystore_certificate_chain=text("broker.crt"),
            ),
            "its PEM entry PRIVATE KEY has no end",
        ),
    ],
)
def test_a_key_store_that_cannot_be_used_is_refused_with_one_line(settings: TlsSettings, message: str) -> None:
    with pytest.raises(TlsError, match=message) as refusal:
        load_key_material(settings, Files())
    assert "\n" not in str(refusal.value)
    assert not any(secret in str(refusal.value) for secret in SECRETS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (trust_store("no.jks"), "ssl.truststore.location: .*no.jks cannot be read: No such file or directory"),
        (trust_store("broker.jceks"), "ssl.truststore.location: the file is a JCEKS store, which is not supported"),
        (trust_store("ca.crt"), "ssl.truststore.location: the file is PEM: set ssl.truststore.type=PEM"),
        (
            trust_store("trust.p12", truststore_type="Windows-ROOT"),
            "ssl.truststore.type: Windows-ROOT is not",
        ),
        (trust_store("trust.p12", truststore_password="wrong-password"), "trust.p12: the password is wrong, or the"),
        (trust_store("trust.p12", truststore_password=None), "trust.p12: it is encrypted, but no password is given"),
        (trust_store("trust.jks", truststore_password="wrong-password"), "trust.jks: the password is wrong, or the"),
        (TlsSettings(truststore_password="changeit"), "ssl.truststore.password: needs ssl.truststore.location"),
        (TlsSettings(truststore_certificates="x"), "ssl.truststore.certificates: only for ssl.truststore.type=PEM"),
        (TlsSettings(truststore_type="PEM", truststore_certificates="x"), "it has no trusted certificate"),
        (trust_store("ca.crt", truststore_type="PEM"), "ssl.truststore.password: not for PEM"),
    ],
)
def test_a_trust_store_that_cannot_be_used_is_refused_with_one_line(settings: TlsSettings, message: str) -> None:
    with pytest.raises(TlsError, match=message) as refusal:
        load_trust_anchors(settings, Files())
    assert "\n" not in str(refusal.value)
    assert not any(secret in str(refusal.value) for secret in SECRETS)


@pytest.mark.parametrize("name", ["broker.jks", "broker.p12", "openssl-legacy.p12", "trust.jks"])
def test_a_damaged_store_is_refused_and_nothing_else_happens(name: str, tmp_path: Path) -> None:
    chance, whole, damaged = random.Random(1), (STORES / name).read_bytes(), tmp_path / name
    for round_ in range(20):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if round_ % 5 == 0:
            del data[chance.randrange(len(data)) :]
        damaged.write_bytes(data)
        with_key = TlsSettings(keystore_location=str(damaged), keystore_password="changeit", key_password="keysecret")
        for load, settings in (
            (load_key_material, with_key),
            (load_trust_anchors, TlsSettings(truststore_location=str(damaged), truststore_password="changeit")),
            (load_trust_anchors, TlsSettings(truststore_location=str(damaged))),
        ):
            try:
                load(settings, Files())
            except TlsError as error:
                assert "\n" not in str(error)


def test_passwords_and_keys_are_not_in_the_representation_of_settings() -> None:
    settings = TlsSettings(
        keystore_password="hunter2",
        key_password="hunter2",
        keystore_key="hunter2",
        keystore_certificate_chain="hunter2",
        truststore_password="hunter2",
        truststore_certificates="hunter2",
    )
    assert "hunter2" not in repr(settings)


def test_rc2_decrypts_the_examples_of_its_rfc() -> None:
    key, encrypted = bytes.fromhex("88bca90e90875a7f0f79c384627bafb2"), bytes.fromhex("2269552ab0f85ca6")
    assert decrypt_cbc(key, bytes(8), encrypted) == bytes(8)
    with pytest.raises(ValueError, match="whole blocks"):
        decrypt_cbc(key, bytes(8), encrypted[:-1])


def test_pem_texts_have_lines_of_64_characters() -> None:
    assert pem_text("X", bytes(50)) == f"-----BEGIN X-----\n{'A' * 64}\nAAA=\n-----END X-----\n"


@pytest.mark.parametrize("load", [load_key_material, load_trust_anchors])
def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path, load: Any) -> None:
    """Whoever may alter a listener's stores must not stop the event loop by a FIFO, or fill the memory."""
    fifo, large = tmp_path / "fifo", tmp_path / "large"
    os.mkfifo(fifo)
    with large.open("wb") as file:
        file.truncate(STORE_MAX_BYTES + 1)
    reasons = {fifo: "not a regular file", Path("/dev/zero"): "not a regular file", large: "larger than"}
    reasons[tmp_path] = "not a regular file"
    for path, reason in reasons.items():
        settings = TlsSettings(
            keystore_location=str(path),
            keystore_password="changeit",
            truststore_location=str(path),
            truststore_password="changeit",
        )
        with pytest.raises(TlsError, match=f"{path} cannot be read: {reason}"):
            load(settings, Files())
