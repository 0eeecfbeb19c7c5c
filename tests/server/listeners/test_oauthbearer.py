"""Listeners with OAUTHBEARER: tokens whose signature is right get in until they expire, and nothing else does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import jwt
import pytest

from harness.oauth_issuer import Kind, jwk, jwks, private_key, section
from harness.processes.oauth import OAuthServer, listener_settings
from kwire.base.addresses import parse_address
from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.doors import Doors
from kwire.cluster.connector import Connector
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.net.client import ClientConnection, ConnectionLost
from kwire.security.client import client_security
from kwire.security.oauth.settings import UNSECURED_VALIDATOR
from kwire.server.broker import Broker
from kwire.server.errors import StartError

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PREFIX = "listener.name.sasl_plaintext.oauthbearer."
ALLOWED = "kwire.sasl.oauthbearer.allowed.urls"


def signed(kind: Kind = "RSA", algorithm: str = "RS256", **more: Any) -> str:
    now_s = int(time.time())
    claims = {"sub": "alice", "iss": "issuer", "aud": "kafka", "iat": now_s - 10, "exp": now_s + 600, **more}
    return jwt.encode(claims, private_key(kind), algorithm=algorithm, headers={"kid": kind})


class Issued:
    """Brokers that take the tokens of an issuer whose keys are in a file."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.keys = folder / "keys.json"
        self.keys.write_bytes(jwks(jwk("RSA")))
        self._stack = stack

    def properties(self) -> dict[str, str]:
        return {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "offsets.topic.num.partitions": "2",
            PREFIX + "sasl.jaas.config": f"{MODULE} required;",
            PREFIX + "sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
            PREFIX + "sasl.oauthbearer.expected.issuer": "issuer",
            PREFIX + "sasl.oauthbearer.expected.audience": "other,kafka",
            ALLOWED: self.keys.as_uri(),
        }

    async def start(self, given: dict[str, str | None] | None = None, node_id: int = 1, store: Any = None) -> Broker:
        """A broker. ``given``: properties; None takes one away."""
        texts: dict[str, str | None] = {**self.properties(), "node.id": str(node_id)}
        texts |= {"log.dirs": str(self.folder / f"data-{node_id}"), **(given or {})}
        config = KafkaConfig({name: text for name, text in texts.items() if text is not None})
        return await self._stack.enter_async_context(Broker(config, store=store))

    async def connect(self, broker: Broker, token: str) -> ClientConnection:
        """A client's connection that has logged in with a token. PermissionError."""
        path = self.folder / "token"
        path.write_text(token + "\n")
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f"{MODULE} required;",
            "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        }
        return await self.connect_with(broker, properties)

    async def connect_with(self, broker: Broker, properties: dict[str, str]) -> ClientConnection:
        connector = Connector(Doors(), client_security(properties))
        connection = await connector.connect(*parse_address(broker.bootstrap_servers), "test")
        self._stack.callback(connection.close)
        return connection


@pytest.fixture
async def issued(tmp_path: Path) -> AsyncIterator[Issued]:
    async with AsyncExitStack() as stack:
        yield Issued(tmp_path, stack)


def principals(broker: Broker) -> list[str]:
    return [str(each.context.principal) for each in broker.net.connections if each.context is not None]


async def test_a_token_says_who_it_is(issued: Issued) -> None:
    broker = await issued.start()
    connection = await issued.connect(broker, signed())
    assert (await connection.call(MetadataRequest(topics=[]), 12)).cluster_id == broker.cluster_id
    assert principals(broker) == ["User:alice"]


