"""A data directory of Apache Kafka with configurations, ACLs, users, quotas and tokens before and after adoption."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.comparisons.access.acls import ALL, ANYTHING, CLUSTER, DENY, PREFIXED, WRITE, Acl, Acls
from compat_tests.comparisons.admin.requests import Wire
from compat_tests.comparisons.configs.quotas import Quotas
from compat_tests.comparisons.configs.requests import BROKER, CLIENT_METRICS, DELETE, GROUP, SET, TOPIC, Configs
from compat_tests.comparisons.security.secured import LoginFailed, logged_in, logged_in_as
from harness.processes.brokers import wait_until
from harness.processes.secured import USERS, SecuredBroker, make_secured
from harness.wire_client import WireClient
from kwire.base.doors import Files
from kwire.cluster.kraft.metadata import MetadataLogError
from kwire.cluster.kraft.metadata_log import read_metadata
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kwire.codec.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kwire.codec.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.log.common import names
from kwire.security.delegation_tokens import token_password
from kwire.security.sasl.scram import ClientScram
from kwire.security.scram_credentials import ScramMechanism

pytestmark = pytest.mark.java

SETTINGS: Final = {
    "delegation.token.secret.key": "the secret of the tests",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    "metadata.log.max.record.bytes.between.snapshots": "4000",
}
SECRET: Final = "a secret that is never shown"
RESOURCES: Final = (
    (TOPIC, "orders"),
    (TOPIC, "plain"),
    (BROKER, ""),
    (BROKER, "1"),
    (GROUP, "readers"),
    (CLIENT_METRICS, "watched"),
)
DAMAGES: Final = 300
DYNAMIC: Final = (1, 2, 3, 7, 8)
"""`DescribeConfigsResponse.ConfigSource`: what was set for a topic, broker, all brokers, client metrics, group."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Apache Kafka with everything that is adopted."""
    broker = make_secured("kafka", tmp_path_factory.mktemp("adopted"), SETTINGS)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def before(kafka: SecuredBroker) -> dict[str, Any]:
    """What Apache Kafka describes; it has stopped."""
    token = fill(kafka)
    state = {**describe(kafka), "token": token}
    kafka.stop()
    return state


def fill(broker: SecuredBroker) -> tuple[str, bytes]:
    """Have one of everything, and something of each kind that was removed again; the token."""
    wire = Wire(broker.bootstrap)
    with WireClient(broker.bootstrap) as client:
        configs = Configs(client)
        configs.create("orders", {"cleanup.policy": "compact", "retention.ms": "123456"})
        configs.create("plain")
        configs.create("gone", {"retention.ms": "7"})
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=10_000)
        assert client.call(delete, 6).responses[0].error_code == 0
        for kind, name, *changes in (
            (TOPIC, "orders", ("max.message.bytes", SET, "54321")),
            (TOPIC, "orders", ("retention.ms", DELETE, None)),
            (BROKER, "", ("log.cleaner.delete.retention.ms", SET, "4242"), ("max.connections.per.ip", SET, "900")),
            (BROKER, "1", ("background.threads", SET, "11")),
            (BROKER, "1", ("listener.name.elsewhere.ssl.key.password", SET, SECRET)),
            (BROKER, "1", ("message.max.bytes", SET, "2000000")),
            (GROUP, "readers", ("consumer.session.timeout.ms", SET, "46000")),
            (CLIENT_METRICS, "watched", ("interval.ms", SET, "5000"), ("match", SET, "client_id=watch.*")),
        ):
            assert configs.change(kind, name, *changes) == "NONE", (kind, name, changes)
        deletion = ScramCredentialDeletion(name="carol", mechanism=1)
        answer = client.call(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]), 0)
        assert answer.results[0].error_code == 0
    acls = Acls(wire)
    gone = Acl(name="gone")
    acls.create(
        gone,
        Acl(),
        Acl(pattern=PREFIXED, name="ord", operation=WRITE),
        Acl(principal="User:bob", host="10.0.0.1", permission=DENY),
        Acl(CLUSTER, "kafka-cluster", principal="User:bob", operation=ALL),
    )
    acls.delete(gone)
    quotas = Quotas(wire)
    quotas.alter(
        ({"user": "alice"}, {"producer_byte_rate": 1000.0, "request_percentage": 12.5}),
        ({"user": None, "client-id": "a b"}, {"consumer_byte_rate": 2000.0}),
        ({"client-id": None}, {"controller_mutation_rate": 3.5}),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 5.0}),
        ({"user": "gone"}, {"producer_byte_rate": 1.0}),
    )
    quotas.alter(({"user": "gone"}, {"producer_byte_rate": None}), ({"user": "alice"}, {"request_percentage": None}))
    wire.close()
    with logged_in_as(broker, "alice") as alice:
        renewer = CreatableRenewers(principal_type="User", principal_name="bob")
        created = alice.call(CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=3_600_000), 3)
        assert created.error_code == 0
        described = DescribeDelegationTokenRequest(owners=None)
        wait_until(lambda: alice.call(described, 3).tokens, 20, "the token")
    return created.token_id, bytes(created.hmac)


