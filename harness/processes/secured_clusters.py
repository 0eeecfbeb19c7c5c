"""What makes a cluster of kwire brokers a secured one: certificates, users, and the brokers' properties.

All brokers have two listeners. SASL_SSL is for clients and between brokers, who log in with SCRAM; PLAINTEXT is for the
harness. What lives elsewhere: the processes (`harness.processes.kwire_cluster`, `campaigns.chaos.cluster`).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.processes.certificates import pkcs8
from harness.processes.ports import free_port
from harness.wire_client import WireClient
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    import trustme

    from harness.processes.brokers import KwireBroker

CLIENT: Final = "alice"
BROKERS: Final = ("broker-a", "broker-b")
"""The users of brokers: a cluster uses the first one until its password is rotated by changing to the second."""

QUOTAS: Final = {"producer_byte_rate": 50_000, "consumer_byte_rate": 500_000, "request_percentage": 400}
"""The quotas of each user where there are some: clients of the campaigns exceed them now and then."""

MECHANISM: Final = "SCRAM-SHA-512"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_LISTENER: Final = "listener.name.sasl_ssl."
_BROKER_RESOURCE: Final = 4
_SET: Final = 0


def password(user: str) -> str:
    """A user's first password."""
    return f"{user}-secret"


class ClusterSecurity:
    """The certificates and users of one cluster. ``home`` keeps the files; ``hosts``: the brokers' addresses."""

    def __init__(self, home: Path, hosts: Sequence[str] = ("127.0.0.1",)) -> None:
        import trustme

        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self._hosts = list(dict.fromkeys(hosts))
        self._authorities = [trustme.CA(), trustme.CA()]
        self._made = 0
        self.ports: dict[int, int] = {}
        self.trusted = self._trust("ca-of-clients.pem", self._authorities)
        """The authorities that clients trust from the beginning: the first one, and the one to change to."""

    # Before the start

    def add_users(self, store: Mapping[str, str]) -> None:
        """Add all users to the metadata store with these properties, before the first start."""
        for user in (CLIENT, *BROKERS):
            self._kwire(store, "user", "add", user, "--password", password(user))

    def allow_clients(self, store: Mapping[str, str]) -> None:
        """Add ACLs that allow `CLIENT` everything, and quotas for every user, before the first start."""
        resources = ("--topic", "*", "--group", "*", "--transactional-id", "*", "--cluster")
        self._kwire(store, "acl", "add", f"User:{CLIENT}", "--operation", "all", *resources)
        self._kwire(store, "quota", "add", "--default-user", *(f"{name}={limit}" for name, limit in QUOTAS.items()))

    def _kwire(self, store: Mapping[str, str], *words: str) -> None:
        """Run a command on the metadata store with these properties."""
        file = self.home / "store.properties"
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", **store}
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = [sys.executable, "-m", "kwire", *words, "--config", str(file)]
        subprocess.run(command, check=True, capture_output=True)

    def secure(self, broker: KwireBroker, node_id: int) -> None:
        """Give a broker that does not run its listeners, certificates and login."""
        self.listen_securely(broker, node_id)
        broker.settings |= {
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
        }

    def listen_securely(self, broker: KwireBroker, node_id: int) -> None:
        """Give a broker that does not run the listener SASL_SSL, for clients at first."""
        if not broker.port:
            broker.choose_ports()
        self.ports[node_id] = free_port()
        addresses = f"PLAINTEXT://{broker.host}:{broker.port},SASL_SSL://{broker.host}:{self.ports[node_id]}"
        broker.settings |= {
            "listeners": addresses,
            "advertised.listeners": addresses,
            "sasl.enabled.mechanisms": MECHANISM,
            f"{_LISTENER}ssl.keystore.type": "PEM",
            f"{_LISTENER}ssl.keystore.location": str(self.key_store(0)),
            f"{_LISTENER}ssl.truststore.type": "PEM",
            f"{_LISTENER}ssl.truststore.location": str(self._trust("ca-first.pem", self._authorities[:1])),
        }
        self.log_in_as(broker, BROKERS[0])

    @staticmethod
    def guard(broker: KwireBroker) -> None:
        """Give a broker that has not been started an authorizer. Brokers are super users."""
        broker.settings |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{user}" for user in BROKERS),
        }

    def log_in_as(self, broker: KwireBroker, user: str) -> None:
        """The user by which a broker logs in at others from its next start on."""
        login = f'{_MODULE} username="{user}" password="{password(user)}";'
        broker.settings[f"{_LISTENER}{MECHANISM.lower()}.sasl.jaas.config"] = login

    # Rotation

    def key_store(self, authority: int) -> Path:
        """A new key with a certificate of the first (0) or the second (1) authority, in one file."""
        self._made += 1
        issued = self._authorities[authority].issue_cert(
            *self._hosts, common_name="broker", organization_name="kwire", organization_unit_name="tests"
        )
        path = self.home / f"broker-{self._made}.pem"
        key = pkcs8(issued.private_key_pem.bytes())
        path.write_bytes(key + b"".join(each.bytes() for each in issued.cert_chain_pems))
        return path

    def trust_store(self, first: bool, second: bool) -> Path:
        """A file with one authority or both."""
        chosen = [each for each, wanted in zip(self._authorities, (first, second), strict=True) if wanted]
        return self._trust(f"ca-{'first' * first}{'second' * second}.pem", chosen)

    def change_store(self, bootstrap: str, node_id: int, kind: str, path: Path) -> None:
        """Change a running broker's key store (``keystore``) or trust store (``truststore``)."""
        config = AlterableConfig(name=f"{_LISTENER}ssl.{kind}.location", config_operation=_SET, value=str(path))
        resource = AlterConfigsResource(resource_type=_BROKER_RESOURCE, resource_name=str(node_id), configs=[config])
        with WireClient(bootstrap) as client:
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            (response,) = client.call(request, 1).responses
        assert response.error_code == 0, response

    # Clients

    def bootstrap(self, brokers: Mapping[int, KwireBroker]) -> str:
        """The addresses of SASL_SSL, separated by commas."""
        return ",".join(f"{brokers[node_id].host}:{port}" for node_id, port in self.ports.items())

    def librdkafka(self) -> dict[str, Any]:
        """The options of a client with librdkafka."""
        login = {"sasl.mechanism": MECHANISM, "sasl.username": CLIENT, "sasl.password": password(CLIENT)}
        return {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.trusted), **login}

    def python(self) -> dict[str, Any]:
        """What options of kafka-python and aiokafka have in common; TLS is theirs."""
        login = {"sasl_plain_username": CLIENT, "sasl_plain_password": password(CLIENT)}
        return {"security_protocol": "SASL_SSL", "sasl_mechanism": MECHANISM, **login}

    def as_json(self) -> dict[str, Any]:
        """The options of clients in other processes: ``librdkafka``, ``python``, ``trusted``."""
        return {"librdkafka": self.librdkafka(), "python": self.python(), "trusted": str(self.trusted)}

    def java(self, user: str = CLIENT) -> dict[str, str]:
        """The options of a Java client."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{_MODULE} username="{user}" password="{password(user)}";',
        }

    def _trust(self, name: str, authorities: Sequence[trustme.CA]) -> Path:
        path = self.home / name
        path.write_bytes(b"".join(each.cert_pem.bytes() for each in authorities))
        return path
