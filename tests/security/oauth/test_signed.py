"""Signed tokens: which are accepted, and that nobody gets in with others."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from harness.oauth_issuer import NOW_MS, NOW_S, Kind, claims, jwk, jwks, private_key, section, signed, unsecured
from kwire.security.oauth.keys import KEYS_MAX, KeySet
from kwire.security.oauth.signed import SignedTokens, TokenRules
from kwire.security.oauth.tokens import BearerToken, TokenRefused

ANY = TokenRules()
ALL: tuple[Kind, ...] = ("RSA", "P-256", "P-384", "P-521", "Ed25519")


class Source:
    """Keys that change once, when they are fetched anew."""

    def __init__(self, keys: KeySet, later: KeySet | None = None) -> None:
        self.keys = keys
        self.later = later
        self.fetches = 0

    def refreshed(self) -> Any:
        self.fetches += 1
        return None if self.later is None else self._refresh(self.later)

    async def _refresh(self, later: KeySet) -> None:
        self.keys = later


def checker(rules: TokenRules = ANY, now_ms: int = NOW_MS, source: Source | None = None) -> SignedTokens:
    source = Source(KeySet.parse(jwks(*(jwk(kind) for kind in ALL)))) if source is None else source
    return SignedTokens(rules, source, lambda: now_ms)


def refusal(token: str, rules: TokenRules = ANY, now_ms: int = NOW_MS) -> str:
    with pytest.raises(TokenRefused) as raised:
        checker(rules, now_ms)(token)
    assert raised.value.status == "invalid_token"
    assert raised.value.scope is None
    return str(raised.value)


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        *(("RSA", name) for name in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")),
        ("P-256", "ES256"),
        ("P-384", "ES384"),
        ("P-521", "ES512"),
        ("Ed25519", "EdDSA"),
    ],
)
def test_a_token_with_an_asymmetric_signature_is_accepted(kind: Kind, algorithm: str) -> None:
    assert checker()(signed(kind, algorithm)) == BearerToken("alice", (NOW_S + 600) * 1000)


def test_a_token_is_accepted_again_until_it_expires() -> None:
    token = signed(exp=NOW_S + 60)
    assert checker(TokenRules(clock_skew_s=0), (NOW_S + 59) * 1000)(token)
    assert refusal(token, TokenRules(clock_skew_s=0), (NOW_S + 60) * 1000) == "the token has expired"


def test_a_token_may_leave_out_which_key_has_signed_it() -> None:
    assert checker()(signed(headers={}))


def test_a_token_without_a_key_id_is_not_reason_to_fetch_keys() -> None:
    source = Source(KeySet.parse(jwks(jwk("P-256"))))
    with pytest.raises(TokenRefused):
        checker(source=source)(signed(headers={}))
    assert source.fetches == 0


@pytest.mark.parametrize(
    ("more", "rules"),
    [
        ({"exp": NOW_S - 29, "iat": NOW_S - 600}, TokenRules()),
        ({"nbf": NOW_S + 30}, TokenRules()),
        ({"exp": NOW_S + 0.5}, TokenRules()),
        ({"iss": "anybody"}, TokenRules()),
        ({"iss": "https://issuer"}, TokenRules(issuer="https://issuer")),
        ({"aud": "kafka"}, TokenRules(audiences=("kafka",))),
        ({"aud": ["other", "kafka"]}, TokenRules(audiences=("kafka", "more"))),
        ({"scope": "a b"}, TokenRules()),
        ({"scp": ["a", "b"]}, TokenRules(scope_claim="scp")),
        ({"scope": 7}, TokenRules()),
    ],
)
def test_claims_that_fit_are_accepted(more: dict[str, Any], rules: TokenRules) -> None:
    assert checker(rules)(signed(**more))


@pytest.mark.parametrize(
    ("more", "rules", "reason"),
    [
        ({"exp": NOW_S - 30}, TokenRules(), "the token has expired"),
        ({"exp": NOW_S - 30.5}, TokenRules(), "the token has expired"),
        ({"exp": None}, TokenRules(), "exp and iat are required"),
        ({"iat": None}, TokenRules(), "exp and iat are required"),
        ({"nbf": NOW_S + 31}, TokenRules(), "the token is not valid yet"),
        ({"exp": NOW_S + 5, "iat": NOW_S + 6}, TokenRules(), "exp is before iat or nbf"),
        ({"exp": NOW_S + 5, "nbf": NOW_S + 6}, TokenRules(), "exp is before iat or nbf"),
        ({"exp": str(NOW_S + 600)}, TokenRules(), "exp is not a date"),
        ({"exp": True}, TokenRules(), "exp is not a date"),
        ({"exp": 10**30}, TokenRules(), "exp is not a date"),
        ({"exp": -1}, TokenRules(), "exp is not a date"),
        ({"iat": [1]}, TokenRules(), "iat is not a date"),
        ({"iss": "other"}, TokenRules(issuer="https://issuer"), "iss is not sasl.oauthbearer.expected.issuer"),
        ({}, TokenRules(issuer="https://issuer"), "iss is not sasl.oauthbearer.expected.issuer"),
        ({"iss": ["https://issuer"]}, TokenRules(), "iss is not a text"),
        ({"aud": "other"}, TokenRules(audiences=("kafka",)), "aud is not one of sasl.oauthbearer.expected.audience"),
        ({}, TokenRules(audiences=("kafka",)), "there is no aud"),
        ({"aud": "kafka"}, TokenRules(), "aud is not one of sasl.oauthbearer.expected.audience"),
        ({"aud": [1]}, TokenRules(audiences=("kafka",)), "aud is neither a text nor a list of texts"),
        ({"aud": {}}, TokenRules(), "aud is neither a text nor a list of texts"),
        ({"sub": None}, TokenRules(), "there is no sub, or it is no text"),
        ({"sub": "\ud800"}, TokenRules(), "there is no sub, or it is no text"),
        ({"sub": " "}, TokenRules(), "there is no sub, or it is no text"),
        ({}, TokenRules(subject_claim="email"), "there is no email, or it is no text"),
        ({"email": 1}, TokenRules(subject_claim="email"), "there is no email, or it is no text"),
        ({"scope": ""}, TokenRules(), "a scope is blank or no text"),
        ({"scope": ["a", "a "]}, TokenRules(), "a scope comes twice"),
        ({"scope": [1]}, TokenRules(), "a scope is blank or no text"),
    ],
)
def test_claims_that_do_not_fit_are_refused(more: dict[str, Any], rules: TokenRules, reason: str) -> None:
    # PyJWT encodes only proper types: the payload is signed as it is.
    from jwt import PyJWS

    token = PyJWS().encode(json.dumps(claims(**more)).encode(), private_key("RSA"), "RS256", {"kid": "RSA"})
    assert refusal(token, rules) == reason


@pytest.mark.parametrize(
    "payload",
    [
        b'{"sub":"alice","iat":1,"exp":NaN}',
        b'{"sub":"alice","iat":1,"exp":Infinity}',
        b'{"sub":"alice","iat":1,"exp":1e999}',
        b'{"sub":"alice","iat":1,"exp":1800000000,"exp":1900000000}',
        b'{"sub":"alice","iat":1,"exp":' + b"9" * 5000 + b"}",
        b'["sub"]',
        b"7",
        b"",
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_a_payload_that_is_read_in_two_ways_is_refused(payload: bytes) -> None:
    from jwt import PyJWS

    refusal(PyJWS().encode(payload, private_key("RSA"), "RS256", {"kid": "RSA"}))


def test_the_subject_comes_from_the_claim_that_is_named() -> None:
    token = signed(email=" bob@example.com ")
    assert checker(TokenRules(subject_claim="email"))(token) == BearerToken("bob@example.com", (NOW_S + 600) * 1000)


@pytest.mark.parametrize("name", ["none", "None", "NONE", "", "HS256", "HS512", "ES256K", "dir", None, 7, ["RS256"]])
def test_other_algorithms_are_refused(name: Any) -> None:
    header = {"alg": name, "kid": "RSA"}
    text = "the token's algorithm is not accepted: signatures with asymmetric keys only"
    assert refusal(f"{section(header)}.{section(claims())}.AAAA") == text


def test_a_token_without_a_signature_is_refused() -> None:
    assert refusal(unsecured()) == "the token does not have three sections"


@pytest.mark.parametrize("form", ["pem", "der", "jwk", "n"])
def test_the_public_key_is_no_secret_to_sign_with(form: str) -> None:
    public = private_key("RSA").public_key()
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(jwk("RSA")).encode(),
        "n": jwk("RSA")["n"].encode(),
    }[form]
    signing_input = f"{section({'alg': 'HS256', 'kid': 'RSA'})}.{section(claims())}"
    signature = hmac.digest(secret, signing_input.encode(), hashlib.sha256)
    refusal(f"{signing_input}.{section(signature)}")


def test_a_symmetric_key_of_the_set_verifies_nothing() -> None:
    secret = b"s" * 32
    keys = KeySet.parse(jwks({"kty": "oct", "kid": "secret", "k": section(secret)}, jwk("RSA")))
    signing_input = f"{section({'alg': 'HS256', 'kid': 'secret'})}.{section(claims())}"
    token = f"{signing_input}.{section(hmac.digest(secret, signing_input.encode(), hashlib.sha256))}"
    with pytest.raises(TokenRefused):
        checker(source=Source(keys))(token)


def test_another_key_of_the_same_name_is_refused() -> None:
    assert refusal(signed("other RSA", headers={"kid": "RSA"})) == "the signature is wrong"


def test_a_key_in_the_token_itself_is_not_used() -> None:
    headers = {"jwk": jwk("other RSA"), "jku": "https://attacker/keys", "x5u": "https://attacker/keys"}
    assert refusal(signed("other RSA", headers=headers)) == "the signature is wrong"


def test_a_changed_payload_is_refused() -> None:
    header, _, signature = signed().split(".")
    assert refusal(f"{header}.{section(claims(sub='bob'))}.{signature}") == "the signature is wrong"


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"crit": ["exp"]}, "the token has extensions that are not supported"),
        ({"crit": []}, "the token has extensions that are not supported"),
        ({"b64": False, "crit": ["b64"]}, "the token has extensions that are not supported"),
        ({"kid": 7}, "the token's key id is not a text, or too long"),
        ({"kid": "k" * 1001}, "the token's key id is not a text, or too long"),
    ],
)
def test_headers_that_are_not_understood_are_refused(headers: dict[str, Any], reason: str) -> None:
    header = {"alg": "RS256", "kid": "RSA", **headers}
    assert refusal(f"{section(header)}.{section(claims())}.AAAA") == reason


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        "a.b",
        "a.b.c.d.e",
        "!.b.c",
        "a.b.c",
        "é.b.c",
        f"{section({'alg': 'RS256'})}.?.AAAA",
        f"{section({'alg': 'RS256'})}.AAAA.?",
        f"{section({'alg': 'RS256'})}=.AAAA.AAAA",
        f"{section(b'[' * 50_000)}.AAAA.AAAA",
        f"{section(b'[]')}.AAAA.AAAA",
        "A" * 400_000,
        "." * 400_000,
        f"{section({'alg': 'RS256', 'x': 'x' * 300_000})}.AAAA.AAAA",
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    refusal(token)


def test_a_long_header_is_not_decoded() -> None:
    header = {"alg": "RS256", "kid": "RSA", "x5c": ["x" * 20_000]}
    assert refusal(f"{section(header)}.{section(claims())}.AAAA") == "the token's header is too long"


async def test_an_unknown_key_is_looked_for_once() -> None:
    source = Source(KeySet.parse(jwks(jwk("RSA"))), KeySet.parse(jwks(jwk("RSA"), jwk("P-256"))))
    later = checker(source=source)(signed("P-256", "ES256"))
    assert not isinstance(later, BearerToken)
    assert (await later).subject == "alice"
    assert source.fetches == 1


async def test_a_key_that_stays_unknown_is_refused() -> None:
    source = Source(KeySet.parse(jwks(jwk("RSA"))), KeySet.parse(jwks(jwk("RSA"))))
    later = checker(source=source)(signed("P-256", "ES256"))
    assert not isinstance(later, BearerToken)
    with pytest.raises(TokenRefused, match="key is unknown"):
        await later


def test_a_key_verifies_only_the_algorithm_that_it_names() -> None:
    source = Source(KeySet.parse(jwks(jwk("RSA", alg="RS512"))))
    assert checker(source=source)(signed(algorithm="RS512"))
    with pytest.raises(TokenRefused):
        checker(source=source)(signed(algorithm="RS256"))


@pytest.mark.parametrize(
    "useless",
    [
        {"kty": "oct", "k": "AAAA"},
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {"kty": "RSA"},
        {"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"},
        {"kty": "EC", "crv": "secp256k1"},
        {"kty": ["RSA"]},
        {"kty": "EC", "crv": {}},
        {"kty": None},
        {},
        None,
        7,
        jwk("short RSA"),
        jwk("RSA", use="enc"),
        jwk("RSA", key_ops=["encrypt"]),
        jwk("RSA", alg="HS256"),
    ],
)
def test_a_useless_key_does_no_harm_to_the_others(useless: Any) -> None:
    assert len(KeySet.parse(jwks(useless, jwk("P-256")))) == 1
    with pytest.raises(ValueError, match="none of its keys can verify signatures"):
        KeySet.parse(jwks(useless))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b'{"keys": 7}', b'{"keys": []}', b"<html>", b"[" * 100_000])
def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(it is not|none of its keys)"):
        KeySet.parse(data)


def test_a_set_with_very_many_keys_is_cut_off() -> None:
    assert len(KeySet.parse(jwks(*[jwk("P-256")] * (KEYS_MAX + 10)))) == KEYS_MAX


def test_a_token_without_a_key_id_is_tried_with_a_few_keys_only() -> None:
    keys = KeySet.parse(jwks(*[jwk("P-256")] * 100))
    assert len(keys.find(None, "ES256")) == 4
