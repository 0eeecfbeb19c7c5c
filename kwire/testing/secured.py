"""`SecuredProcess` and `SecuredKwire`: a broker with TLS and users, for tests of clients that have to log in.

Its one listener is SASL_SSL with a certificate for `localhost`, 127.0.0.1 and ::1, signed by an authority that exists
for the test run only. Users log in with PLAIN.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kwire.testing.broker import Kwire
from kwire.testing.logins import PLAIN, Logins, login_module, plain_users
from kwire.testing.process import KwireProcess

LISTENER: Final = "SASL_SSL"
MECHANISM: Final = PLAIN
USERS: Final = ("admin", "alice", "bob")
HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class SecuredProcess(KwireProcess):
    """A broker process that clients reach over SASL_SSL only. ``users``: passwords by name; ``ca_path``: the
    certificate that clients must trust (PEM)."""

    def __init__(self, properties: Mapping[str, str] | None = None, users: Mapping[str, str] | None = None) -> None:
        from kwire.testing.certificates import Authority

        self._certificates = Path(tempfile.mkdtemp(prefix="kwire-certificates-"))
        authority = Authority(self._certificates)
        self.users = dict(users) if users else {name: secrets.token_urlsafe(12) for name in USERS}
        self.ca_path = authority.path
        module = f"{login_module(MECHANISM)} required {plain_users(self.users)};"
        prefix = f"listener.name.{LISTENER.lower()}."
        secured = {
            "listeners": f"{LISTENER}://localhost:0",
            "security.inter.broker.protocol": LISTENER,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"{prefix}ssl.keystore.type": "PEM",
            f"{prefix}ssl.keystore.location": str(authority.issue("broker", *HOSTS)),
            f"{prefix}sasl.enabled.mechanisms": MECHANISM,
            f"{prefix}{MECHANISM.lower()}.sasl.jaas.config": module,
        }
        client_properties = self.logins.properties(next(iter(self.users)))
        super().__init__({**secured, **(properties or {})}, client_properties=client_properties)

    @property
    def logins(self) -> Logins:
        """How clients log in."""
        return Logins(LISTENER, MECHANISM, self.users, self.ca_path)

    def remove_certificates(self) -> None:
        """Delete the certificates and keys."""
        shutil.rmtree(self._certificates, ignore_errors=True)


class SecuredKwire(Kwire):
    """One test's view of a secured broker: everything of ``kwire``, and how clients log in."""

    def __init__(self, broker: SecuredProcess) -> None:
        super().__init__(broker)
        self._secured = broker

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user's name."""
        return self._secured.users

    @property
    def ca_path(self) -> Path:
        """The certificate that clients must trust (PEM)."""
        return self._secured.ca_path

    def properties(self, user: str = USERS[0]) -> dict[str, str]:
        """Kafka's client properties, as Java's clients read them."""
        return self._secured.logins.properties(user)

    def kafka_python(self, user: str = USERS[0]) -> dict[str, Any]:
        """The arguments of kafka-python's clients."""
        return self._secured.logins.kafka_python(self.bootstrap_servers, user)

    def librdkafka(self, user: str = USERS[0]) -> dict[str, str]:
        """The configuration of librdkafka's clients, confluent-kafka's first."""
        return self._secured.logins.librdkafka(self.bootstrap_servers, user)
