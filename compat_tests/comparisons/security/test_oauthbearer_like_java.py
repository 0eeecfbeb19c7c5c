"""OAUTHBEARER beside Kafka's own classes: the client's first message, signed and unsecured tokens."""

from __future__ import annotations

import json
import random
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jwt import PyJWS

from compat_tests.java_programs import Oracle
from compat_tests.needs import need
from harness.kafka_jars import why_no_java
from harness.oauth_issuer import Kind, jwk, jwks, private_key, section
from kwire.security.errors import InvalidCredentials
from kwire.security.oauth.keys import KeySet
from kwire.security.oauth.signed import SignedTokens, TokenRules
from kwire.security.oauth.tokens import TokenRefused
from kwire.security.oauth.unsecured import UnsecuredRules, UnsecuredTokens, unsecured_token
from kwire.security.sasl.oauthbearer import InitialResponse

PREFIX = "sasl.oauthbearer."
PACKAGE = "org.apache.kafka.common.security.oauthbearer."
ALGORITHMS: dict[Kind, tuple[str, ...]] = {
    "RSA": ("RS256", "PS384"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "Ed25519": ("EdDSA",),
}
CASES = 2000


class OAuthOracle:
    """Kafka's own classes; see `OAuthOracle.java` for its questions."""

    def __init__(self) -> None:
        self._oracle = Oracle(Path(__file__).with_name("OAuthOracle.java"))

    def ask(self, **question: Any) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._oracle.ask(json.dumps(question)))
        return answer

    def first(self, message: bytes) -> InitialResponse | None:
        """What is in a first message; None if it is refused."""
        answer = self.ask(first=b64encode(message).decode())
        return None if "refused" in answer else InitialResponse(**answer)

    def token(self, token: str, validator: str, configs: dict[str, Any], options: dict[str, str]) -> Any:
        """(subject, end in ms) of a token, or the status with which it is refused, and the scope."""
        answer = self.ask(token=token, validator=validator, configs=configs, options=options)
        if "refused" in answer:
            return (answer["refused"], answer["scope"]) if validator == "unsecured" else None
        return answer["subject"], answer["expires_ms"]

    def close(self) -> None:
        self._oracle.close()


class Signed:
    """A validator of each kind with the same keys, and one of Kafka's that has none."""

    def __init__(self, oracle: OAuthOracle, folder: Path) -> None:
        keys = jwks(*(jwk(kind) for kind in ALGORITHMS), {"kty": "oct", "kid": "secret", "k": section(b"s" * 32)})
        path = folder / "keys.json"
        path.write_bytes(keys)
        self._oracle = oracle
        self._keys = keys
        self._url = path.as_uri()

    def kafka(self, token: str, rules: TokenRules, validator: str = "BrokerJwtValidator") -> Any:
        configs: dict[str, Any] = {
            f"{PREFIX}clock.skew.seconds": rules.clock_skew_s,
            f"{PREFIX}scope.claim.name": rules.scope_claim,
            f"{PREFIX}sub.claim.name": rules.subject_claim,
            f"{PREFIX}expected.audience": list(rules.audiences),
        }
        if rules.issuer is not None:
            configs[f"{PREFIX}expected.issuer"] = rules.issuer
        if validator == "BrokerJwtValidator":
            configs[f"{PREFIX}jwks.endpoint.url"] = self._url
        return self._oracle.token(token, PACKAGE + validator, configs, {})

    def kwire(self, token: str, rules: TokenRules) -> Any:
        class Source:
            keys = KeySet.parse(self._keys)

            def refreshed(self) -> None:
                return None

        try:
            found = SignedTokens(rules, Source(), now_ms)(token)
        except TokenRefused:
            return None
        assert isinstance(found, tuple)
        return tuple(found)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def oracle() -> Iterator[OAuthOracle]:
    need(why_no_java())
    oracle = OAuthOracle()
    yield oracle
    oracle.close()


