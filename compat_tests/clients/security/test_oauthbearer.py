"""Clients with OAuth tokens: who has a good one produces and consumes, who has not is told the same by both brokers.

SASL_PLAINTEXT takes the tokens of an issuer that is reached by HTTP, SASL_SSL those of one by HTTPS, REAUTH
unsecured ones.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from compat_tests.clients.drivers import Driver, Sent, make_driver
from compat_tests.clients.languages.test_logins import said_by
from compat_tests.clients.security.oauth_logins import PACKAGE, WAYS, Login, kcat_unsecured
from compat_tests.clients.security.refusals import refusal
from compat_tests.names import Names
from compat_tests.needs import need
from compat_tests.servers import running
from harness.java_runner import JavaRunner
from harness.kafka_jars import why_no_java
from harness.observations import Observations
from harness.processes.oauth import (
    WRONG,
    OAuthServer,
    allowed_by_java,
    allowed_by_kwire,
    listener_settings,
    trusted,
)
from harness.processes.secured import SecuredBroker, make_secured
from harness.waiting import PATIENCE_S
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest

LISTENERS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
UNSECURED: Final = "REAUTH"
REFUSED: Final = ("java, client credentials", "confluent, client credentials", "confluent, callback")
NEVER_SENT: Final = [("java, client credentials", "unsigned"), ("confluent, client credentials", "expired")]
RECORD: Final = Sent(0, b"key", b"value")


class Issued(NamedTuple):
    """A broker that takes the tokens of two issuers, and the JVM of clients that may ask them."""

    broker: SecuredBroker
    issuers: dict[str, OAuthServer]
    java: JavaRunner

    def login(self, listener: str, scope: str = "login") -> Login:
        """Alice at a listener."""
        ca = self.broker.certificates.ca if listener == "SASL_SSL" else None
        return Login(listener, self.issuers[listener], self.broker.home, ca, scope)


def unsecured_settings() -> dict[str, str]:
    """The listener that takes unsecured tokens."""
    prefix = f"listener.name.{UNSECURED.lower()}."
    module = f'{PACKAGE}OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    handler = f"{PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    return {
        f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}oauthbearer.sasl.jaas.config": module,
        f"{prefix}oauthbearer.sasl.server.callback.handler.class": handler,
    }


@pytest.fixture(scope="module")
def issued(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issued]:
    """A broker of either kind."""
    home = tmp_path_factory.mktemp(f"oauth-{broker_kind}")
    broker = make_secured(broker_kind, home, unsecured_settings())
    with OAuthServer() as plain, OAuthServer(broker.certificates.server) as secure:
        issuers = {"SASL_PLAINTEXT": plain, "SASL_SSL": secure}
        for listener, issuer in issuers.items():
            options = trusted(broker.certificates.ca) if listener == "SASL_SSL" else ""
            broker.settings |= listener_settings(issuer, listener, options)
        keys = [issuer.jwks_url for issuer in issuers.values()]
        tokens = [issuer.token_url for issuer in issuers.values()]
        home_files = [broker.home / name for name in ("token", "key.pem", "assertion")]
        java = JavaRunner(allowed_by_java(*tokens, home_files[0].as_uri(), files=tuple(home_files)))
        with pytest.MonkeyPatch.context() as patch:
            if broker_kind == "kwire":
                broker.settings |= allowed_by_kwire(*keys)
            else:
                options = " ".join(f"-D{name}={value}" for name, value in allowed_by_java(*keys).items())
                patch.setenv("JAVA_TOOL_OPTIONS", options)
            with running(broker, broker.kill):
                yield Issued(broker, issuers, java)
        java.close()


def driver_of(issued: Issued, driver: Callable[..., Driver], way: str, login: Login) -> Driver:
    """The client of a way to log in; skips by name without it."""
    client, options = WAYS[way]
    if client != "java":
        return driver(client, options(login))
    need(why_no_java())
    return make_driver(client, issued.java, options(login))


def produces_and_consumes(own: Driver, bootstrap: str, topic: str) -> bool:
    placed = own.produce(bootstrap, topic, [RECORD])
    got = own.consume(bootstrap, topic, [0])
    return placed in ([], [(0, 0)]) and [(one.key, one.value) for one in got] == [(b"key", b"value")]


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("way", WAYS)
def test_who_has_a_token_produces_and_consumes(
    issued: Issued, new_name: Names, driver: Callable[..., Driver], way: str, listener: str
) -> None:
    own = driver_of(issued, driver, way, issued.login(listener))
    assert produces_and_consumes(own, issued.broker.address(listener), new_name("topic"))


@pytest.mark.parametrize(
    ("way", "scope"),
    [(way, scope) for way in REFUSED for scope in WRONG if (way, scope) not in NEVER_SENT],
)
def test_who_has_a_wrong_token_is_told_the_same(
    issued: Issued, observe: Observations, driver: Callable[..., Driver], way: str, scope: str
) -> None:
    login = issued.login("SASL_PLAINTEXT", scope)
    client, options = WAYS[way]
    driver_of(issued, driver, way, login)  # skips without the client
    said = refusal(client, issued.broker.address("SASL_PLAINTEXT"), options(login), issued.java)
    observe("error", said.replace(issued.broker.address("SASL_PLAINTEXT"), "the broker"))


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("way", [way for way, (client, _) in WAYS.items() if client == "java"])
def test_kwires_commands_log_in_with_the_properties_of_java_clients(
    issued: Issued, tmp_path: Path, way: str, listener: str
) -> None:
    properties = tmp_path / "client.properties"
    found = WAYS[way][1](issued.login(listener))
    properties.write_text("".join(f"{name}={value}\n" for name, value in found.items()))
    command = [sys.executable, "-m", "kwire", "ping", "--command-config", str(properties)]
    done = subprocess.run(
        [*command, issued.broker.address(listener)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done


def test_kcat_logs_in_where_tokens_are_not_signed(
    issued: Issued, new_name: Names, driver: Callable[..., Driver]
) -> None:
    own = driver("kcat", kcat_unsecured("SASL_PLAINTEXT"))
    assert produces_and_consumes(own, issued.broker.address(UNSECURED), new_name("topic"))


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("client", ["franz", "sarama", "kafkajs"])
def test_clients_in_other_languages_log_in(issued: Issued, new_name: Names, client: str, listener: str) -> None:
    token = issued.login(listener).token()
    assert said_by(client, issued.broker, listener, new_name("topic"), "OAUTHBEARER", "", token) == "ok login"


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("client", ["franz", "sarama", "kafkajs"])
def test_clients_in_other_languages_are_told_the_same(
    issued: Issued, new_name: Names, observe: Observations, client: str
) -> None:
    token = issued.login("SASL_SSL", "wrong_issuer").token()
    said = said_by(client, issued.broker, "SASL_SSL", new_name("topic"), "OAUTHBEARER", "", token)
    assert said.startswith("refused ")
    observe("error", said.replace(issued.broker.address("SASL_SSL"), "the broker"))


def first(text: str, identity: str = "") -> bytes:
    return f"n,{identity},\x01auth=Bearer {text}\x01\x01".encode()


MESSAGES: dict[str, Callable[[OAuthServer], bytes]] = {
    "accepted": lambda issuer: first(issuer.token()),
    "an identity": lambda issuer: first(issuer.token(), "a=alice"),
    "another identity": lambda issuer: first(issuer.token(), "a=bob"),
    "extensions": lambda issuer: first(issuer.token())[:-1] + b"traceId=1\x01\x01",
    "a wrong signature": lambda issuer: first(issuer.token(scope="wrong_key")),
    "expired": lambda issuer: first(issuer.token(scope="expired")),
    "of the future": lambda issuer: first(issuer.token(scope="future")),
    "another issuer": lambda issuer: first(issuer.token(scope="wrong_issuer")),
    "another audience": lambda issuer: first(issuer.token(scope="wrong_audience")),
    "no signature": lambda issuer: first(issuer.token(scope="unsigned")),
    "no token": lambda issuer: first("x"),
    "malformed": lambda issuer: b"n,,auth",
    "empty": lambda issuer: b"",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_the_answers_to_a_first_message(issued: Issued, observe: Observations, name: str) -> None:
    with WireClient(issued.broker.address("SASL_PLAINTEXT")) as client:
        observe("mechanisms", client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).mechanisms)
        answer = client.call(SaslAuthenticateRequest(auth_bytes=MESSAGES[name](issued.issuers["SASL_PLAINTEXT"])), 2)
        observe("answer", (answer.error_code, answer.error_message, bytes(answer.auth_bytes)))
        observe("has a lifetime", answer.session_lifetime_ms > 500_000)
        if answer.auth_bytes:
            end = client.call(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
            observe("end", (end.error_code, end.error_message))


def test_kafka_fails_over_another_scheme(issued: Issued, broker_kind: str) -> None:
    """Kafka looks for the scheme in the wrong match, and closes the connection without an answer; kwire answers as to
    any other malformed message."""
    with WireClient(issued.broker.address("SASL_PLAINTEXT")) as client:
        client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        request = SaslAuthenticateRequest(auth_bytes=b"n,,\x01auth=Basic x\x01\x01")
        if broker_kind == "kafka":
            with pytest.raises(ConnectionResetError):
                client.call(request, 2)
        else:
            assert client.call(request, 2).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
