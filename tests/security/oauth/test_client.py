"""How a client gets a token: every grant, as the issuer sees it, and what it does not accept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from harness.oauth_issuer import pem_of, private_key, unsecured
from harness.processes.certificates import Certificates
from harness.processes.oauth import JWT_BEARER, OAuthServer, Refusal, Request, assertion, trusted
from kwire.base.config import ConfigError
from kwire.base.doors import Doors
from kwire.security.client import client_security
from kwire.security.oauth.client import ExpiringToken, RefreshRules, TokenClient, Unavailable, retrieve

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
CREDENTIALS = "sasl.oauthbearer.client.credentials.client."
ASSERTION = "sasl.oauthbearer.assertion."
ALICE = {f"{CREDENTIALS}id": "alice", f"{CREDENTIALS}secret": "alice-secret"}
BEARER = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}JwtBearerJwtRetriever"}


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    with OAuthServer() as server:
        yield server


def client(url: str, properties: dict[str, str], options: str = "") -> TokenClient:
    security = client_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{PACKAGE}OAuthBearerLoginModule required {options};",
            "sasl.oauthbearer.token.endpoint.url": url,
            **properties,
        }
    )
    assert security.token_client is not None
    return security.token_client


def subject(token: ExpiringToken) -> Any:
    return jwt.decode(token.token, options={"verify_signature": False})["sub"]


def signing(folder: Path, audience: str, algorithm: str = "ES256", **more: str) -> dict[str, str]:
    key = folder / "key.pem"
    key.write_text(pem_of("P-256" if algorithm == "ES256" else "RSA"))
    given = {"private.key.file": str(key), "algorithm": algorithm, "claim.aud": audience, "claim.sub": "alice", **more}
    return {f"{ASSERTION}{name}": value for name, value in given.items()}


def test_client_credentials_are_sent_as_kafkas_clients_do(server: OAuthServer) -> None:
    token = retrieve(client(server.token_url, {**ALICE, "sasl.oauthbearer.scope": "a b&c"}), Doors())
    assert subject(token) == "alice"
    assert 500 < token.expires_s - token.issued_s < 700
    (request,) = server.requests
    assert request.form == {"grant_type": "client_credentials", "scope": "a b&c"}
    assert request.headers["authorization"] == "Basic YWxpY2U6YWxpY2Utc2VjcmV0"
    assert request.headers["accept"] == "application/json"


def test_client_credentials_may_be_options_of_the_login_module(server: OAuthServer) -> None:
    options = 'clientId="bob" clientSecret="bob-secret" scope="s"'
    assert subject(retrieve(client(server.token_url, {}, options), Doors())) == "bob"
    assert subject(retrieve(client(server.token_url, ALICE, options), Doors())) == "alice"


@pytest.mark.parametrize("encoded", ["true", "false"])
def test_credentials_may_be_encoded_in_the_header(server: OAuthServer, encoded: str) -> None:
    odd = {f"{CREDENTIALS}id": "odd one", f"{CREDENTIALS}secret": "a:b+c%d é"}
    if encoded == "true":
        odd["sasl.oauthbearer.header.urlencode"] = encoded
    assert subject(retrieve(client(server.token_url, odd), Doors())) == "odd one"
    assert ("b2RkK29uZTphJTNBYiUyQmMlMjVkKyVDMyVBOQ==" in str(server.requests)) == (encoded == "true")


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_an_assertion_is_signed(server: OAuthServer, tmp_path: Path, algorithm: str) -> None:
    more = {"claim.iss": "issuer", "claim.jti.include": "true", "claim.exp.seconds": "60"}
    properties = signing(tmp_path, server.token_url, algorithm, **more)
    assert subject(retrieve(client(server.token_url, {**properties, **BEARER}), Doors())) == "alice"
    form = server.requests[0].form
    assert form["grant_type"] == JWT_BEARER
    claims = jwt.decode(form["assertion"], options={"verify_signature": False})
    assert (claims["iss"], claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == ("issuer", 60, 60)
    assert len(claims["jti"]) > 20


def test_an_assertion_takes_the_place_of_a_secret(server: OAuthServer, tmp_path: Path) -> None:
    properties = signing(tmp_path, server.token_url, **{"claim.iss": "alice"})
    assert subject(retrieve(client(server.token_url, {**properties, f"{CREDENTIALS}id": "me"}), Doors())) == "alice"
    assert server.requests[0].form["client_id"] == "me"
    assert "authorization" not in server.requests[0].headers


def test_an_assertion_may_come_from_a_file(server: OAuthServer, tmp_path: Path) -> None:
    path = tmp_path / "assertion"
    path.write_text(assertion(server.token_url, "bob") + "\n")
    assert subject(retrieve(client(server.token_url, {f"{ASSERTION}file": str(path), **BEARER}), Doors())) == "bob"
    path.unlink()
    with pytest.raises(Unavailable, match="No such file") as raised:
        retrieve(client(server.token_url, {f"{ASSERTION}file": str(path), **BEARER}), Doors())
    assert raised.value.final


def test_the_key_may_have_a_password_and_a_template_adds_claims(server: OAuthServer, tmp_path: Path) -> None:
    properties = signing(tmp_path, server.token_url, **{"private.key.passphrase": "planted"})
    encryption = BestAvailableEncryption(b"planted")
    pem = private_key("P-256").private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    Path(properties[f"{ASSERTION}private.key.file"]).write_bytes(pem)
    template = tmp_path / "template"
    template.write_text(json.dumps({"header": {"kid": "mine"}, "payload": {"team": "a", "sub": "nobody"}}))
    chosen = client(server.token_url, {**properties, **BEARER, f"{ASSERTION}template.file": str(template)})
    assert subject(retrieve(chosen, Doors())) == "alice"
    sent = server.requests[0].form["assertion"]
    assert jwt.get_unverified_header(sent)["kid"] == "mine"
    assert jwt.decode(sent, options={"verify_signature": False})["team"] == "a"
    assert "planted" not in repr(chosen)
    template.write_text("[]")
    with pytest.raises(Unavailable, match="cannot be used"):
        retrieve(chosen, Doors())


def test_the_issuers_certificate_is_checked(tmp_path: Path) -> None:
    certificates = Certificates.make(tmp_path)
    with OAuthServer(certificates.server) as server:
        good = client(server.token_url, ALICE, trusted(certificates.ca))
        assert subject(retrieve(good, Doors())) == "alice"
        for bad in (client(server.token_url, ALICE, trusted(certificates.other_ca)), client(server.token_url, ALICE)):
            with pytest.raises(Unavailable, match="certificate verify failed"):
                retrieve(bad, Doors())


@pytest.mark.parametrize(("status", "final"), [(400, True), (401, True), (404, True), (429, False), (500, False)])
def test_a_refusal_is_reported_without_the_secret(server: OAuthServer, status: int, final: bool) -> None:
    def refuse(_: Request) -> None:
        raise Refusal("some_error", HTTPStatus(status))

    server.before = refuse
    with pytest.raises(Unavailable, match=rf"HTTP status {status} \(some_error\)$") as raised:
        retrieve(client(server.token_url, ALICE), Doors())
    assert raised.value.final is final


class Answering(OAuthServer):
    """A token endpoint with a fixed answer."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.fixed = answer

    def granted(self, request: Request) -> dict[str, Any]:
        found: dict[str, Any] = self.fixed
        return found


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({}, "no access_token"),
        ([], "no access_token"),
        ({"access_token": 1, "id_token": " "}, "no access_token"),
        ({"access_token": "x.y"}, "three sections"),
        ({"access_token": "x.y.z"}, "not a JSON object|not base64url"),
        ({"access_token": unsecured(exp=None) + "x"}, "no exp"),
        ({"access_token": "x" * 2_000_000}, "more than 1048576 bytes"),
    ],
)
def test_an_answer_without_a_token_is_refused(answer: Any, reason: str) -> None:
    with Answering(answer) as server, pytest.raises(Unavailable, match=reason):
        retrieve(client(server.token_url, ALICE), Doors())