def describe(broker: SecuredBroker) -> dict[str, Any]:
    """What is compared."""
    wire = Wire(broker.bootstrap)
    state: dict[str, Any] = {"acls": Acls(wire).describe(ANYTHING), "quotas": Quotas(wire).describe()}
    wire.close()
    with WireClient(broker.bootstrap) as client:
        configs = Configs(client)
        for kind, name in RESOURCES:
            state[f"config {kind} {name}"] = [configs.values(kind, name, source) for source in DYNAMIC]
        users = client.call(DescribeUserScramCredentialsRequest(users=None), 0)
        state["users"] = sorted(
            (each.user, sorted((info.mechanism, info.iterations) for info in each.credential_infos))
            for each in users.results
        )
        topics = [MetadataRequestTopic(name=each) for each in ("orders", "plain")]
        answer = client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        state["topics"] = sorted((each.error_code, each.name, each.topic_id) for each in answer.topics)
    with logged_in_as(broker, "alice") as alice:
        tokens = alice.call(DescribeDelegationTokenRequest(owners=None), 3)
        state["tokens"] = [
            (each.token_id, each.issue_timestamp, each.expiry_timestamp, each.max_timestamp, bytes(each.hmac))
            for each in tokens.tokens
        ]
    return state


def adopted(kafka: SecuredBroker, home: Path, data_dir: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``kwire adopt`` with Kafka's own server.properties."""
    command = [sys.executable, "-m", "kwire", "adopt", str(data_dir), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=home)
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def properties_of(kafka: SecuredBroker) -> str:
    return str(kafka.home / "server.properties")


def successor(kafka: SecuredBroker, home: Path, data_dir: Path) -> SecuredBroker:
    """kwire on an adopted directory."""
    broker = make_secured("kwire", home, SETTINGS)
    broker.data_dir = data_dir
    broker._has_users = True
    return broker


def check_same(kafka: SecuredBroker, before: dict[str, Any], home: Path, data_dir: Path) -> None:
    """Everything is described as before, and users log in."""
    kwire = successor(kafka, home, data_dir)
    kwire.start()
    try:
        after = describe(kwire)
        assert {name: before[name] for name in after} == after
        for name, mechanism in (("alice", ScramMechanism.SHA_256), ("bob", ScramMechanism.SHA_512)):
            logged_in(kwire, mechanism.mechanism_name, ClientScram(mechanism, name, USERS[name], os.urandom)).close()
        with pytest.raises(LoginFailed):
            logged_in(kwire, "SCRAM-SHA-256", ClientScram(ScramMechanism.SHA_256, "carol", USERS["carol"], os.urandom))
        token_id, hmac = before["token"]
        exchange = ClientScram(ScramMechanism.SHA_256, token_id, token_password(hmac), os.urandom, by_token=True)
        logged_in(kwire, "SCRAM-SHA-256", exchange).close()
    finally:
        kwire.kill()


def test_an_adopted_cluster_describes_what_kafka_described(
    kafka: SecuredBroker, before: dict[str, Any], tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    shutil.copytree(kafka.data_dir, data_dir)
    done = adopted(kafka, tmp_path, data_dir, "--config", properties_of(kafka))
    assert done.returncode == 0, done.stderr
    assert "from Kafka's metadata up to offset" in done.stdout
    assert "ACLs: 4 (User:alice, User:bob)" in done.stdout
    check_same(kafka, before, tmp_path / "kwire", data_dir)


def test_a_snapshot_stands_for_the_log_before_it(kafka: SecuredBroker, before: dict[str, Any], tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    shutil.copytree(kafka.data_dir, data_dir)
    truncate_log(data_dir / "__cluster_metadata-0")
    done = adopted(kafka, tmp_path, data_dir, "--config", properties_of(kafka))
    assert done.returncode == 0, done.stderr
    check_same(kafka, before, tmp_path / "kwire", data_dir)


@pytest.mark.parametrize("pattern", ["*.log", "*.checkpoint"])
def test_damage_is_an_error_or_a_note(
    kafka: SecuredBroker, before: dict[str, Any], tmp_path: Path, pattern: str
) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    shutil.copytree(kafka.data_dir / "__cluster_metadata-0", directory)
    if pattern == "*.log":
        for snapshot in directory.glob("*.checkpoint"):
            snapshot.unlink()
    file = max(directory.glob(pattern))
    whole = file.read_bytes()
    entries = len(read_metadata(Files(), str(tmp_path)).acls)
    assert entries == 4
    rng = random.Random(17)
    refused = 0
    for _ in range(DAMAGES):
        at = rng.randrange(len(whole))
        file.write_bytes(whole[:at] + rng.randbytes(rng.randint(1, 30)) + whole[at + rng.randint(0, 30) :])
        try:
            read_metadata(Files(), str(tmp_path))
        except MetadataLogError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > DAMAGES * 0.9  # the others hit the last batch, or what no checksum covers


def truncate_log(directory: Path) -> None:
    """Leave of the log what follows the newest snapshot, in a segment of its own, as Kafka does when segments roll."""
    newest = max(directory.glob("*.checkpoint"))
    end_offset = int(newest.name.partition("-")[0])
    assert end_offset > 0
    (segment,) = directory.glob("*.log")
    data = segment.read_bytes()
    at = 0
    while at < len(data) and int.from_bytes(data[at : at + 8], "big") < end_offset:
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    segment.unlink()
    (directory / names.file_name(end_offset, names.LOG_SUFFIX)).write_bytes(data[at:])


def test_what_was_closed_is_not_opened_unless_told(
    kafka: SecuredBroker, before: dict[str, Any], tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    shutil.copytree(kafka.data_dir, data_dir)
    plain = make_secured("kwire", tmp_path / "kwire", {})
    plain.data_dir = data_dir
    refused = adopted(kafka, tmp_path, data_dir)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert "ACLs (4)" in refused.stderr
    started = subprocess.run(
        [sys.executable, "-m", "kwire", "start", "--data-dir", str(data_dir), "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert started.returncode == 1
    assert "first run kwire adopt" in started.stderr
    told = adopted(kafka, tmp_path, data_dir, "--without-security")
    assert told.returncode == 0, told.stderr
    assert "ACLs (4)" in told.stderr
    plain._has_users = True
    plain.start()
    try:
        with WireClient(plain.bootstrap) as client:
            assert client.call(DescribeUserScramCredentialsRequest(users=None), 0).results == []
            assert Configs(client).values(TOPIC, "orders", 1)["max.message.bytes"] == "54321"
    finally:
        plain.kill()
