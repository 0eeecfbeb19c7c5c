"""Every client over every protocol with every mechanism: who may produces and consumes, who may not is told why."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest

from compat_tests.clients.drivers import CLIENTS, Driver, Sent
from compat_tests.clients.security.options import Security, options_of
from compat_tests.clients.security.refusals import refusal
from compat_tests.names import Names
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.certificates import WRONG_NAME, Identity
from harness.processes.secured import MECHANISMS, USERS, SecuredBroker

LOGINS = [(listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS]
WRONG_LOGINS = [  # of a user, whose password is wrong then, and of nobody
    ("SASL_PLAINTEXT", "PLAIN", "alice"),
    ("SASL_SSL", "PLAIN", "nobody"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256", "nobody"),
    ("SASL_SSL", "SCRAM-SHA-512", "alice"),
]
NONCE_ONCE = (2, 6, 1)  # librdkafka before this version sends the SCRAM nonce in a wrong form (its issue 4895)
LOSES_ANSWERS = "kafka-python"  # where the end of the connection arrives together with the answer
DISCONNECTED = "KafkaConnectionError: KafkaConnectionError: socket disconnected"
# librdkafka takes what TLS says for a transport error if the connection is gone when it asks. The texts are OpenSSL's.
TLS_ERRORS = {
    "kafka-python": ("KafkaConnectionError",),
    "aiokafka": ("SSLCertVerificationError", "KafkaConnectionError", "ConnectionResetError", "SSLError"),
    "confluent": ("_SSL", "_TRANSPORT"),
    "kcat": ("Local: SSL error", "Local: Broker transport failure"),
    "java": ("SslAuthenticationException",),
}
INVALID = {
    "PLAIN": "Authentication failed: Invalid username or password",
    "SCRAM-SHA-256": "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    "SCRAM-SHA-256",
    "SCRAM-SHA-512": "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    "SCRAM-SHA-512",
}


def security_for(
    broker: SecuredBroker, listener: str, mechanism: str = "", user: str = "alice", password: str | None = None
) -> Security:
    """What a client needs at a listener; the user's own password unless another is given."""
    certificates = broker.certificates
    name, secret = (user, password or USERS.get(user, "")) if mechanism else ("", "")
    return Security(
        "SSL" if listener == "MTLS" else listener,
        mechanism,
        name,
        secret,
        certificates.ca if listener != "SASL_PLAINTEXT" else None,
        certificates.client if listener == "MTLS" else None,
    )


def doubles_nonces(client: str) -> bool:
    """Whether it is kcat with a librdkafka that Kafka has refused since CVE-2024-56128."""
    if client != "kcat":
        return False
    version = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", version)
    return found is not None and tuple(map(int, found.groups())) < NONCE_ONCE


@pytest.mark.parametrize(("listener", "mechanism"), [("SSL", ""), ("MTLS", ""), *LOGINS])
@pytest.mark.parametrize("client", CLIENTS)
def test_who_may_produces_and_consumes(
    secured: SecuredBroker,
    new_name: Names,
    driver: Callable[..., Driver],
    java: JavaRunner,
    client: str,
    listener: str,
    mechanism: str,
) -> None:
    bootstrap, topic = secured.address(listener), new_name("topic")
    options = options_of(client, security_for(secured, listener, mechanism))
    own = driver(client, options)
    if mechanism.startswith("SCRAM") and doubles_nonces(client):
        assert INVALID[mechanism] in refusal(client, bootstrap, options, java)
        return
    assert own.produce(bootstrap, topic, [Sent(0, b"key", b"value")]) in ([], [(0, 0)])
    assert [(one.key, one.value) for one in own.consume(bootstrap, topic, [0])] == [(b"key", b"value")]


@pytest.mark.parametrize(("listener", "mechanism", "user"), WRONG_LOGINS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_wrong_password_and_an_unknown_user_are_refused_with_the_same_text(
    secured: SecuredBroker,
    observe: Observations,
    driver: Callable[..., Driver],
    java: JavaRunner,
    client: str,
    listener: str,
    mechanism: str,
    user: str,
) -> None:
    options = options_of(client, security_for(secured, listener, mechanism, user, "wrong"))
    driver(client)  # skips without the client
    said = refusal(client, secured.address(listener), options, java)
    if client == LOSES_ANSWERS and said == DISCONNECTED:
        return
    assert INVALID[mechanism] in said
    if client != LOSES_ANSWERS:
        observe("error", said)


def untrusting(secured: SecuredBroker) -> tuple[str, Security]:
    """A client that does not trust the broker's authority."""
    return secured.address("SSL"), Security("SSL", ca=secured.certificates.other_ca)


def misnamed(secured: SecuredBroker) -> tuple[str, Security]:
    """A client that connects to a name which the broker's certificate does not have."""
    return f"{WRONG_NAME}:{secured.ports['SSL']}", Security("SSL", ca=secured.certificates.ca)


def _mutual(secured: SecuredBroker, identity: Identity | None) -> tuple[str, Security]:
    return secured.address("MTLS"), Security("SSL", ca=secured.certificates.ca, identity=identity)


def unidentified(secured: SecuredBroker) -> tuple[str, Security]:
    """A client without a certificate where one is required."""
    return _mutual(secured, None)


def untrusted(secured: SecuredBroker) -> tuple[str, Security]:
    """A client whose certificate comes from an authority that the broker does not trust."""
    return _mutual(secured, secured.certificates.stranger)


@pytest.mark.parametrize("why", [untrusting, misnamed, unidentified, untrusted], ids=lambda why: why.__name__)
@pytest.mark.parametrize("client", CLIENTS)
def test_without_the_right_certificates_no_connection_comes_about(
    secured: SecuredBroker,
    driver: Callable[..., Driver],
    java: JavaRunner,
    client: str,
    why: Callable[[SecuredBroker], tuple[str, Security]],
) -> None:
    driver(client)  # skips without the client
    bootstrap, security = why(secured)
    said = refusal(client, bootstrap, options_of(client, security), java)
    assert said.startswith(TLS_ERRORS[client])
