"""Clients with OAuth tokens: who has a good one produces and consumes, who has not is told the same by both brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import jwt
import pytest

from compat_tests.clients.drivers import Driver, Sent
from compat_tests.names import Names
from compat_tests.servers import running
from harness.observations import Observations
from harness.processes.secured import SecuredBroker, make_secured
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.security.oauth.issuer import Kind, jwk, jwks, private_key, unsecured

LISTENER: Final = "SASL_PLAINTEXT"
PREFIX: Final = "listener.name.sasl_plaintext.oauthbearer."
PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
ALLOWED: Final = "sasl.oauthbearer.allowed.urls"


def token(kind: Kind = "RSA", algorithm: str = "RS256", **more: Any) -> str:
    now_s = int(time.time())
    claims = {"sub": "alice", "iss": "issuer", "aud": "kafka", "iat": now_s - 10, "exp": now_s + 600, **more}
    return jwt.encode(claims, private_key(kind), algorithm=algorithm, headers={"kid": kind})


@pytest.fixture(scope="module")
def issued(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker of either kind that takes an issuer's tokens."""
    home: Path = tmp_path_factory.mktemp(f"oauth-{broker_kind}")
    keys = home / "keys.json"
    keys.write_bytes(jwks(jwk("RSA"), jwk("P-256")))
    settings = {
        f"listener.name.{LISTENER.lower()}.sasl.enabled.mechanisms": "OAUTHBEARER",
        PREFIX + "sasl.jaas.config": f"{PACKAGE}OAuthBearerLoginModule required;",
        PREFIX + "sasl.server.callback.handler.class": f"{PACKAGE}OAuthBearerValidatorCallbackHandler",
        PREFIX + "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        PREFIX + "sasl.oauthbearer.expected.issuer": "issuer",
        PREFIX + "sasl.oauthbearer.expected.audience": "kafka",
    }
    with pytest.MonkeyPatch.context() as patch:
        if broker_kind == "kwire":
            settings[f"kwire.{ALLOWED}"] = keys.as_uri()
        else:  # a property of the JVM
            patch.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.{ALLOWED}={keys.as_uri()}")
        broker = make_secured(broker_kind, home, settings)
        with running(broker, broker.kill):
            yield broker


def kafka_python_token() -> object:
    """A token for kafka-python."""
    from kafka.net.sasl.oauth import AbstractTokenProvider  # warns when it is imported

    class Token(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
        def token(self) -> str:
            return token()

    return Token()


def aiokafka_token() -> object:
    """A token for aiokafka."""
    from aiokafka.abc import AbstractTokenProvider

    class Token(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
        async def token(self) -> str:
            return token("P-256", "ES256")

    return Token()


def options_of(client: str) -> dict[str, Any]:
    if client == "confluent":
        return {
            "security.protocol": LISTENER,
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token(), time.time() + 600),
        }
    provider = kafka_python_token() if client == "kafka-python" else aiokafka_token()
    return {"security_protocol": LISTENER, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider}


@pytest.mark.parametrize("client", ["kafka-python", "aiokafka", "confluent"])
def test_who_has_a_token_produces_and_consumes(
    issued: SecuredBroker, new_name: Names, driver: Callable[..., Driver], client: str
) -> None:
    bootstrap, topic = issued.address(LISTENER), new_name("topic")
    own = driver(client, options_of(client))
    assert own.produce(bootstrap, topic, [Sent(0, b"key", b"value")]) in ([], [(0, 0)])
    assert [(one.key, one.value) for one in own.consume(bootstrap, topic, [0])] == [(b"key", b"value")]


def first(text: str, identity: str = "") -> bytes:
    return f"n,{identity},\x01auth=Bearer {text}\x01\x01".encode()


MESSAGES: dict[str, Callable[[], bytes]] = {
    "accepted": lambda: first(token()),
    "an identity": lambda: first(token(), "a=alice"),
    "another identity": lambda: first(token(), "a=bob"),
    "extensions": lambda: first(token())[:-1] + b"traceId=1\x01\x01",
    "a wrong signature": lambda: first(token("other RSA")),
    "expired": lambda: first(token(exp=int(time.time()) - 100)),
    "of the future": lambda: first(token(nbf=int(time.time()) + 100)),
    "another issuer": lambda: first(token(iss="other")),
    "another audience": lambda: first(token(aud="other")),
    "no signature": lambda: first(unsecured(exp=int(time.time()) + 100)),
    "no token": lambda: first("x"),
    "malformed": lambda: b"n,,auth",
    "empty": lambda: b"",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_the_answers_to_a_first_message(issued: SecuredBroker, observe: Observations, name: str) -> None:
    with WireClient(issued.address(LISTENER)) as client:
        observe("mechanisms", client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).mechanisms)
        answer = client.call(SaslAuthenticateRequest(auth_bytes=MESSAGES[name]()), 2)
        observe("answer", (answer.error_code, answer.error_message, bytes(answer.auth_bytes)))
        observe("has a lifetime", answer.session_lifetime_ms > 500_000)
        if answer.auth_bytes:
            end = client.call(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
            observe("end", (end.error_code, end.error_message))


def test_kafka_fails_over_another_scheme(issued: SecuredBroker, broker_kind: str) -> None:
    """Kafka looks for the scheme in the wrong match, and closes the connection without an answer; kwire answers as to
    any other malformed message."""
    with WireClient(issued.address(LISTENER)) as client:
        client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        request = SaslAuthenticateRequest(auth_bytes=b"n,,\x01auth=Basic x\x01\x01")
        if broker_kind == "kafka":
            with pytest.raises(ConnectionResetError):
                client.call(request, 2)
        else:
            assert client.call(request, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
