"""Cipher suites: the IANA names of Kafka's properties, and the OpenSSL names that `ssl` requires."""

from __future__ import annotations

import re
from typing import Final

TLS13_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3 that OpenSSL offers; their names are the same there. Python offers all of them or none."""

_SUITE: Final = re.compile(
    r"TLS_(?P<exchange>ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|DHE_DSS|RSA)"
    r"_WITH_(?P<cipher>AES_128_GCM|AES_256_GCM|AES_128_CBC|AES_256_CBC|CHACHA20_POLY1305)_(?P<hash>SHA|SHA256|SHA384)"
)


def openssl_name(suite: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2 and older; None if it has none (or the suite is one of TLS 1.3)."""
    match = _SUITE.fullmatch(suite)
    if match is None:
        return None
    exchange = "" if match["exchange"] == "RSA" else match["exchange"].replace("_", "-") + "-"
    cipher = match["cipher"].replace("AES_", "AES").replace("_CBC", "").replace("_", "-")
    if cipher.startswith("CHACHA20"):
        return exchange + cipher if exchange and match["hash"] == "SHA256" else None
    return f"{exchange}{cipher}-{match['hash']}"