def test_a_redirect_is_not_followed(server: OAuthServer) -> None:
    def refuse(_: Request) -> None:
        raise Refusal("moved", HTTPStatus.TEMPORARY_REDIRECT)

    server.before = refuse
    with pytest.raises(Unavailable, match="HTTP status 307"):
        retrieve(client(server.token_url, ALICE), Doors())
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({}, rf"{CREDENTIALS}id: must be set"),
        ({f"{CREDENTIALS}id": "planted"}, rf"{CREDENTIALS}secret: must be set"),
        (BEARER, rf"{ASSERTION}private\.key\.file: must be set"),
        ({**BEARER, f"{ASSERTION}private.key.file": "k", f"{ASSERTION}algorithm": "HS256"}, "algorithm=HS256: must be"),
        ({"sasl.oauthbearer.jwt.retriever.class": "org.example.Own"}, "is not supported by kwire: only"),
        ({"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}FileJwtRetriever"}, "must be a file: URL"),
        ({**ALICE, "sasl.login.read.timeout.ms": "0"}, r"sasl\.login\.read\.timeout\.ms=0: must be at least 1"),
        ({**ALICE, "sasl.oauthbearer.token.endpoint.url": "ftp://a/"}, "must be a URL with https, http or file"),
        ({**ALICE, "sasl.oauthbearer.token.endpoint.url": "http://me:planted@a/"}, "must not have a user"),
        ({**BEARER, "sasl.oauthbearer.token.endpoint.url": "file:///token"}, "must be https: or http:"),
    ],
)
def test_wrong_settings_are_one_line(properties: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError, match=line) as raised:
        client("http://127.0.0.1:1/", properties)
    assert "\n" not in str(raised.value)
    assert "planted" not in str(raised.value)


def test_secrets_are_not_shown() -> None:
    assert "alice-secret" not in repr(client("http://127.0.0.1:1/", ALICE))
    assert "abc" not in repr(ExpiringToken("abc", 1, 2))


@pytest.mark.parametrize(
    ("token", "now_s", "chance", "expected_s"),
    [
        (ExpiringToken("", 0, 3600), 0, 0.0, 0.8 * 3600),
        (ExpiringToken("", 0, 3600), 0, 1.0, 0.85 * 3600),
        (ExpiringToken("", 0, 1000), 0, 1.0, 700),  # the buffer
        (ExpiringToken("", 0, 1000), 645, 0.0, 800),  # too short a rest: minimum and buffer do not count
        (ExpiringToken("", 0, 10_000), 9_600, 0.0, 9_660),
        (ExpiringToken("", 0, 100), 0, 0.0, 80),
    ],
)
def test_a_token_is_renewed_when_kafkas_rules_say_so(
    token: ExpiringToken, now_s: float, chance: float, expected_s: float
) -> None:
    assert token.refresh_at_s(now_s, RefreshRules(), chance) == pytest.approx(expected_s)
