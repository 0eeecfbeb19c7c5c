"""OAuth tokens of somebody who has a token of bob's and wants to be alice: forged, spliced, malformed and huge.

What lives elsewhere: keys and the signing of tokens (`harness.oauth_issuer`).
"""

from __future__ import annotations

import hmac
import json
import random
from base64 import urlsafe_b64encode
from typing import Any, Final, NamedTuple

import jwt

from harness.oauth_issuer import jwk, private_key, section

ISSUER: Final = "issuer"
AUDIENCE: Final = "kafka"
DEPTH: Final = 3000
HEADERS: Final = {
    "bad JSON": b"{alg:RS256}",
    "deep JSON": b"[" * DEPTH,
    "a deep header": b'{"a":' * DEPTH + b"1" + b"}" * DEPTH,
    "a list as header": b"[]",
    "a list as algorithm": b'{"alg":["RS256"],"kid":"RSA"}',
    "algorithms twice": b'{"alg":"none","alg":"RS256","kid":"RSA"}',
    "no UTF-8": b"\xff\xfe",
}


class Tokens(NamedTuple):
    """``good``: bob's. ``bad``: those that nobody may log in with, by what is wrong with them."""

    good: tuple[str, ...]
    bad: dict[str, str]


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def made(now_s: int) -> Tokens:
    """Tokens at a time. Their signatures are computed once: a thousand in a second would cost too much."""
    bob = {"sub": "bob", "iss": ISSUER, "aud": AUDIENCE, "iat": now_s - 10, "exp": now_s + 600}
    alice = {**bob, "sub": "alice"}
    good = _signed(bob)
    _, payload, signature = good.split(".")
    forged = section(alice)
    rs256 = section({"alg": "RS256", "kid": "RSA"})
    es256 = section({"alg": "ES256", "kid": "P-256"})
    bad = {
        "no signature": f"{section({'alg': 'none'})}.{forged}.",
        "none and a signature": f"{section({'alg': 'none', 'kid': 'RSA'})}.{forged}.{signature}",
        "None": f"{section({'alg': 'nOnE', 'kid': 'RSA'})}.{forged}.{signature}",
        "bob's signature": f"{rs256}.{forged}.{signature}",
        "another algorithm": f"{section({'alg': 'PS256', 'kid': 'RSA'})}.{payload}.{signature}",
        "another key's name": f"{section({'alg': 'RS256', 'kid': 'P-256'})}.{payload}.{signature}",
        "a signature of zeros": f"{es256}.{forged}.{_encoded(bytes(64))}",
        "an empty signature": f"{rs256}.{forged}.",
        "another key": _signed(alice, kind="other RSA"),
        "its own key in the header": _signed(alice, "other RSA", jwk=jwk("other RSA", kid="RSA")),
        "a URL of its own keys": _signed(alice, "other RSA", jku="http://127.0.0.1:1/keys", x5u="http://127.0.0.1:1/"),
        "expired": _signed({**alice, "iat": now_s - 7200, "exp": now_s - 3600}),
        "of the future": _signed({**alice, "nbf": now_s + 3600}),
        "another issuer": _signed({**alice, "iss": "other"}),
        "another audience": _signed({**alice, "aud": ["other"]}),
        "no subject": _signed({**alice, "sub": None}),
        "a list as subject": _signed({**alice, "sub": ["alice"]}),
        "infinite": _signed({**alice, "exp": float("inf")}),
        "no number": _signed({**alice, "exp": float("nan")}),
        "a text as time": _signed({**alice, "exp": "9999999999"}),
        "critical extensions": _signed(bob, crit=["b64"], b64=False),
        "five sections": f"{good}.{signature}.{signature}",
        "a huge payload": f"{rs256}.{'A' * 120_000}.{signature}",
        "a huge signature": f"{rs256}.{forged}.{'A' * 120_000}",
        "a huge header": f"{'A' * 120_000}.{forged}.{signature}",
    }
    for name, header in HEADERS.items():
        bad[name] = f"{_encoded(header)}.{forged}.{signature}"
    for secret_name, secret in _public_forms().items():
        bad[f"HS256 with {secret_name}"] = _hs256(alice, secret)
    return Tokens((good, _signed(bob, "P-256", algorithm="ES256"), _signed({**bob, "aud": ["x", AUDIENCE]})), bad)


def unknown_key(token: str, chance: random.Random) -> str:
    """A token with a key id of its own: each asks for the issuer's keys."""
    _, payload, signature = token.split(".")
    key_id: Any = chance.choice((f"key {chance.randrange(1 << 40)}", "k" * 1000, "k" * 1001, "", "\0", "RSA "))
    return f"{section({'alg': 'RS256', 'kid': key_id})}.{payload}.{signature}"


def _signed(claims: dict[str, Any], kind: Any = "RSA", algorithm: str = "RS256", **header: Any) -> str:
    """A token whose header names the issuer's key, whoever has signed it."""
    name = "RSA" if kind == "other RSA" else kind
    payload = json.dumps({key: value for key, value in claims.items() if value is not None}).encode()
    return jwt.PyJWS().encode(payload, private_key(kind), algorithm, {"kid": name, **header}, is_payload_detached=False)


def _public_forms() -> dict[str, bytes]:
    """The public key in the forms that an attacker may take for a secret."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = private_key("RSA").public_key()
    pem: bytes = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return {
        "PEM": pem,
        "PEM without the last line end": pem.strip(),
        "DER": der,
        "n": jwk("RSA")["n"].encode(),
        "": b"",
    }


def _hs256(claims: dict[str, Any], secret: bytes) -> str:
    signed = f"{section({'alg': 'HS256', 'kid': 'RSA'})}.{section(claims)}"
    return f"{signed}.{_encoded(hmac.digest(secret, signed.encode(), 'sha256'))}"
