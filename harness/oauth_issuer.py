"""An issuer of tokens for tests: keys of every kind, the set of the public ones, and tokens of any content."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

NOW_MS: Final = 1_700_000_000_000
NOW_S: Final = NOW_MS // 1000

Kind: TypeAlias = Literal["RSA", "other RSA", "short RSA", "P-256", "P-384", "P-521", "Ed25519"]


@cache
def private_key(kind: Kind) -> Any:
    """A private key: always the same of one kind."""
    if kind.endswith("RSA"):
        return rsa.generate_private_key(public_exponent=65537, key_size=1024 if kind == "short RSA" else 2048)
    if kind == "Ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    curves: dict[str, ec.EllipticCurve] = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
    return ec.generate_private_key(curves[kind])


def jwk(kind: Kind, **more: Any) -> dict[str, Any]:
    """The public key as a JSON Web Key."""
    key = private_key(kind).public_key()
    algorithm: Any = RSAAlgorithm if kind.endswith("RSA") else OKPAlgorithm if kind == "Ed25519" else ECAlgorithm
    return {**json.loads(algorithm.to_jwk(key)), "kid": kind, **more}


def jwks(*keys: dict[str, Any]) -> bytes:
    """A JSON Web Key Set."""
    return json.dumps({"keys": list(keys)}).encode()


def claims(**more: Any) -> dict[str, Any]:
    """The claims of a token that is accepted; None leaves one out."""
    found = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 600, **more}
    return {name: value for name, value in found.items() if value is not None}


def signed(kind: Kind = "RSA", algorithm: str = "RS256", headers: dict[str, Any] | None = None, **more: Any) -> str:
    """A token signed with a key. ``headers`` None: it names the key."""
    headers = {"kid": kind} if headers is None else headers
    return jwt.encode(claims(**more), private_key(kind), algorithm=algorithm, headers=headers)


def section(value: Any) -> str:
    """A section of a token: base64url, without padding."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def unsecured(header: Any = None, **more: Any) -> str:
    """A token without a signature."""
    return f"{section({'alg': 'none'} if header is None else header)}.{section(claims(**more))}."


def pem_of(kind: Kind) -> str:
    """A private key as PEM, without a password."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    found: bytes = private_key(kind).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return found.decode()
