"""PEM texts: certificates and private keys, as in files and in Kafka's properties.

As in Kafka, text before, between and after the entries is ignored, and line ends may be missing: properties often have
a whole certificate on one line.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from kwire.security.tls.settings import StoreProblem

_BEGIN: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----")


def pem_entries(text: str, ending: str) -> list[bytes]:
    """The DER bytes of all entries whose label ends with a text (``CERTIFICATE``, ``PRIVATE KEY``).

    Raises `StoreProblem`, which does not quote the entry, if an entry is incomplete or not base64.
    """
    return [der for label, der in _entries(text) if label.endswith(ending)]


def pem_text(label: str, der: bytes) -> str:
    """One entry as PEM text."""
    encoded = base64.b64encode(der).decode()
    lines = [encoded[start : start + 64] for start in range(0, len(encoded), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def _entries(text: str) -> list[tuple[str, bytes]]:
    found, offset = [], 0
    while begin := _BEGIN.search(text, offset):
        label = begin[1]
        end_mark = f"-----END {label}-----"
        end = text.find(end_mark, begin.end())
        if end < 0:
            raise StoreProblem(f"its PEM entry {label} has no end")
        found.append((label, _decode(label, text[begin.end() : end])))
        offset = end + len(end_mark)
    return found


def _decode(label: str, body: str) -> bytes:
    """The bytes of an entry; lines with a colon are headers."""
    lines = (line for line in body.splitlines() if ":" not in line)
    try:
        return base64.b64decode("".join("".join(lines).split()), validate=True)
    except (ValueError, binascii.Error):
        raise StoreProblem(f"its PEM entry {label} is not base64") from None
