"""Three brokers with SASL_SSL for clients and among themselves: certificates and passwords change under load."""

from __future__ import annotations

import contextlib
import hashlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from compat_tests.cluster.load import AioKafkaLoad, ConfluentLoad, JavaLoad, Load, under_load
from compat_tests.servers import running
from harness.processes.kwire_cluster import KwireCluster
from harness.processes.secured_clusters import BROKERS, CLIENT, ClusterSecurity, password
from harness.processes.zookeeper import SecuredZooKeeper
from harness.wire_client import WireClient
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

SHA_512 = 2
Secured = tuple[KwireCluster, ClusterSecurity]


@pytest.fixture(params=["embedded", "zookeeper"])
def secured_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secured]:
    """Three brokers, started, on the embedded store or on a ZooKeeper with TLS and logins."""
    with contextlib.ExitStack() as stack:
        store = None
        if request.param == "zookeeper":
            zookeeper = SecuredZooKeeper(tmp_path / "zookeeper")
            stack.enter_context(running(zookeeper, zookeeper.stop))
            store = zookeeper.properties("/kwire")
        cluster, security = KwireCluster(tmp_path / "cluster", store=store), ClusterSecurity(tmp_path / "security")
        stack.callback(cluster.kill)
        security.add_users(cluster.store)
        for node_id, broker in cluster.brokers.items():
            security.secure(broker, node_id)
        cluster.start()
        yield cluster, security


def loads_of(cluster: KwireCluster, security: ClusterSecurity) -> list[Load]:
    """Clients that log in over TLS."""
    bootstrap, trust = security.bootstrap(cluster.brokers), str(security.trusted)
    context = ssl.create_default_context(cafile=trust)
    return [
        ConfluentLoad(bootstrap, security=security.librdkafka()),
        AioKafkaLoad(bootstrap, security={**security.python(), "ssl_context": context}),
        JavaLoad(bootstrap, security=security.java()),
    ]


def alter_users(cluster: KwireCluster, request: AlterUserScramCredentialsRequest) -> None:
    with WireClient(cluster.brokers[1].bootstrap) as client:
        results = client.call(request, 0).results
    assert [each.error_code for each in results] == [0] * len(results), results


def change_password(cluster: KwireCluster, user: str, secret: str) -> None:
    salted = hashlib.pbkdf2_hmac("sha512", secret.encode(), b"salt of rotation", 4096)
    upsertion = ScramCredentialUpsertion(
        name=user, mechanism=SHA_512, iterations=4096, salt=b"salt of rotation", salted_password=salted
    )
    alter_users(cluster, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))


def delete_user(cluster: KwireCluster, user: str) -> None:
    deletion = ScramCredentialDeletion(name=user, mechanism=SHA_512)
    alter_users(cluster, AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))


def first_error(options: dict[str, object]) -> str:
    """The name of the first error of a new client; empty if it connects."""
    errors: list[KafkaError] = []
    producer = Producer({**options, "error_cb": errors.append, "log_level": 0})
    try:
        producer.list_topics(timeout=20)
    except Exception:
        producer.poll(0)
        assert errors
        return str(errors[0].name())
    return ""


@pytest.mark.java
def test_certificates_and_passwords_are_rotated_without_a_failed_request(secured_cluster: Secured) -> None:
    """A new key; another authority, first trusted beside the old one; another user of the brokers, by a rolling
    restart; another password of the clients."""
    cluster, security = secured_cluster
    loads = loads_of(cluster, security)

    def new_keys(authority: int) -> None:
        for node_id, broker in cluster.brokers.items():
            security.change_store(broker.bootstrap, node_id, "keystore", security.key_store(authority))

    def trust(first: bool, second: bool) -> None:
        for node_id, broker in cluster.brokers.items():
            security.change_store(broker.bootstrap, node_id, "truststore", security.trust_store(first, second))

    def rotate() -> None:
        new_keys(0)
        trust(True, True)
        new_keys(1)
        trust(False, True)
        for node_id, broker in cluster.brokers.items():
            security.log_in_as(broker, BROKERS[1])
            cluster.restart(node_id)
        delete_user(cluster, BROKERS[0])
        change_password(cluster, CLIENT, "another")

    under_load(cluster, loads, rotate)
    assert [load.summary()["retriable"] for load in loads if load.retriable] == []
    options = {"bootstrap.servers": security.bootstrap(cluster.brokers), **security.librdkafka()}
    assert first_error(options) == "_AUTHENTICATION"
    assert first_error({**options, "sasl.password": "another"}) == ""
    assert password(CLIENT) != "another"
    first_only = str(security.trust_store(True, False))
    assert first_error({**options, "sasl.password": "another", "ssl.ca.location": first_only}) == "_SSL"
