"""Brokers of either kind with the same secured listeners, certificates and users.

`LISTENERS` has the listeners, each with a port of its own; ``address("SASL_SSL")`` is where one listens. The users of
`USERS` log in with PLAIN and both SCRAM mechanisms; their SCRAM credentials are written through the listener without
security once the broker serves, by the same request for both kinds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.processes.brokers import Broker, KafkaBroker, KwireBroker, wait_until
from harness.processes.certificates import SERVER, Certificates
from harness.processes.ports import free_port
from harness.wire_client import WireClient
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.codec.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest

LISTENERS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MTLS": "SSL",
    "MAPPED": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "REAUTH": "SASL_PLAINTEXT",
}
"""Listener -> security protocol. MTLS and MAPPED require a client's certificate, of whose subject MAPPED takes the
common name; a login at REAUTH ends after an hour."""

USERS: Final = {"alice": "alice-secret", "bob": "bob-secret", "carol": "carol-secret"}
SCRAM: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
MECHANISMS: Final = ("PLAIN", *SCRAM)
SESSION_MS: Final = 3_600_000
ITERATIONS: Final = 4096
_MODULES: Final = "org.apache.kafka.common.security"


def security_settings(certificates: Certificates) -> dict[str, str]:
    """The properties for TLS and SASL, for all listeners."""
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    modules = {"PLAIN": f"{_MODULES}.plain.PlainLoginModule required {users};"}
    modules |= dict.fromkeys(SCRAM, f"{_MODULES}.scram.ScramLoginModule required;")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.server.pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.ca),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mapped.ssl.client.auth": "required",
        "listener.name.mapped.ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1@tests/U,DEFAULT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        **{
            f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config": module
            for listener, protocol in LISTENERS.items()
            if protocol.startswith("SASL")
            for mechanism, module in modules.items()
        },
        "listener.name.reauth.plain.connections.max.reauth.ms": str(SESSION_MS),
    }


class SecuredBroker(Broker):
    """What both kinds have in common."""

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
        *,
        host: str = SERVER,
    ) -> None:
        self.certificates = Certificates.make(home / "certificates", host)
        super().__init__(home, {**security_settings(self.certificates), **(settings or {})}, data_dir)
        self.host = host
        self.ports: dict[str, int] = {}
        self._has_users = False

    def choose_ports(self) -> None:
        """Choose a port for each listener; `port` is that of PLAINTEXT."""
        super().choose_ports()
        self.ports = {name: free_port() for name in LISTENERS} | {"PLAINTEXT": self.port}
        self.settings |= self._listener_settings()

    def _listener_settings(self) -> dict[str, str]:
        return {
            "listeners": ",".join(f"{name}://{self.address(name)}" for name in LISTENERS),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
        }

    def address(self, listener: str) -> str:
        """HOST:PORT of a listener of `LISTENERS`."""
        return f"{self.host}:{self.ports[listener]}"

    def _start(self) -> None:
        super()._start()
        if not self._has_users:
            add_scram_users(self.bootstrap)
            self._has_users = True


class SecuredKwire(SecuredBroker, KwireBroker):
    """kwire with all listeners."""


class SecuredKafka(SecuredBroker, KafkaBroker):
    """Apache Kafka with all listeners."""

    def _listener_settings(self) -> dict[str, str]:
        own = super()._listener_settings()
        return {
            "listeners": f"{own['listeners']},CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": own["listeners"],
            "listener.security.protocol.map": f"{own['listener.security.protocol.map']},CONTROLLER:PLAINTEXT",
        }


def make_secured(kind: str, home: Path, settings: Mapping[str, str] | None = None, host: str = SERVER) -> SecuredBroker:
    """A broker of a kind ("kwire" or "kafka") on this host by a name of it, not started yet."""
    return {"kwire": SecuredKwire, "kafka": SecuredKafka}[kind](home, settings, host=host)


def add_scram_users(bootstrap: str) -> None:
    """Give each user both SCRAM credentials, and wait until they are there."""
    with WireClient(bootstrap) as client:
        for mechanism in SCRAM:  # a request may name a user once
            upsertions = [_upsertion(name, mechanism) for name in USERS]
            response = client.call(AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions), 0)
            assert [each.error_code for each in response.results] == [0] * len(USERS), response

        def there() -> bool:
            described = client.call(DescribeUserScramCredentialsRequest(users=None), 0)
            return sum(len(each.credential_infos) for each in described.results) == len(USERS) * len(SCRAM)

        wait_until(there, 20, "SCRAM credentials")


def _upsertion(name: str, mechanism: str) -> ScramCredentialUpsertion:
    code, digest = SCRAM[mechanism]
    salt = f"salt of {name}".encode()
    return ScramCredentialUpsertion(
        name=name,
        mechanism=code,
        iterations=ITERATIONS,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(digest, USERS[name].encode(), salt, ITERATIONS),
    )
