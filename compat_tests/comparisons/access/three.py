"""Three brokers of one kind with an authorizer, and clients of one of them that is not the controller.

`bootstrap` and `address` are those of broker 3. All topics, groups and transactions of the tests are on broker 3, so
that its answers are those of a single broker. What lives elsewhere: processes (`compat_tests.cluster.three_brokers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from compat_tests.cluster.three_brokers import ThreeBrokers
from compat_tests.comparisons.access.acls import LASTING_SESSIONS
from compat_tests.comparisons.access.answers import prepared
from compat_tests.comparisons.access.requests import ONE, TWO
from compat_tests.comparisons.admin.requests import Wire, new_topic
from harness.processes.brokers import KafkaBroker, KwireBroker
from harness.processes.ports import free_port

CONTROLLER: Final = 1
ASKED: Final = 3
BROKER_LOGIN: Final = b"\0broker\0broker-secret"
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_USERS: Final = " ".join(f'user_{name}="{name}-secret"' for name in ("alice", "bob", "broker"))
_JAAS: Final = f'{_MODULE} username="broker" password="broker-secret" {_USERS};'
SETTINGS: Final = {
    "delegation.token.secret.key": "the secret of the tests",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:broker",
    "auto.create.topics.enable": "true",
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "sasl.enabled.mechanisms": "PLAIN",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": _JAAS,
    "listener.name.controller.plain.sasl.jaas.config": _JAAS,
    **LASTING_SESSIONS,
}
"""Who connects to PLAINTEXT is a super user, and so is the user of the brokers."""


class GuardedThree(ThreeBrokers):
    """Broker 1 is the controller. Clients log in to SASL_PLAINTEXT, and so do the brokers of kwire to each other; those
    of Apache Kafka log in to the controller's own listener as well. ``store`` as in `ThreeBrokers`."""

    def __init__(self, kind: str, home: Path, store: Mapping[str, str] | None = None) -> None:
        super().__init__(kind, home, SETTINGS, store)
        self._logins: dict[int, str] = {}
        for node, broker in self.brokers.items():
            if not broker.port:
                broker.choose_ports()
            assert isinstance(broker, KafkaBroker | KwireBroker)
            self._logins[node] = f"{broker.host}:{free_port()}"
            broker.settings |= self._listeners(node, broker)

    def _listeners(self, node: int, broker: KafkaBroker | KwireBroker) -> dict[str, str]:
        protocols = "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
        addresses = f"PLAINTEXT://{broker.bootstrap},SASL_PLAINTEXT://{self._logins[node]}"
        found = {"listeners": addresses, "listener.security.protocol.map": protocols}
        if isinstance(broker, KafkaBroker):
            found |= {
                "advertised.listeners": addresses,
                "listener.security.protocol.map": f"{protocols},CONTROLLER:SASL_PLAINTEXT",
            }
            if node == CONTROLLER:
                found["listeners"] = f"{addresses},CONTROLLER://{broker.host}:{broker.controller_port}"
        return found

    @property
    def bootstrap(self) -> str:
        """Where administrators connect to."""
        return self.brokers[ASKED].bootstrap

    def address(self, listener: str, node: int = ASKED) -> str:
        """HOST:PORT of a listener, PLAINTEXT or SASL_PLAINTEXT."""
        return self._logins[node] if listener == "SASL_PLAINTEXT" else self.brokers[node].bootstrap

    @property
    def envelopes(self) -> str:
        """Where the controller takes Envelopes from brokers."""
        broker = self.brokers[CONTROLLER]
        return (
            f"{broker.host}:{broker.controller_port}" if isinstance(broker, KafkaBroker) else self._logins[CONTROLLER]
        )

    @property
    def elsewhere(self) -> str:
        """A listener of the controller that is not for brokers."""
        name = "SASL_PLAINTEXT" if self.kind == "kafka" else "PLAINTEXT"
        return self.address(name, CONTROLLER)

    def prepare(self) -> dict[str, bytes]:
        """Create what the cases need, on broker 3; the ids of the topics."""
        names = (ONE, TWO, "__consumer_offsets", "__transaction_state", "__share_group_state")
        wire = Wire(self.bootstrap)
        wire.create(*(new_topic(name, -1, -1, assignments=[(0, [ASKED])]) for name in names))
        ids = prepared(wire)
        wire.close()
        return ids
