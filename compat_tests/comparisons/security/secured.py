"""A broker with a listener without security and one with SASL, of either kind, and logins to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from compat_tests.needs import need
from harness.processes.brokers import Broker, make_broker
from harness.processes.ports import free_port
from harness.wire_client import WireClient
from kwire.base.config import ConfigError, KafkaConfig
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.security.sasl.mechanism import ClientExchange
from kwire.security.sasl.plain import ClientPlain

USERS: Final = {"alice": "alice-secret", "bob": "bob-secret", "carol": "carol-secret"}
HOST: Final = "127.0.0.1"


def sasl_settings(mechanisms: Sequence[str] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")) -> dict[str, str]:
    """The SASL part of the configuration: `USERS` log in with PLAIN."""
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    modules = {
        "PLAIN": f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};",
        "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    }
    prefix = "listener.name.sasl_plaintext"
    return {
        "sasl.enabled.mechanisms": ",".join(mechanisms),
        **{f"{prefix}.{name.lower()}.sasl.jaas.config": modules[name] for name in mechanisms},
    }


class Secured:
    """A broker with both listeners. ``plain`` and ``sasl`` are their addresses."""

    def __init__(self, kind: str, home: Path, settings: Mapping[str, str]) -> None:
        port, sasl_port, controller_port = free_port(), free_port(), free_port()
        self.plain, self.sasl = f"{HOST}:{port}", f"{HOST}:{sasl_port}"
        listeners = f"PLAINTEXT://{self.plain},SASL_PLAINTEXT://{self.sasl}"
        both = {**sasl_settings(), **settings, "listeners": listeners}
        if kind == "kafka":
            both |= {
                "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
                "advertised.listeners": listeners,
                "listener.security.protocol.map": ",".join(
                    f"{name}:{name.replace('CONTROLLER', 'PLAINTEXT')}"
                    for name in ("PLAINTEXT", "SASL_PLAINTEXT", "CONTROLLER")
                ),
                "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            }
        self.broker: Broker = make_broker(kind, home, both)
        self.broker.port = port

    def login(self, name: str) -> WireClient:
        """A connection on which a user of `USERS` has logged in with PLAIN."""
        return logged_in(self.sasl, "PLAIN", ClientPlain(name, USERS[name]))


def started(kind: str, home: Path, settings: Mapping[str, str]) -> Iterator[Secured]:
    """A started broker, for a fixture."""
    made = Secured(kind, home, settings)
    if kind == "kwire":
        need(_why_no_sasl(made.broker.settings))
    made.broker.start()
    yield made
    made.broker.kill()


def _why_no_sasl(settings: Mapping[str, str]) -> str | None:
    """Why this kwire cannot have the listeners, if so."""
    try:
        KafkaConfig(settings)
    except ConfigError as error:
        return str(error)
    return None


class LoginFailed(Exception):
    """The broker has refused a login."""


def logged_in(bootstrap: str, mechanism: str, exchange: ClientExchange) -> WireClient:
    """A connection after a login. `LoginFailed`."""
    client = WireClient(bootstrap)
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
