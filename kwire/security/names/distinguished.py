"""Distinguished names as Java writes them: the name of a TLS client, before mapping rules shorten it.

Java's ``X500Principal.getName()`` follows RFC 2253, last element of the certificate's name first:
``CN=alice,OU=data,O=Example\\, Inc.,C=DE``. Users' ACLs and rules contain such texts, so every detail is Java's: only
nine kinds of attributes have a keyword, all others are written ``1.2.840.113549.1.9.1=#0c0161``; ``=`` and ``#`` are
escaped everywhere, a zero byte becomes ``\\00``. Texts of old encodings (T61String, BMPString, ...) are read as Java 25
reads them; Java 17 takes them for UTF-8, which differs unless they are ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kwire.security.der import INTEGER, SEQUENCE, SET, DerError, Element, read

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_UTF16: Final = "utf-16-be"
_CHARSETS: Final = {0x0C: "utf-8", 0x13: "latin-1", 0x14: "latin-1", 0x16: "latin-1", 0x1B: "latin-1", 0x1E: _UTF16}
"""By tag: UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString."""

_ESCAPED: Final = re.compile(r'[,=+<>#;"\\]')
_OUTER_SPACE: Final = " \r"
_ENCODED_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd"
_BMP_LAST: Final = "\uffff"


def subject_name(certificate: bytes) -> str:
    """The name of a certificate's (DER) subject. Raises `ValueError` if it has none that Java would read."""
    signed = next(iter(read(certificate)[0].parts(SEQUENCE)), None)
    fields = [] if signed is None else signed.parts(SEQUENCE)
    subject = 4 if fields and fields[0].tag == INTEGER else 5  # the version comes first, if it is there
    if len(fields) <= subject:
        raise DerError("a certificate without a subject")
    return format_name(fields[subject].encoded)


def format_name(name: bytes) -> str:
    """A Name (DER) as text; empty if it has no attributes. Raises `ValueError`."""
    names = read(name)[0].parts(SEQUENCE)
    return ",".join("+".join(map(_attribute, relative.parts(SET))) for relative in reversed(names))


def _attribute(attribute: Element) -> str:
    parts = attribute.parts(SEQUENCE)
    if len(parts) != 2:
        raise DerError("an attribute that is not a pair")
    identifier, value = parts[0].identifier(), parts[1]
    charset = _CHARSETS.get(value.tag)
    text = None if charset is None else _decoded(value.content, charset)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or text is None:
        return f"{keyword or identifier}=#{_encoded(value).hex()}"
    return f"{keyword}={_escaped(text)}"


def _encoded(value: Element) -> bytes:
    """A value with its tag and its length in the shortest form."""
    size = len(value.content)
    length = bytes([size]) if size < 0x80 else size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([value.tag]) + (bytes([0x80 | len(length)]) if size >= 0x80 else b"") + length + value.content


def _decoded(content: bytes, charset: str) -> str:
    """A text, with a replacement character wherever Java has one."""
    if charset == _UTF16:
        return "".join(_utf16_characters(content))
    if charset == "utf-8":
        content = _ENCODED_SURROGATE.sub(_REPLACEMENT.encode(), content)
    return content.decode(charset, "replace")


def _utf16_characters(content: bytes) -> Iterator[str]:
    """The characters of a BMPString, which may not have any beyond U+FFFF. As in Java, half of such a character is
    replaced, together with the character after it if it is the first half."""
    offset = 0
    while offset < len(content):
        size = 4 if 0xD8 <= content[offset] < 0xDC else 2
        character = content[offset : offset + size].decode(_UTF16, "replace")
        if character > _BMP_LAST:
            raise DerError("a BMPString with a character that it cannot have")
        yield character if size == 2 else _REPLACEMENT
        offset += size


def _escaped(text: str) -> str:
    """A value with its special characters escaped, and the white space around it."""
    text = _ESCAPED.sub(r"\\\g<0>", text).replace("\0", "\\00")
    inner = text.lstrip(_OUTER_SPACE)
    lead, inner = len(text) - len(inner), inner.rstrip(_OUTER_SPACE)
    start, end = text[:lead], text[lead + len(inner) :]
    return "".join("\\" + space for space in start) + inner + "".join("\\" + space for space in end)