@pytest.fixture(scope="module")
def signed(oracle: OAuthOracle, tmp_path_factory: pytest.TempPathFactory) -> Signed:
    folder: Path = tmp_path_factory.mktemp("keys")
    return Signed(oracle, folder)


def parsed(message: bytes) -> InitialResponse | None:
    try:
        return InitialResponse.parse(message)
    except InvalidCredentials:
        return None


PIECES = (
    *(b"n", b"y", b"p=x", b",", b",", b",,", b"a=", b"alice", b"=2C", b"=3D", b"=", b"\x01", b"\x01", b"auth=Bearer "),
    *(b"auth=", b"bearer", b" ", b"  ", b"x.y-z_~+/", b"==", b"key=value", b"k=", b"auth", b"\t\r\n", b"\x00", b"\x7f"),
    *(b"\xc3\xa4", b"\xff", b"\n", b"k\xc3\xa4=v", b"K=!~", b"host=a b", b"n,,\x01", b"\x01\x01"),
)


def first_message(choice: random.Random) -> bytes:
    """A message that is right, almost right, or anything."""
    if choice.random() < 0.1:
        return b"".join(choice.choices(PIECES, k=choice.randrange(12)))
    identity = choice.choice([b"", b"", b"a=alice", b"a=b=2Cc", b"a=\x01"])
    pairs = [b"auth=Bearer x.y.z", *choice.choices([b"k=v", b"traceId=1", b"k=a=b", b"auth=bearer  y"], k=2)]
    choice.shuffle(pairs)
    message = bytearray(b"n,%s,\x01%s\x01\x01" % (identity, b"\x01".join(pairs[: choice.randrange(4)])))
    for _ in range(choice.choice([0, 0, 1, 2])):
        at = choice.randrange(len(message) + 1)
        message[at : at + choice.randrange(3)] = choice.choice(PIECES) if choice.random() < 0.7 else b""
    return bytes(message)


def test_first_messages_are_read_like_kafkas(oracle: OAuthOracle) -> None:
    choice = random.Random("first messages")
    accepted = 0
    for _ in range(CASES):
        message = first_message(choice)
        expected = oracle.first(message)
        assert parsed(message) == expected, message
        accepted += expected is not None
    assert CASES / 10 < accepted < CASES * 9 / 10


def token_of(choice: random.Random, claims: dict[str, Any]) -> str:
    kind = choice.choice(list(ALGORITHMS))
    headers = {"kid": choice.choice([kind, kind, kind, "unknown"])} if choice.random() < 0.8 else {}
    payload = json.dumps(claims).encode()
    return PyJWS().encode(payload, private_key(kind), choice.choice(ALGORITHMS[kind]), headers or {"x": 1})


def some_claims(choice: random.Random) -> dict[str, Any]:
    """Claims that fit for the most part; times are far enough from now for a slow test."""
    now_s = now_ms() // 1000

    def pick(*values: Any) -> Any:
        return values[0] if choice.random() < 0.7 else choice.choice(values)

    found = {
        "sub": pick("alice", " bob ", "", " ", 7, None, ["a"], "ä=,"),
        "iat": pick(now_s - 1000, now_s + 1000, str(now_s), None, now_s - 1000.5, True, 0),
        "exp": pick(now_s + 1000, now_s - 1000, now_s - 15, now_s + 1000.75, str(now_s), None, now_s - 5000, 0),
        "nbf": pick(None, now_s - 1000, now_s + 1000, now_s + 15, now_s + 5000, "x", 0),
        "iss": pick("issuer", "other", None, 7, ["issuer"]),
        "aud": pick("kafka", None, "other", ["kafka"], ["other", "kafka"], [], [7], 7, {}),
        "scope": pick("a b", ["a", "b"], ["a", "a "], "", " ", [""], 7, None, [], ["a", None]),
        "jti": pick(None, "x", 7),
        "email": pick("alice@example.com", None, ""),
    }
    return {name: value for name, value in found.items() if value is not None}


