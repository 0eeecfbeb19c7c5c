"""Listeners with TLS and SASL: clients that prove who they are are served, others are not, brokers reach each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import kwire
from harness.raw_client import ConnectionClosed, RawClient
from kwire.base.addresses import parse_address
from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.doors import Doors
from kwire.cluster.store.memory import MemoryStore
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kwire.codec.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.codec.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.codec.records import Record, build_batch
from kwire.net.client import ConnectionLost
from kwire.security.delegation_tokens import token_hmac, token_password
from kwire.server.broker import Broker
from kwire.server.dump import dump
from kwire.server.listeners.setups import EXPIRY_METRIC
from tests.server.listeners.secured import MECHANISMS, PASSWORD, USER, Secured

PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
Make = Callable[[str], Secured]


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:
        yield lambda protocol: Secured(tmp_path, protocol, stack)


def principals(broker: Broker) -> list[str]:
    return [str(each.context.principal) for each in broker.net.connections if each.context is not None]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", SASL_PROTOCOLS)
async def test_who_knows_the_password_gets_in(secured: Make, protocol: str, mechanism: str) -> None:
    listener = secured(protocol)
    broker = await listener.start()
    await listener.add_scram_users(broker)
    connection = await listener.connect(broker, listener.client_properties(mechanism))
    metadata = await connection.call(MetadataRequest(topics=[]), 12)
    assert metadata.cluster_id == broker.cluster_id
    assert principals(broker)[-1] == f"User:{USER}"


async def unknown_iterations(broker: Broker) -> str:
    """The iterations that the broker names for a user that does not exist."""
    client = await RawClient.connect(Doors(), *parse_address(broker.bootstrap_servers))
    await client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    first = await client.call(SaslAuthenticateRequest(auth_bytes=b"n,,n=nobody,r=abc"), 2)
    client.close()
    return bytes(first.auth_bytes).decode().rpartition(",i=")[2]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_broker_in_one_process_gets_a_secured_listener_by_keywords(secured: Make, protocol: str) -> None:
    made = secured(protocol)
    properties: dict[str, Any] = dict(made.properties())
    async with kwire.Broker(**properties, log_dirs=made.directory / "data") as broker:
        assert parse_address(broker.bootstrap_servers).port
        client = await made.connect(broker)
        (found,) = (await client.call(MetadataRequest(topics=[]), 12)).brokers
        assert f"{found.host}:{found.port}" == broker.bootstrap_servers


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_wrong_password_and_an_unknown_user_get_the_same_text(secured: Make, mechanism: str) -> None:
    listener = secured("SASL_PLAINTEXT")
    broker = await listener.start()
    await listener.add_scram_users(broker)
    texts = set()
    for user, password in ((USER, "wrong"), ("nobody", PASSWORD)):
        with pytest.raises(PermissionError) as caught:
            await listener.connect(broker, listener.client_properties(mechanism, user, password))
        texts.add(str(caught.value))
    assert len(texts) == 1


async def test_an_unknown_user_has_the_iterations_of_the_others(secured: Make) -> None:
    listener = secured("SASL_PLAINTEXT")
    broker = await listener.start()
    assert await unknown_iterations(broker) == "4096"
    await listener.add_scram_users(broker, iterations=8192)
    assert await unknown_iterations(broker) == "8192"


async def test_without_a_secret_key_nobody_logs_in_with_a_token(secured: Make) -> None:
    listener, store = secured("SASL_PLAINTEXT"), MemoryStore()
    with_key = await listener.start(1, store, delegation_token_secret_key="key")
    connection = await listener.connect(with_key)
    token = await connection.call(CreateDelegationTokenRequest(), 3)
    assert not token.error_code
    without_key = await listener.start(2, store, delegation_token_secret_key="")

    def properties(secret: bytes) -> dict[str, str]:
        texts = listener.client_properties("SCRAM-SHA-256", token.token_id, token_password(secret))
        return texts | {"sasl.jaas.config": texts["sasl.jaas.config"].replace(";", ' tokenauth="true";')}

    await listener.connect(with_key, properties(token.hmac))
    for secret in (token.hmac, token_hmac("", token.token_id)):
        with pytest.raises(PermissionError, match="login failed"):
            await listener.connect(without_key, properties(secret))


@pytest.mark.parametrize("protocol", SASL_PROTOCOLS)
async def test_nothing_is_served_before_the_login(secured: Make, protocol: str) -> None:
    listener = secured(protocol)
    broker = await listener.start()
    without = {name: text for name, text in listener.client_properties().items() if not name.startswith("sasl.")}
    without["security.protocol"] = protocol.removeprefix("SASL_")
    connection = await listener.connect(broker, without)
    await connection.call(ApiVersionsRequest(), 0)
    with pytest.raises(ConnectionLost):
        await connection.call(MetadataRequest(topics=[]), 12)
    assert connection.closed


async def test_a_client_without_tls_is_disconnected(secured: Make) -> None:
    listener = secured("SSL")
    broker = await listener.start()
    async with await RawClient.connect(Doors(), *parse_address(broker.bootstrap_servers)) as client:
        with pytest.raises(ConnectionClosed):
            await client.call(ApiVersionsRequest(), 0)


@pytest.mark.parametrize(("protocol", "no_reauth"), [("SSL", 1), ("SASL_SSL", 0)])
async def test_handshakes_count_as_authentications(secured: Make, protocol: str, no_reauth: int) -> None:
    """As Kafka's `Selector` counts: a TLS client cannot authenticate again; with SASL, a handshake alone is none."""
    listener = secured(protocol)
    broker = await listener.start()
    prefix = f"kafka.server:type=socket-server-metrics,listener={protocol},name="
    names = ("successful-authentication", "successful-authentication-no-reauth", "failed-authentication")

    def totals() -> list[int]:
        snapshot = broker.metrics.snapshot()
        return [snapshot[f"{prefix}{name}-total"] for name in names]

    async with await RawClient.connect(Doors(), *parse_address(broker.bootstrap_servers)) as client:
        with pytest.raises(ConnectionClosed):
            await client.call(ApiVersionsRequest(), 0)
    assert totals() == [0, 0, 1]
    connection = await listener.connect(broker)
    await connection.call(MetadataRequest(topics=[]), 12)
    assert totals() == [1, no_reauth, 1]
    assert broker.metrics.snapshot()[f"{prefix}failed-authentication-rate"] > 0


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
async def test_a_certificate_that_is_not_trusted_is_refused_by_the_client(secured: Make, protocol: str) -> None:
    listener = secured(protocol)
    broker = await listener.start()
    (other := listener.directory / "other").mkdir()
    properties = listener.client_properties()
    properties["ssl.truststore.location"] = str(type(listener.authority)(other).path)
    with pytest.raises(OSError, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
        await listener.connect(broker, properties)


async def test_a_certificate_for_another_host_is_refused_unless_names_are_not_compared(secured: Make) -> None:
    listener = secured("SSL")
    broker = await listener.start(ssl_keystore_location=str(listener.authority.issue("other", "other.example.org")))
    with pytest.raises(OSError, match="IP address mismatch"):
        await listener.connect(broker)
    properties = {**listener.client_properties(), "ssl.endpoint.identification.algorithm": ""}
    await (await listener.connect(broker, properties)).call(MetadataRequest(topics=[]), 12)


async def test_a_listener_that_requires_certificates_takes_no_others(secured: Make) -> None:
    listener = secured("SSL")
    broker = await listener.start(ssl_client_auth="required")
    with pytest.raises(ConnectionLost):
        await (await listener.connect(broker)).call(MetadataRequest(topics=[]), 12)
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(listener.authority.issue("alice"))}
    connection = await listener.connect(broker, {**listener.client_properties(), **own})
    await connection.call(MetadataRequest(topics=[]), 12)


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "User:CN=alice"),
        ("RULE:^CN=(.*)$/$1@example/U", "User:ALICE@EXAMPLE"),
        ("RULE:^CN=(b.*)$/$1/,DEFAULT", "User:CN=alice"),
    ],
)
async def test_a_certificate_says_who_the_client_is(secured: Make, rules: str, principal: str) -> None:
    listener = secured("SSL")
    broker = await listener.start(ssl_client_auth="requested", ssl_principal_mapping_rules=rules)
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(listener.authority.issue("alice"))}
    for properties, expected in ((own, principal), ({}, "User:ANONYMOUS")):
        connection = await listener.connect(broker, {**listener.client_properties(), **properties})
        await connection.call(MetadataRequest(topics=[]), 12)
        assert principals(broker)[-1] == expected


