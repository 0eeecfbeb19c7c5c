"""The public keys of a JSON Web Key Set (RFC 7517), and the signatures they verify (RFC 7515).

Only asymmetric algorithms are supported: symmetric keys in a set are left out, because anyone who can read the set
could sign tokens with them. A key verifies only algorithms of its own type and curve, and only the one that it names,
if it names one. As in Kafka (jose4j), RSA keys of less than 2048 bits are left out. Unusable keys in a set do not
affect the others. `jwt` (PyJWT) and `cryptography` are imported when the first set is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kwire.security.oauth.tokens import TokenRefused

KEYS_MAX: Final = 256
"""The most keys that are read from a set; the others are ignored."""

ATTEMPTS_MAX: Final = 4
"""The most keys that are tried for one token; more than one only if the token does not name its key."""

RSA_BITS_MIN: Final = 2048

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_ALGORITHMS: Final = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_PUBLIC: Final = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y"), "OKP": ("kty", "crv", "x")}

ALGORITHMS: Final = frozenset(name for names in _ALGORITHMS.values() for name in names)
"""The algorithms of signatures that are verified."""


class VerificationKey(NamedTuple):
    """A public key. ``id``: its name in the set, if it has one. ``key``: an object of `cryptography`."""

    id: str | None
    algorithms: tuple[str, ...]
    key: Any


class KeySet:
    """The keys of a set that can be used."""

    def __init__(self, keys: tuple[VerificationKey, ...]) -> None:
        self._keys = keys

    @classmethod
    def parse(cls, data: bytes) -> KeySet:
        """Read a JSON Web Key Set. `ValueError`, one line, if it is malformed or has no usable key."""
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON") from None
        keys = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(keys, list):
            raise ValueError("it is not a JSON Web Key Set: it has no list named keys")
        usable = tuple(key for each in keys[:KEYS_MAX] if (key := _key(each)) is not None)
        if not usable:
            raise ValueError("none of its keys can verify signatures: RSA of 2048 bits, EC or Ed25519 is needed")
        return cls(usable)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str | None, algorithm: str) -> tuple[VerificationKey, ...]:
        """The keys that may have signed a token: those of this name, or all if the token names none."""
        fitting = (each for each in self._keys if algorithm in each.algorithms and key_id in (None, each.id))
        return tuple(fitting)[:ATTEMPTS_MAX]


def verified_payload(token: str, algorithm: str, keys: tuple[VerificationKey, ...]) -> bytes:
    """The payload of a token that one of these keys has signed. `TokenRefused`."""
    from jwt import PyJWS
    from jwt.exceptions import InvalidSignatureError, PyJWTError

    verifier = PyJWS(algorithms=[algorithm])
    for each in keys:
        try:
            payload: bytes = verifier.decode_complete(token, each.key, algorithms=[algorithm])["payload"]
        except InvalidSignatureError:
            continue
        except (PyJWTError, ValueError, TypeError) as error:
            raise TokenRefused(f"the token cannot be verified: {type(error).__name__}") from None
        return payload
    raise TokenRefused("the signature is wrong")


def _key(found: Any) -> VerificationKey | None:
    """A key of a set; None if it cannot be used to verify signatures."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    if not isinstance(found, Mapping) or not _is_for_signatures(found):
        return None
    algorithms = _algorithms(found)
    if not algorithms:
        return None
    public = {name: found[name] for name in _PUBLIC[found["kty"]] if name in found}
    try:
        key = PyJWK(public, algorithms[0]).key
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None
    if found["kty"] == "RSA" and key.key_size < RSA_BITS_MIN:
        return None
    key_id = found.get("kid")
    return VerificationKey(key_id if isinstance(key_id, str) else None, algorithms, key)


def _is_for_signatures(found: Mapping[str, Any]) -> bool:
    operations = found.get("key_ops")
    return found.get("use") in (None, "sig") and (not isinstance(operations, list) or "verify" in operations)


def _algorithms(found: Mapping[str, Any]) -> tuple[str, ...]:
    """The algorithms that a key can verify: those of its type, or the one of them that it names."""
    kind, curve, named = found.get("kty"), found.get("crv"), found.get("alg")
    if not isinstance(kind, str) or not isinstance(curve, str | None):
        return ()
    possible = _ALGORITHMS.get((kind, None if kind == "RSA" else curve), ())
    return possible if named is None else tuple(each for each in possible if each == named)
