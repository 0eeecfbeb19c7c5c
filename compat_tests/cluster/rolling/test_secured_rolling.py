"""Three brokers with SASL_SSL for clients and among themselves, and how a cluster gets there: all of it under load."""

from __future__ import annotations

import contextlib
import hashlib
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from compat_tests.cluster.rolling.load import (
    AioKafkaLoad,
    ConfluentLoad,
    JavaLoad,
    Load,
    begin,
    check,
    make_topics,
    under_load,
)
from compat_tests.servers import running
from harness.paths import ROOT
from harness.processes.brokers import wait_until
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
NOT_CONNECTED = ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN")
LOADING = re.compile("COORDINATOR_LOAD_IN_PROGRESS|LoadInProgress")
Secured = tuple[KwireCluster, ClusterSecurity]


@pytest.fixture(params=["embedded", pytest.param("zookeeper", marks=pytest.mark.long)])
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


def retried(loads: list[Load]) -> list[str]:
    """The retriable errors, but for those of a coordinator that still loads its groups, as it may after a restart."""
    return [error for load in loads for error in load.retriable if not LOADING.search(error)]


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
    """The name of the first error of a new client; empty if it connects. A connection that is not made in time on a
    busy machine says nothing about the login: then the next error counts."""
    errors: list[KafkaError] = []
    producer = Producer({**options, "error_cb": errors.append, "log_level": 0})
    try:
        producer.list_topics(timeout=20)
    except Exception:
        producer.poll(0)
        names = [str(error.name()) for error in errors]
        assert names
        return next((name for name in names if name not in NOT_CONNECTED), names[0])
    return ""


@pytest.mark.java
def test_certificates_and_passwords_are_rotated_without_a_failed_request(secured_cluster: Secured) -> None:
    """A new key; another authority, first trusted beside the old one; another user of the brokers, by a rolling
    restart. Another password of the clients comes when they have stopped: who has the old one can't connect anew, and
    a client connects anew whenever a partition moves to a broker to which it has no connection."""
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

    under_load(cluster, loads, rotate)
    change_password(cluster, CLIENT, "another")
    assert retried(loads) == []
    options = {"bootstrap.servers": security.bootstrap(cluster.brokers), **security.librdkafka()}
    # The other brokers learn of the new password a moment later.
    wait_until(lambda: first_error(options) == "_AUTHENTICATION", 30, "the old password is refused")
    wait_until(lambda: first_error({**options, "sasl.password": "another"}) == "", 30, "the new password is accepted")
    assert password(CLIENT) != "another"
    first_only = str(security.trust_store(True, False))
    assert first_error({**options, "sasl.password": "another", "ssl.ca.location": first_only}) == "_SSL"


ADMIN = BROKERS[0]
GUIDE = (ROOT / "docs" / "SECURING_A_CLUSTER.md").read_text()
OF_THE_LOADS = {"orders-": "load-", "billing-": "readers of "}


def properties_of_the_guide() -> list[dict[str, str]]:
    """Those of each of its rolling restarts that has some."""
    blocks = re.findall(r"```properties\n(.*?)```", GUIDE, re.DOTALL)
    return [dict(line.split("=", 1) for line in block.replace("\\\n", "").splitlines()) for block in blocks]


def run_command_of_the_guide(beginning: str, home: Path, *options: str) -> None:
    """Run its commands that begin so, with names of the test's clients; they must succeed."""
    commands = [line for line in GUIDE.splitlines() if line.startswith(beginning)]
    assert commands
    for command in commands:
        words = [OF_THE_LOADS.get(word, word) for word in command.split(" --bootstrap-server")[0].split()[1:]]
        done = subprocess.run(
            [sys.executable, "-m", "kwire", *words, *options],
            cwd=home,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def allow(security: ClusterSecurity, cluster: KwireCluster, home: Path) -> None:
    """What the clients do, and what the harness does on PLAINTEXT: look and read."""
    client = home / "admin.properties"
    client.write_text("".join(f"{name}={value}\n" for name, value in security.java(ADMIN).items()))
    login = ("--bootstrap-server", security.bootstrap(cluster.brokers), "--command-config", str(client))
    run_command_of_the_guide("kwire acl", home, *login)
    look = ("acl", "add", "User:ANONYMOUS", "--operation", "read", "--topic", "*", "--group", "-")
    subprocess.run([sys.executable, "-m", "kwire", *look, *login], check=True, capture_output=True)


@pytest.mark.java
def test_an_open_cluster_is_secured_without_a_failed_request(tmp_path: Path) -> None:
    """docs/SECURING_A_CLUSTER.md: users and a second listener; the clients move; SASL_SSL between brokers, and an
    authorizer that allows what no ACL is about; ACLs; the authorizer decides alone."""
    cluster, security = KwireCluster(tmp_path / "cluster"), ClusterSecurity(tmp_path / "security")
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.kill)
        cluster.start()
        open_loads: list[Load] = [ConfluentLoad(cluster.bootstrap), AioKafkaLoad(cluster.bootstrap)]
        make_topics(cluster.bootstrap, open_loads)
        begin(open_loads)
        first, second = properties_of_the_guide()
        for user in (CLIENT, ADMIN):
            (tmp_path / f"{user}.password").write_text(password(user))
        run_command_of_the_guide("kwire user", tmp_path, "--bootstrap-server", cluster.bootstrap)
        for node_id, broker in cluster.brokers.items():
            security.listen_securely(broker, node_id)
            assert first.keys() <= broker.settings.keys()
            cluster.restart(node_id)
        loads = loads_of(cluster, security)
        make_topics(cluster.bootstrap, loads)
        begin(loads)
        for node_id, broker in cluster.brokers.items():
            broker.settings |= second
            cluster.restart(node_id)
        for load in open_loads:
            load.stop()
        check(cluster, open_loads)
        allow(security, cluster, tmp_path)
        for node_id, broker in cluster.brokers.items():
            del broker.settings["allow.everyone.if.no.acl.found"]
            cluster.restart(node_id)
        assert refusal(cluster.bootstrap, loads[0].topic) == "TOPIC_AUTHORIZATION_FAILED"
        for load in loads:
            load.stop()
        check(cluster, loads)
        assert retried(loads) == []


def refusal(bootstrap: str, topic: str) -> str:
    """The error with which a client without a login is refused when it writes."""
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, _: refused.append(str(error.name()) if error else ""))
    producer.flush(30)
    return refused[0]