async def test_a_certificate_that_no_rule_maps_is_disconnected(secured: Make) -> None:
    listener = secured("SSL")
    rules = "RULE:^CN=(b.*)$/$1/"
    broker = await listener.start(ssl_client_auth="required", ssl_principal_mapping_rules=rules)
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(listener.authority.issue("alice"))}
    connection = await listener.connect(broker, {**listener.client_properties(), **own})
    with pytest.raises(ConnectionLost):
        await connection.call(MetadataRequest(topics=[]), 12)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_brokers_replicate_over_secured_listeners(secured: Make, protocol: str) -> None:
    listener, store = secured(protocol), MemoryStore()
    mechanism = {"sasl_mechanism_inter_broker_protocol": "PLAIN"} if protocol.startswith("SASL") else {}
    first = await listener.start(1, store, **mechanism)
    second = await listener.start(2, store, **mechanism)
    await replicate(await listener.connect(first), second)


async def test_brokers_log_in_to_each_other_with_scram(secured: Make) -> None:
    listener, store = secured("SASL_SSL"), MemoryStore()
    first = await listener.start(1, store, sasl_mechanism_inter_broker_protocol="SCRAM-SHA-512")
    await listener.add_scram_users(first)
    second = await listener.start(2, store, sasl_mechanism_inter_broker_protocol="SCRAM-SHA-512")
    await replicate(await listener.connect(first), second)


