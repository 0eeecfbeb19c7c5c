"""Logins to a broker with secured listeners, of either kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.processes.secured import USERS, SecuredBroker, make_secured
from harness.wire_client import WireClient
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.security.sasl.mechanism import ClientExchange
from kwire.security.sasl.plain import ClientPlain


def started(kind: str, home: Path, settings: Mapping[str, str]) -> Iterator[SecuredBroker]:
    """A started broker, for a fixture."""
    broker = make_secured(kind, home, settings)
    broker.start()
    yield broker
    broker.kill()


class LoginFailed(Exception):
    """The broker has refused a login."""


def logged_in_as(broker: SecuredBroker, name: str) -> WireClient:
    """A connection on which a user has logged in with PLAIN."""
    return logged_in(broker, "PLAIN", ClientPlain(name, USERS[name]))


def logged_in(broker: SecuredBroker, mechanism: str, exchange: ClientExchange) -> WireClient:
    """A connection after a login. `LoginFailed`."""
    client = WireClient(broker.address("SASL_PLAINTEXT"))
    try:
        handshake = client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        if handshake.error_code:
            raise LoginFailed(f"handshake: error {handshake.error_code}")
        token = exchange.first()
        done = False
        while not done:
            answer = client.call(SaslAuthenticateRequest(auth_bytes=token), 1)
            if answer.error_code:
                raise LoginFailed(answer.error_message)
            token = exchange.respond(bytes(answer.auth_bytes))
            done = exchange.complete
        return client
    except BaseException:
        client.close()
        raise
