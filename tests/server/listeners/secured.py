"""Brokers with secured listeners in the test's own process: a certificate, users, and clients that log in."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from kwire.base.addresses import parse_address
from kwire.base.config import KafkaConfig
from kwire.base.doors import Doors
from kwire.cluster.connector import Connector
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.net.client import ClientConnection
from kwire.security.client import client_security
from kwire.security.scram_credentials import MECHANISMS as SCRAM
from kwire.server.broker import Broker
from kwire.testing.certificates import Authority

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS: Final = ("PLAIN", *SCRAM)
USER, PASSWORD = "alice", "planted-password-of-alice"
BROKER_PASSWORD: Final = "planted-password-of-brokers"
ITERATIONS: Final = 4096


class Secured:
    """Brokers whose one listener has a protocol, in a directory of their own."""

    def __init__(self, directory: Path, protocol: str, stack: AsyncExitStack) -> None:
        self.directory = directory
        self.protocol = protocol
        self.authority = Authority(directory)
        self._stack = stack
        self._prefix = f"listener.name.{protocol.lower()}."

    def properties(self, inter_broker: str = "PLAIN") -> dict[str, str]:
        """A broker's properties. ``inter_broker``: the mechanism of brokers."""
        properties = {
            "listeners": f"{self.protocol}://127.0.0.1:0",
            "security.inter.broker.protocol": self.protocol,
            "offsets.topic.num.partitions": "2",
        }
        if self.protocol.endswith("SSL"):
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.authority.issue("broker", "127.0.0.1")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority.path),
            }
        if self.protocol.startswith("SASL"):
            own = f'username="broker" password="{BROKER_PASSWORD}"'
            users = f'user_broker="{BROKER_PASSWORD}" user_{USER}="{PASSWORD}"'
            properties |= {
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "sasl.mechanism.inter.broker.protocol": inter_broker,
                f"{self._prefix}plain.sasl.jaas.config": f"{PLAIN} required {own} {users};",
            }
            for name in SCRAM:
                properties[f"{self._prefix}{name.lower()}.sasl.jaas.config"] = f"{SCRAM_MODULE} required {own};"
        return properties

    async def start(self, node_id: int = 1, store: Any = None, **given: str) -> Broker:
        """A broker. ``given``: properties with ``_`` for ``.``; with a store, one of a cluster."""
        shared = {"kwire.metadata.dir": str(self.directory / "unused")} if store is not None else {}
        own = {"node.id": str(node_id), "log.dirs": str(self.directory / f"data-{node_id}"), **shared}
        texts = {**self.properties(), **own, **{name.replace("_", "."): text for name, text in given.items()}}
        return await self._stack.enter_async_context(Broker(KafkaConfig(texts), store=store))

    def client_properties(self, mechanism: str = "PLAIN", user: str = USER, password: str = PASSWORD) -> dict[str, str]:
        """A client's properties."""
        properties = {"security.protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.path)}
        if self.protocol.startswith("SASL"):
            module = PLAIN if mechanism == "PLAIN" else SCRAM_MODULE
            login = f'{module} required username="{user}" password="{password}";'
            properties |= {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
        return properties

    async def connect(self, broker: Broker, properties: dict[str, str] | None = None) -> ClientConnection:
        """A client's connection, which is logged in. OSError."""
        security = client_security(self.client_properties() if properties is None else properties)
        connection = await Connector(Doors(), security).connect(*parse_address(broker.bootstrap_servers), "test")
        self._stack.callback(connection.close)
        return connection

    async def add_scram_users(self, broker: Broker, iterations: int = ITERATIONS) -> None:
        """Give the users of PLAIN the same passwords with SCRAM."""
        connection = await self.connect(broker)
        for mechanism in SCRAM.values():
            upsertions = []
            for user, password in ((USER, PASSWORD), ("broker", BROKER_PASSWORD)):
                salted = mechanism.salted_password(password, b"salt", iterations)
                upsertion = ScramCredentialUpsertion(
                    name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
                )
                upsertions.append(upsertion)
            response = await connection.call(AlterUserScramCredentialsRequest(upsertions=upsertions), 0)
            assert not any(result.error_code for result in response.results), response