async def test_brokers_renew_their_logins(secured: Make) -> None:
    """With `connections.max.reauth.ms` a login ends; requests after that would close the connection."""
    listener, store = secured("SASL_PLAINTEXT"), MemoryStore()
    first = await listener.start(1, store, connections_max_reauth_ms="500", replica_fetch_wait_max_ms="50")
    second = await listener.start(2, store, connections_max_reauth_ms="500", replica_fetch_wait_max_ms="50")
    connection = await listener.connect(first)
    await replicate(connection, second)
    killed = "kafka.server:type=socket-server-metrics,listener=SASL_PLAINTEXT,name=expired-connections-killed-count"
    logins = first.net.accepted
    async with asyncio.timeout(20):
        while first.net.accepted < logins + 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert first.metrics.counter(killed).value == 0


async def replicate(connection: Any, follower: Broker) -> None:
    """Write a record that the follower must have, too."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment])
    created = await connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    assert not created.topics[0].error_code, created
    batch = build_batch([Record(offset=0, timestamp=1, key=None, value=b"v")])
    data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    response = await connection.call(request, 9)
    assert not response.responses[0].partition_responses[0].error_code, response
    partition = follower.replicas.get("t", 0)
    assert partition is not None
    assert partition.log.log_end_offset == 1


async def test_a_certificate_that_ends_soon_is_warned_of_and_is_a_metric(
    secured: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    listener = secured("SSL")
    for node_id, days, warnings in ((1, 60, 0), (2, 20, 1)):
        path = listener.authority.issue("broker", "127.0.0.1", file=f"{days}-days", days=days)
        broker = await listener.start(node_id, ssl_keystore_location=str(path))
        assert capsys.readouterr().err.count("a certificate ends soon") == warnings
        assert days - 1 < broker.metrics.snapshot()[EXPIRY_METRIC.format("SSL")] <= days


async def test_passwords_are_not_in_logs_dumps_and_descriptions(
    secured: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    listener = secured("SASL_SSL")
    password = "planted-key-password"
    location = str(listener.authority.issue("encrypted", "127.0.0.1", password=password))
    broker = await listener.start(
        ssl_keystore_location=location, ssl_key_password=password, sasl_jaas_config="planted-jaas;"
    )
    await listener.add_scram_users(broker)
    connection = await listener.connect(broker, listener.client_properties("SCRAM-SHA-256"))
    with pytest.raises(PermissionError):
        await listener.connect(broker, listener.client_properties(password="planted-wrong-password"))
    resource = DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    described = await connection.call(request, 4)
    entries = {entry.name: entry for entry in described.results[0].configs}
    secret = entries["listener.name.sasl_ssl.plain.sasl.jaas.config"]
    assert (secret.value, secret.is_sensitive, secret.config_type) == (None, True, 9)
    dump(broker)
    shown = capsys.readouterr()
    for text in (repr(described), shown.err, shown.out, repr(broker.config.__dict__.get("warnings"))):
        assert "planted" not in text


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"ssl.keystore.location": "/no/such.pem"}, "ssl.keystore.location"),
        ({"ssl.keystore.location": ""}, "ssl.keystore.location"),
        ({"ssl.client.auth": "required", "ssl.truststore.location": ""}, "ssl.truststore.location"),
        ({"ssl.cipher.suites": "TLS_NO_SUCH"}, "ssl.cipher.suites"),
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "sasl.enabled.mechanisms"),
        ({"ssl.principal.mapping.rules": "RULE:[/x/"}, "ssl.principal.mapping.rules"),
    ],
)
async def test_what_is_wrong_stops_the_start_with_one_line(
    secured: Make, tmp_path: Path, changed: dict[str, str], line: str
) -> None:
    listener = secured("SASL_SSL" if "sasl.enabled.mechanisms" in changed else "SSL")
    texts = {**listener.properties(), "log.dirs": str(tmp_path / "data"), **changed}
    texts = {name: text for name, text in texts.items() if text}
    with pytest.raises(ConfigError, match=line) as caught:
        await Broker(KafkaConfig(texts)).start()
    assert "\n" not in str(caught.value)
    assert "planted" not in str(caught.value)