def forged(change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> str:
    """A token whose header and claims were changed after it was signed."""
    header, claims, signature = signed().split(".")
    parts = [json.loads(jwt.utils.base64url_decode(part)) for part in (header, claims)]
    change(*parts)
    return f"{section(parts[0])}.{section(parts[1])}.{signature}"


@pytest.mark.parametrize(
    "token",
    [
        lambda: signed("other RSA"),
        lambda: signed("P-256", "ES256"),
        lambda: signed(exp=int(time.time()) - 100),
        lambda: signed(nbf=int(time.time()) + 100),
        lambda: signed(iss="other"),
        lambda: signed(aud="somebody else"),
        lambda: signed(exp=None),
        lambda: forged(lambda header, claims: claims.update(sub="admin")),
        lambda: forged(lambda header, claims: header.update(alg="none")),
        lambda: forged(lambda header, claims: header.update(alg="HS256")),
        lambda: forged(lambda header, claims: header.update(alg="none")).rpartition(".")[0] + ".",
        lambda: "A" * 100_000,
    ],
)
async def test_other_tokens_do_not_get_in(issued: Issued, token: Callable[[], str]) -> None:
    broker = await issued.start({"connection.failed.authentication.delay.ms": "0"})
    with pytest.raises(PermissionError, match=r'login failed: \{"status":"invalid_token"\}'):
        await issued.connect(broker, token())
    assert await issued.connect(broker, signed())


async def test_a_token_that_is_too_large_gets_the_general_text(issued: Issued) -> None:
    broker = await issued.start()
    with pytest.raises(PermissionError, match="due to invalid credentials with SASL mechanism OAUTHBEARER"):
        await issued.connect(broker, "A" * 500_000)


async def test_a_token_that_is_too_large_for_a_login_closes_the_connection(issued: Issued) -> None:
    broker = await issued.start()
    with pytest.raises(ConnectionError):
        await issued.connect(broker, "A" * 600 * 1024)


async def test_the_keys_may_change(issued: Issued) -> None:
    broker = await issued.start()
    issued.keys.write_bytes(jwks(jwk("P-256")))
    assert await issued.connect(broker, signed("P-256", "ES256"))
    with pytest.raises(PermissionError):
        await issued.connect(broker, signed())


async def log_in(connection: ClientConnection, token: str) -> Any:
    """Log in, or log in again. Returns the response to the token."""
    await connection.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    return await connection.call(SaslAuthenticateRequest(auth_bytes=message), 2)


async def test_a_session_lasts_as_long_as_the_token_and_can_be_renewed(issued: Issued) -> None:
    broker = await issued.start()
    connection = await ClientConnection.connect(Doors(), *parse_address(broker.bootstrap_servers), "test")
    assert 0 < (await log_in(connection, signed(exp=int(time.time()) + 100))).session_lifetime_ms <= 100_000
    assert 100_000 < (await log_in(connection, signed())).session_lifetime_ms <= 600_000
    assert (await connection.call(MetadataRequest(topics=[]), 12)).cluster_id == broker.cluster_id
    connection.close()


async def test_a_session_cannot_be_renewed_with_an_expired_token(issued: Issued) -> None:
    broker = await issued.start()
    connection = await ClientConnection.connect(Doors(), *parse_address(broker.bootstrap_servers), "test")
    await log_in(connection, signed())
    refused = await log_in(connection, signed(exp=int(time.time()) - 100))
    assert (refused.error_code, refused.auth_bytes) == (0, b'{"status":"invalid_token"}')
    response = await connection.call(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
    assert (response.error_code, response.error_message) == (58, '{"status":"invalid_token"}')
    connection.close()


async def test_a_session_cannot_be_renewed_for_somebody_else(issued: Issued) -> None:
    broker = await issued.start()
    connection = await ClientConnection.connect(Doors(), *parse_address(broker.bootstrap_servers), "test")
    await log_in(connection, signed())
    response = await log_in(connection, signed(sub="bob"))
    assert response.error_code == 58
    assert "Cannot change principals" in response.error_message
    connection.close()


async def test_a_token_without_a_login_is_no_request(issued: Issued) -> None:
    broker = await issued.start()
    connection = await ClientConnection.connect(Doors(), *parse_address(broker.bootstrap_servers), "test")
    with pytest.raises(ConnectionLost):
        await connection.call(SaslAuthenticateRequest(auth_bytes=b"n,,\x01auth=Bearer x\x01\x01"), 2)


async def test_brokers_log_in_to_each_other_with_a_token(issued: Issued) -> None:
    token = issued.folder / "broker-token"
    token.write_text(signed(sub="broker"))
    store = MemoryStore()
    given: dict[str, str | None] = {
        "kwire.metadata.dir": str(issued.folder / "unused"),
        "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        ALLOWED: f"{issued.keys.as_uri()},{token.as_uri()}",
    }
    first = await issued.start(given, 1, store)
    await issued.start(given, 2, store)
    metadata = await first.parts.cluster.peers.call(2, MetadataRequest(topics=[]), 12, timeout_s=10)
    assert metadata.cluster_id == first.cluster_id


async def test_brokers_get_their_tokens_from_an_issuer(issued: Issued) -> None:
    with OAuthServer() as server:
        mechanism = "listener.name.sasl_plaintext.oauthbearer."
        given: dict[str, str | None] = {
            **listener_settings(server, "SASL_PLAINTEXT"),
            "kwire.metadata.dir": str(issued.folder / "unused"),
            mechanism + "sasl.oauthbearer.token.endpoint.url": server.token_url,
            mechanism + "sasl.oauthbearer.client.credentials.client.id": "alice",
            mechanism + "sasl.oauthbearer.client.credentials.client.secret": "alice-secret",
            ALLOWED: f"{server.jwks_url},{server.token_url}",
        }
        store = MemoryStore()
        first = await issued.start(given, 1, store)
        second = await issued.start(given, 2, store)
        metadata = await first.parts.cluster.peers.call(2, MetadataRequest(topics=[]), 12, timeout_s=10)
        assert metadata.cluster_id == first.cluster_id
        assert set(principals(second)) == {"User:alice"}


async def test_the_url_of_a_brokers_issuer_must_be_allowed(issued: Issued) -> None:
    given: dict[str, str | None] = {
        "kwire.metadata.dir": str(issued.folder / "unused"),
        "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
        "sasl.oauthbearer.client.credentials.client.id": "alice",
        "sasl.oauthbearer.client.credentials.client.secret": "planted",
    }
    with pytest.raises(ConfigError, match=r"^sasl\.oauthbearer\.token\.endpoint\.url=.* is not one of") as raised:
        await issued.start(given, 1, MemoryStore())
    assert "planted" not in str(raised.value)


async def test_unsecured_tokens_get_in_where_a_listener_says_so(issued: Issued, capsys: Any) -> None:
    given: dict[str, str | None] = {PREFIX + "sasl.server.callback.handler.class": UNSECURED_VALIDATOR}
    broker = await issued.start(given)
    assert "any client can log in as any user" in capsys.readouterr().err
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    jaas = f'{MODULE} required unsecuredLoginStringClaim_sub="admin";'
    assert await issued.connect_with(broker, {**properties, "sasl.jaas.config": jaas})
    assert principals(broker) == ["User:admin"]


async def test_an_unsecured_token_does_not_get_in_elsewhere(issued: Issued) -> None:
    broker = await issued.start()
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    jaas = f'{MODULE} required unsecuredLoginStringClaim_sub="admin";'
    with pytest.raises(PermissionError, match="invalid_token"):
        await issued.connect_with(broker, {**properties, "sasl.jaas.config": jaas})


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({PREFIX + "sasl.oauthbearer.jwks.endpoint.url": None}, "sasl.oauthbearer.jwks.endpoint.url: must be set for"),
        ({ALLOWED: None}, "is not one of kwire.sasl.oauthbearer.allowed.urls"),
        ({ALLOWED: "https://issuer/keys"}, "is not one of kwire.sasl.oauthbearer.allowed.urls"),
        ({PREFIX + "sasl.server.callback.handler.class": "com.example.Own"}, "is not supported by kwire: only"),
        ({PREFIX + "sasl.oauthbearer.jwt.validator.class": "com.example.Own"}, "is not supported by kwire: only"),
        ({PREFIX + "sasl.jaas.config": "com.example.Own required;"}, "com.example.Own is not supported by kwire"),
    ],
)
async def test_a_broker_does_not_start_without_safe_settings(
    issued: Issued, given: dict[str, str | None], line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        await issued.start(given)
    assert line in str(caught.value)


async def test_a_broker_does_not_start_without_keys(issued: Issued) -> None:
    issued.keys.unlink()
    given: dict[str, str | None] = {"sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "1"}
    with pytest.raises(StartError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url=file:.*: No such file or directory"):
        await issued.start(given)


async def test_a_flood_of_unknown_keys_does_not_keep_others_out(issued: Issued) -> None:
    broker = await issued.start({"connection.failed.authentication.delay.ms": "0"})
    attempts = []
    for number in range(50):
        claims = {"sub": "mallory", "iat": 1, "exp": 2**31}
        token = jwt.encode(claims, private_key("other RSA"), "RS256", {"kid": f"unknown {number}"})
        attempts.append(issued.connect(broker, token))
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert all(isinstance(result, PermissionError) for result in results)
    assert await issued.connect(broker, signed())
