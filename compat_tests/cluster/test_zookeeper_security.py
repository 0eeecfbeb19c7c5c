"""Brokers that connect to ZooKeeper over mutual TLS with a DIGEST-MD5 login: their properties reach ZooKeeper."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NotEmptyError

from compat_tests.needs import need
from harness.kafka_jars import why_no_java
from harness.processes.ports import free_port
from harness.processes.zookeeper import ZooKeeper
from kwire.base.config import KafkaConfig
from kwire.cluster.store.store import StoreError, Write
from kwire.cluster.store.zookeeper.client import settings_of
from kwire.cluster.store.zookeeper.store import ZooKeeperStore

pytestmark = pytest.mark.java

Secure = tuple[dict[str, str], Path]
"""The properties that give access to the server, and the folder with its certificates."""

LOGIN = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kwire" password="{}";'
JAAS = 'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_kwire="secret"; };'


def certificate(path: Path, name: str) -> Path:
    """A PEM file with a key and a self-signed certificate."""
    key, cert = path.with_suffix(".key"), path.with_suffix(".crt")
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -addext subjectAltName={name}".split()
        + f"-keyout {key} -out {cert}".split(),
        check=True,
        capture_output=True,
    )
    path.write_bytes(key.read_bytes() + cert.read_bytes())
    return path


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """A server that requires a client certificate and a login."""
    need(why_no_java())
    home = tmp_path_factory.mktemp("secure")
    server, client = certificate(home / "server.pem", "IP:127.0.0.1"), certificate(home / "client.pem", "DNS:client")
    (home / "jaas.conf").write_text(JAAS)
    port = free_port()
    settings: dict[str, Any] = {
        "secureClientPort": port,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": server,
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": client.with_suffix(".crt"),
        "ssl.trustStore.type": "PEM",
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "sessionRequireClientSASLAuth": "true",
    }
    options = [f"-Djava.security.auth.login.config={home / 'jaas.conf'}"]
    zookeeper = ZooKeeper(home / "zookeeper", options, **settings)
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": f"127.0.0.1:{port}/secure",
        "zookeeper.connection.timeout.ms": "60000",
        "zookeeper.set.acl": "true",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.keystore.location": str(client),
        "zookeeper.ssl.truststore.location": str(server.with_suffix(".crt")),
        "zookeeper.ssl.truststore.type": "PEM",
        "kwire.zookeeper.sasl.jaas.config": LOGIN.format("secret"),
    }
    try:
        zookeeper.start()
        yield properties, home
    finally:
        zookeeper.stop()


async def test_a_broker_with_certificate_and_login_gets_in_and_what_it_makes_is_its_own(secure: Secure) -> None:
    properties, _ = secure
    store = ZooKeeperStore(settings_of(KafkaConfig(properties)))
    await store.open()
    try:
        session = await store.open_session("broker 1", lease_ms=9000)
        await store.commit([], [Write("brokers/1", b"x", session.id)])
        assert list((await store.read(""))[1]) == ["brokers/1"]
        acl, _ = await store._connection.call("get_acls", store._path("keys", "brokers:1"))
        granted = {(each.id.scheme, each.id.id, each.perms) for each in acl}
        assert granted == {("sasl", "kwire", 31), ("x509", "CN=DNS:client", 31)}
    finally:
        await store.close()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("kwire.zookeeper.sasl.jaas.config", LOGIN.format("wrong"), "Sasl"),
        ("kwire.zookeeper.sasl.jaas.config", None, "ZooKeeper"),
        ("zookeeper.ssl.keystore.location", None, "certificate"),
        ("zookeeper.ssl.truststore.location", "client.crt", "certificate verify failed"),
        ("zookeeper.ssl.truststore.location", "no-such-file.pem", "No such file"),
    ],
)
async def test_without_one_of_them_the_start_fails_with_one_line(
    secure: Secure, name: str, text: str | None, reason: str
) -> None:
    properties, home = secure
    changed = {**properties, "zookeeper.connection.timeout.ms": "10000"}
    del changed[name]
    if text is not None:
        changed[name] = str(home / text) if name.startswith("zookeeper.ssl") else text
    store = ZooKeeperStore(settings_of(KafkaConfig(changed)))
    with pytest.raises(StoreError) as caught:
        await store.open()
    named = (
        f"zookeeper.connect={properties['zookeeper.connect']}: ",
        f"{name}={changed.get(name)} cannot be used: No such",
    )
    assert str(caught.value).startswith(named[1 if text == "no-such-file.pem" else 0])
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_nodes_from_before_the_acls_are_protected_from_strangers(tmp_path: Path) -> None:
    """`kwire zookeeper protect`: old nodes, credentials among them, are the brokers' alone afterwards."""
    need(why_no_java())
    (tmp_path / "jaas.conf").write_text(JAAS)
    provider = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    options = [f"-Djava.security.auth.login.config={tmp_path / 'jaas.conf'}"]
    zookeeper = ZooKeeper(tmp_path / "zookeeper", options, **provider)
    zookeeper.start()
    anybody = {"listeners": "PLAINTEXT://127.0.0.1:0", "zookeeper.connect": f"{zookeeper.address}/open"}
    broker = {**anybody, "zookeeper.set.acl": "true", "kwire.zookeeper.sasl.jaas.config": LOGIN.format("secret")}
    file = tmp_path / "broker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in broker.items()))
    try:
        store = ZooKeeperStore(settings_of(KafkaConfig(anybody)))
        await store.open()
        await store.commit([], [Write("scram/1/alice", b"credential")])
        await store.close()
        command = [sys.executable, "-m", "kwire", "zookeeper", "protect", "--config", str(file)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert re.fullmatch(r"kwire protected nodes=\d+\n", done.stdout), done.stderr
        with pytest.raises(StoreError, match="NoAuth"):
            await ZooKeeperStore(settings_of(KafkaConfig(anybody))).open()
        assert await asyncio.to_thread(readable_by_strangers, zookeeper.address, "/open/kwire") == []
        store = ZooKeeperStore(settings_of(KafkaConfig(broker)))
        await store.open()
        assert (await store.read("scram/"))[1]["scram/1/alice"].value == b"credential"
        await store.close()
    finally:
        zookeeper.stop()


def readable_by_strangers(address: str, base: str) -> list[str]:
    """The nodes from one on that a client without a login can read, list or change."""
    client = KazooClient(hosts=address)
    client.start(timeout=20)
    found = []
    try:
        for path in (base, *(f"{base}/{name}" for name in ("log", "keys", "sessions", "changes"))):
            for act in (client.get, client.get_children, partial(client.set, value=b"x"), client.delete):
                try:
                    act(path)
                except (NoAuthError, NotEmptyError):
                    continue
                found.append(path)
    finally:
        client.stop()
        client.close()
    return found