def some_rules(choice: random.Random) -> TokenRules:
    return TokenRules(
        issuer=choice.choice([None, "issuer"]),
        audiences=choice.choice([("kafka",), ("more", "kafka"), ("kafka",), ()]),
        clock_skew_s=choice.choice([30, 0]),
        subject_claim=choice.choice(["sub", "sub", "email"]),
    )


def test_signed_tokens_are_accepted_like_kafkas(signed: Signed) -> None:
    choice = random.Random("signed tokens")
    accepted = 0
    for _ in range(CASES):
        claims, rules = some_claims(choice), some_rules(choice)
        token = token_of(choice, claims)
        expected = signed.kafka(token, rules)
        assert signed.kwire(token, rules) == expected, (claims, rules)
        accepted += expected is not None
    assert accepted > CASES / 50


def test_a_symmetric_key_of_the_set_is_used_by_kafka_and_not_by_kwire(signed: Signed) -> None:
    """Whoever can read the set could sign: kwire is stricter."""
    now_s = now_ms() // 1000
    payload = json.dumps({"sub": "mallory", "iat": now_s, "exp": now_s + 100}).encode()
    token = PyJWS().encode(payload, b"s" * 32, "HS256", {"kid": "secret"})
    assert signed.kafka(token, TokenRules())[0] == "mallory"
    assert signed.kwire(token, TokenRules()) is None


def test_without_keys_kafka_checks_no_signature(signed: Signed) -> None:
    """Why kwire does not start without `sasl.oauthbearer.jwks.endpoint.url` (compare CVE-2026-33557)."""
    now_s = now_ms() // 1000
    header, claims = {"alg": "RS256"}, {"sub": "mallory", "iat": now_s, "exp": now_s + 100, "scope": "a"}
    token = f"{section(header)}.{section(claims)}.{section(b'no signature')}"
    assert signed.kafka(token, TokenRules(), "DefaultJwtValidator") == ("mallory", (now_s + 100) * 1000)
    assert signed.kafka(token, TokenRules()) is None
    assert signed.kwire(token, TokenRules()) is None


UNSECURED_OPTIONS: tuple[dict[str, str], ...] = (
    {},
    {"unsecuredValidatorRequiredScope": "a b"},
    {"unsecuredValidatorAllowableClockSkewMs": "30000"},
    {"unsecuredValidatorPrincipalClaimName": "email", "unsecuredValidatorScopeClaimName": "scp"},
)


def test_unsecured_tokens_are_accepted_like_kafkas(oracle: OAuthOracle) -> None:
    choice = random.Random("unsecured tokens")
    accepted = 0
    for _ in range(CASES):
        options, claims = choice.choice(UNSECURED_OPTIONS), some_claims(choice)
        header = choice.choice([{"alg": "none"}] * 8 + [{"alg": "RS256"}, {"alg": "None"}])
        token = f"{section(header)}.{section(claims)}.{choice.choice([''] * 9 + ['AAAA'])}"
        expected = oracle.token(token, "unsecured", {}, options)
        try:
            found: Any = tuple(UnsecuredTokens(UnsecuredRules.of(options), now_ms)(token))
        except TokenRefused as error:
            found = error.status, error.scope
        assert found == expected, (header, claims, options)
        accepted += expected[0] not in ("invalid_token", "insufficient_scope")
    assert accepted > CASES / 10


def test_kafka_accepts_the_unsecured_tokens_that_kwire_makes(oracle: OAuthOracle) -> None:
    options = {"unsecuredLoginStringClaim_sub": "admin", "unsecuredLoginListClaim_scope": ",a,b"}
    token = unsecured_token(options, now_ms())
    assert oracle.token(token, "unsecured", {}, {"unsecuredValidatorRequiredScope": "a b"})[0] == "admin"
