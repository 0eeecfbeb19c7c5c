"""What a broker warns of at start."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kwire.base.config import KafkaConfig
from kwire.base.doors import Files
from kwire.net.listener import BoundSocket
from kwire.server.listeners.security import BrokerSecurity
from kwire.server.listeners.warnings import security_warnings
from tests.server.listeners.test_security import BASE, CLIENTS, PLAIN

TOKENS = {"delegation.token.secret.key": "planted"}
ZOOKEEPER = {"zookeeper.connect": "localhost:2181"}
SCRAM = {
    CLIENTS + "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    CLIENTS + "scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
}


def warned(properties: dict[str, str], host: str = "127.0.0.1", everything_allowed: bool = True) -> str:
    config = KafkaConfig({**BASE, CLIENTS + "plain.sasl.jaas.config": PLAIN, **properties})
    security = BrokerSecurity.load(config, Files())
    bound = [BoundSocket(each, cast(Any, None), (host, 9092)) for each in config.endpoints()]
    lines = list(security_warnings(config, security, bound, everything_allowed))
    assert all("\n" not in line and "planted" not in line for line in lines)
    return " | ".join(lines)


def test_nothing_is_warned_of_on_loopback() -> None:
    assert warned({}) == ""


@pytest.mark.parametrize(
    ("properties", "host", "line"),
    [
        ({}, "10.0.0.1", "listener CLIENTS: clients send passwords or tokens unencrypted (PLAIN on SASL_PLAINTEXT)"),
        (TOKENS, "127.0.0.1", "there is no authorizer: every user can describe all delegation tokens"),
        ({**ZOOKEEPER, **SCRAM}, "127.0.0.1", "zookeeper.set.acl is not set"),
        ({**ZOOKEEPER, **TOKENS}, "127.0.0.1", "zookeeper.set.acl is not set"),
    ],
)
def test_what_gives_secrets_away_is_warned_of(properties: dict[str, str], host: str, line: str) -> None:
    assert line in warned(properties, host)


def test_what_gives_nothing_away_is_not_warned_of() -> None:
    assert warned(SCRAM, "10.0.0.1") == ""
    assert warned(ZOOKEEPER) == ""
    assert warned({**ZOOKEEPER, **SCRAM, "zookeeper.set.acl": "true"}) == ""
    assert warned(TOKENS, everything_allowed=False) == ""
