"""`Logins`: how clients of a secured broker connect and log in, in the words of each client library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAIN: Final = "PLAIN"
MECHANISMS: Final = (PLAIN, "SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES: Final = "org.apache.kafka.common.security"


def login_module(mechanism: str) -> str:
    """The name of Kafka's login module for one of `MECHANISMS`."""
    return f"{_MODULES}.plain.PlainLoginModule" if mechanism == PLAIN else f"{_MODULES}.scram.ScramLoginModule"


def plain_users(users: Mapping[str, str]) -> str:
    """The options of Kafka's login module for PLAIN that name a broker's users: passwords by name."""
    return " ".join(f"{quoted(f'user_{name}')}={quoted(password)}" for name, password in users.items())


def quoted(value: str) -> str:
    """A value of a JAAS text, with its quotes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class Logins(NamedTuple):
    """A protocol of `PROTOCOLS`; with SASL, a mechanism of `MECHANISMS` and passwords by user; with TLS, the
    certificate that clients must trust."""

    protocol: str
    mechanism: str
    users: dict[str, str]
    ca_path: Path | None

    @property
    def has_users(self) -> bool:
        """Whether clients log in with a password."""
        return self.protocol.startswith("SASL")

    def properties(self, user: str) -> dict[str, str]:
        """Kafka's client properties: Java's clients, `kwire ping --command-config`, `BlockingClient`."""
        found = {"security.protocol": self.protocol}
        if self.ca_path is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_path)}
        if self.has_users:
            login = f"username={quoted(user)} password={quoted(self.users[user])}"
            module = f"{login_module(self.mechanism)} required {login};"
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": module}
        return found

    def kafka_python(self, bootstrap: str, user: str) -> dict[str, Any]:
        """The arguments of kafka-python's clients."""
        found = {"bootstrap_servers": bootstrap, "security_protocol": self.protocol}
        if self.ca_path is not None:
            found["ssl_cafile"] = str(self.ca_path)
        if self.has_users:
            login = {"sasl_plain_username": user, "sasl_plain_password": self.users[user]}
            found |= {"sasl_mechanism": self.mechanism, **login}
        return found

    def librdkafka(self, bootstrap: str, user: str) -> dict[str, str]:
        """The configuration of librdkafka's clients, confluent-kafka's first."""
        found = {"bootstrap.servers": bootstrap, "security.protocol": self.protocol}
        if self.ca_path is not None:
            found["ssl.ca.location"] = str(self.ca_path)
        if self.has_users:
            login = {"sasl.username": user, "sasl.password": self.users[user]}
            found |= {"sasl.mechanism": self.mechanism, **login}
        return found
