"""Kafka's client properties, and the requests of a login."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.base.config import ConfigError
from kwire.base.doors import Doors
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.codec.messages.sasl_handshake_response import SaslHandshakeResponse
from kwire.security.client import PLAINTEXT, client_exchange, client_security, login_requests
from kwire.security.errors import AuthenticationError
from kwire.security.oauth.unsecured import UnsecuredRules, UnsecuredTokens
from kwire.security.sasl.oauthbearer import InitialResponse
from kwire.security.sasl.plain import ClientPlain
from kwire.security.sasl.scram import ClientScram

KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE = "sasl.kerberos.service.name"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
TOKEN = "sasl.oauthbearer.token.endpoint.url"
SECRET = "hunter2-planted"
PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{SECRET}";'
SCRAM = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="{SECRET}";'


def sasl(mechanism: str, jaas: str, protocol: str = "SASL_PLAINTEXT") -> dict[str, str]:
    return {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def test_without_properties_a_connection_is_plaintext() -> None:
    assert client_security({"bootstrap.servers": "a:1", "acks": "all"}) == PLAINTEXT


def test_the_properties_of_tls_have_kafkas_names_and_defaults() -> None:
    security = client_security(
        {
            "security.protocol": "ssl",
            "ssl.truststore.location": "/ca.pem",
            "ssl.truststore.type": "PEM",
            "ssl.keystore.certificate.chain": "chain",
            "ssl.endpoint.identification.algorithm": "",
            "ssl.enabled.protocols": "TLSv1.3",
        }
    )
    tls = security.tls
    assert tls is not None
    assert (tls.truststore_location, tls.truststore_type, tls.keystore_type) == ("/ca.pem", "PEM", "JKS")
    assert tls.keystore_certificate_chain == "chain"
    assert tls.endpoint_identification_algorithm == ""
    assert tls.enabled_protocols == ("TLSv1.3",)
    assert security.mechanism == ""


def test_a_login_is_the_mechanisms() -> None:
    assert isinstance(client_exchange(client_security(sasl("PLAIN", PLAIN)), Doors(), "localhost"), ClientPlain)
    assert isinstance(client_exchange(client_security(sasl("SCRAM-SHA-512", SCRAM)), Doors(), "localhost"), ClientScram)
    security = client_security(sasl("PLAIN", PLAIN, "SASL_SSL"))
    assert security.tls is not None
    assert SECRET not in repr(security)


def test_a_token_comes_from_a_file_each_time_or_from_the_login_module(tmp_path: Path) -> None:
    path = tmp_path / "token"
    options = f"{OAUTH} required extension_traceId=one"
    security = client_security(sasl("OAUTHBEARER", options + ";") | {TOKEN: path.as_uri()})
    for token in ("a.b.c", "d.e.f"):
        path.write_text(token + "\n")
        assert (
            client_exchange(security, Doors(), "localhost").first()
            == f"n,,\x01auth=Bearer {token}\x01traceId=one\x01\x01".encode()
        )
    unsecured = client_security(sasl("OAUTHBEARER", options + " unsecuredLoginStringClaim_sub=me;"))
    token = InitialResponse.parse(client_exchange(unsecured, Doors(), "localhost").first()).token
    assert UnsecuredTokens(UnsecuredRules(), Doors().clock.time_ms)(token).subject == "me"


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"two words", b"a\x01b"])
def test_a_file_without_a_token_fails_the_login(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    security = client_security(sasl("OAUTHBEARER", f"{OAUTH} required;") | {TOKEN: path.as_uri()})
    with pytest.raises(AuthenticationError, match=r"^the token cannot be read: (no token|No such file or directory)$"):
        client_exchange(security, Doors(), "localhost")


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS: must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "sasl.jaas.config: must be set for SASL_SSL"),
        ({"security.protocol": "SASL_SSL", "sasl.jaas.config": PLAIN}, "sasl.mechanism: must be set for this login"),
        (sasl("GSSAPI", PLAIN), "PlainLoginModule is not supported by kwire: GSSAPI has"),
        (sasl("GSSAPI", f"{KERBEROS} required useKeyTab=true;"), "must have serviceName, or sasl.kerberos"),
        (sasl("GSSAPI", f"{KERBEROS} required;") | {SERVICE: "kafka"}, "kwire asks nobody for a password"),
        (sasl("FOO", PLAIN), "sasl.mechanism=FOO: is not supported"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config: must be set for SASL_SSL"),
        (sasl("SCRAM-SHA-256", PLAIN), "PlainLoginModule is not supported by kwire: SCRAM-SHA-256 has"),
        (sasl("PLAIN", "com.sun.security.auth.module.LdapLoginModule required;"), "LdapLoginModule is not supported"),
        (sasl("PLAIN", PLAIN.split(" username", maxsplit=1)[0] + ";"), "must have username and password"),
        (sasl("PLAIN", PLAIN[:-1]), "semicolon"),
        (sasl("OAUTHBEARER", PLAIN), "PlainLoginModule is not supported by kwire: OAUTHBEARER has"),
        (sasl("OAUTHBEARER", f"{OAUTH} required;"), "unsecuredLoginStringClaim_sub must be set: it is the user's name"),
        (sasl("OAUTHBEARER", f"{OAUTH} required;") | {TOKEN: "https://issuer/token"}, "client.id: must be set"),
        (sasl("OAUTHBEARER", f"{OAUTH} required;") | {TOKEN: "file://host/token"}, "must be a URL with"),
        (sasl("PLAIN", PLAIN + PLAIN), "2 login modules"),
    ],
)
def test_wrong_properties_are_one_line_without_a_password(properties: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        client_security(properties)
    assert line in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_login_is_a_handshake_and_tokens_until_it_is_complete() -> None:
    steps = login_requests("PLAIN", ClientPlain("me", SECRET))
    request, version = next(steps)
    assert isinstance(request, SaslHandshakeRequest)
    assert (request.mechanism, version) == ("PLAIN", 1)
    request, version = steps.send(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    assert isinstance(request, SaslAuthenticateRequest)
    assert (request.auth_bytes, version) == (f"\0me\0{SECRET}".encode(), 2)
    with pytest.raises(StopIteration) as end:
        steps.send(SaslAuthenticateResponse(auth_bytes=b"", session_lifetime_ms=7000))
    assert end.value.value == 7000


def test_a_mechanism_that_the_broker_lacks_fails_with_those_that_it_has() -> None:
    steps = login_requests("PLAIN", ClientPlain("me", SECRET))
    next(steps)
    with pytest.raises(AuthenticationError, match="no mechanism PLAIN, only SCRAM-SHA-256"):
        steps.send(SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-256"]))


def test_a_refused_password_fails_with_the_brokers_text() -> None:
    steps = login_requests("PLAIN", ClientPlain("me", SECRET))
    next(steps)
    steps.send(SaslHandshakeResponse())
    with pytest.raises(AuthenticationError, match="Invalid username or password"):
        steps.send(SaslAuthenticateResponse(error_code=58, error_message="Invalid username or password"))
