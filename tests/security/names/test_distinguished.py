"""Distinguished names in Java's form. The whole of it is compared with Java by `campaigns.security_names`."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type as Kind
from cryptography.x509.oid import NameOID

from kwire.security.names.distinguished import format_name, subject_name


def name(*attributes: x509.NameAttribute[str]) -> bytes:
    return x509.Name(attributes).public_bytes()


def common_name(value: str, kind: Kind = Kind.UTF8String) -> bytes:
    return name(x509.NameAttribute(NameOID.COMMON_NAME, value, kind))


def test_the_last_attribute_comes_first() -> None:
    written = name(
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "Hessen"),
        x509.NameAttribute(NameOID.LOCALITY_NAME, "Bad Vilbel"),
        x509.NameAttribute(NameOID.STREET_ADDRESS, "Am Markt 1"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example, Inc."),
        x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "data"),
        x509.NameAttribute(NameOID.COMMON_NAME, "alice"),
    )
    expected = "CN=alice,OU=data,O=Example\\, Inc.,STREET=Am Markt 1,L=Bad Vilbel,ST=Hessen,C=DE"
    assert format_name(written) == expected


def test_attributes_without_a_keyword_are_numbers_and_hex() -> None:
    written = name(
        x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "org"),
        x509.NameAttribute(NameOID.USER_ID, "u1"),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b"),
        x509.NameAttribute(NameOID.SERIAL_NUMBER, "7"),
        x509.NameAttribute(x509.ObjectIdentifier("2.999.1"), "x" * 130),
    )
    long = "0c8182" + "78" * 130
    expected = f"2.999.1=#{long},2.5.4.5=#130137,1.2.840.113549.1.9.1=#1603614062,UID=u1,DC=org"
    assert format_name(written) == expected


def test_several_attributes_of_one_name_are_joined_by_a_plus() -> None:
    both = [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "b")]
    assert format_name(x509.Name([x509.RelativeDistinguishedName(both)]).public_bytes()) == "CN=a+O=b"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ('a,b=c+d<e>f#g;h"i\\j', 'a\\,b\\=c\\+d\\<e\\>f\\#g\\;h\\"i\\\\j'),
        ("  a b ", "\\ \\ a b\\ "),
        ("\r a\r", "\\\r\\ a\\\r"),
        (" ", "\\ "),
        ("a\0b\n", "a\\00b\n"),
        ("Jürgen 한국 😀", "Jürgen 한국 😀"),
    ],
)
def test_special_characters_are_escaped_as_in_java(value: str, written: str) -> None:
    assert format_name(common_name(value)) == f"CN={written}"


@pytest.mark.parametrize(
    "kind", [Kind.UTF8String, Kind.PrintableString, Kind.IA5String, Kind.T61String, Kind.BMPString]
)
def test_texts_of_all_encodings_are_read(kind: Kind) -> None:
    assert format_name(common_name("alice", kind)) == "CN=alice"


def bmp(content: str) -> bytes:
    value = bytes.fromhex(content)
    attribute = bytes([0x30, 7 + len(value), 6, 3, 0x55, 4, 3, 0x1E, len(value)]) + value
    return bytes([0x30, len(attribute) + 2, 0x31, len(attribute)]) + attribute


@pytest.mark.parametrize(
    ("content", "read"),
    [("004a00e9", "Jé"), ("00", "\ufffd"), ("d8000061", "\ufffd"), ("dc000061", "\ufffda"), ("fffe", "\ufffe")],
)
def test_a_bmp_string_is_read_as_in_java(content: str, read: str) -> None:
    assert format_name(bmp(content)) == f"CN={read}"


def test_a_bmp_string_with_a_character_beyond_is_refused() -> None:
    with pytest.raises(ValueError, match="BMPString"):
        format_name(bmp("d83dde00"))


def test_values_that_are_no_texts_are_written_in_hex() -> None:
    assert format_name(common_name("12", Kind.NumericString)) == "CN=#12023132"


def test_a_name_without_attributes_is_empty() -> None:
    assert format_name(name()) == ""


@pytest.mark.parametrize("size", range(24))
def test_a_name_that_is_not_whole_is_refused(size: int) -> None:
    with pytest.raises(ValueError):
        format_name(common_name("alice, of no fixed size")[:size])


@pytest.mark.parametrize("content", ["3003020101", "30020500", "300431023000", "3006310430020500"])
def test_what_is_not_a_name_is_refused(content: str) -> None:
    with pytest.raises(ValueError):
        format_name(bytes.fromhex(content))


@pytest.mark.parametrize(
    ("written", "read"),
    [("eda080", "\ufffd"), ("edb231", "\ufffd1"), ("ff61c0", "\ufffda\ufffd"), ("f09f98", "\ufffd")],
)
def test_broken_utf8_is_replaced_as_in_java(written: str, read: str) -> None:
    content = bytes.fromhex(written)
    attribute = bytes([0x30, 7 + len(content), 6, 3, 0x55, 4, 3, 0x0C, len(content)]) + content
    relative = bytes([0x31, len(attribute)]) + attribute
    assert format_name(bytes([0x30, len(relative)]) + relative) == f"CN={read}"


def test_the_subject_of_a_certificate_is_found() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "subject")]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    assert subject_name(certificate.public_bytes(Encoding.DER)) == "CN=subject"


def test_what_is_not_a_certificate_has_no_subject() -> None:
    for junk in (b"", b"\x30\x00", b"\x30\x02\x30\x00", b"junk"):
        with pytest.raises(ValueError):
            subject_name(junk)
