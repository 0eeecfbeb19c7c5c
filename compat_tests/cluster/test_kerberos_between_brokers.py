"""Brokers that log in to each other with Kerberos tickets, which end while they run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.needs import need
from compat_tests.topics import create_topic
from harness.processes.brokers import KwireBroker, wait_until
from harness.processes.kerberos import SERVICE, Kerberos, missing
from harness.processes.ports import free_port
from harness.waiting import PATIENCE_S

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
BROKER = f"{SERVICE}/localhost"
TICKET_LIFE_S = 6
SESSION_MS = 2000


class Brokers(NamedTuple):
    """Two brokers and their realm."""

    realm: Kerberos
    bootstrap: str
    secured: str
    """A listener with GSSAPI."""


def settings(node_id: int, home: Path, realm: Kerberos, ports: tuple[int, int]) -> dict[str, str]:
    """A broker that serves clients without a login, and other brokers with one."""
    key = f'useKeyTab=true storeKey=true keyTab="{realm.keytab(SERVICE)}" principal="{realm.principal(BROKER)}"'
    return {
        "node.id": str(node_id),
        "kwire.metadata.dir": str(home / "store"),
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[0]},SASL_PLAINTEXT://localhost:{ports[1]}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": f"{MODULE} {key};",
        "connections.max.reauth.ms": str(SESSION_MS),
        "offsets.topic.replication.factor": "2",
    }


@pytest.fixture
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    """Running brokers. Parameter: the life of tickets in seconds."""
    need(missing())
    with Kerberos(tmp_path / "realm", request.param) as realm:
        ports = [(free_port(), free_port()) for _ in range(2)]
        started = []
        for node_id, own in enumerate(ports, 1):
            broker = KwireBroker(tmp_path / f"broker-{node_id}", settings(node_id, tmp_path, realm, own))
            broker.port = own[0]
            broker.environment.update(realm.environment)
            started.append(broker)
        try:
            for broker in started:
                broker.start()
            yield Brokers(realm, ",".join(each.bootstrap for each in started), f"localhost:{ports[0][1]}")
        finally:
            for broker in started:
                broker.kill()


def produce(bootstrap: str, count: int) -> None:
    """Records that both brokers must have."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce("replicated", b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0


def tickets(realm: Kerberos) -> int:
    """How many initial tickets the brokers have got."""
    log = (realm.home / "kdc.log").read_text().splitlines()
    return sum("AS_REQ" in line and "ISSUE" in line and f"{BROKER}@" in line for line in log)


@pytest.mark.parametrize("brokers", [TICKET_LIFE_S], indirect=True)
def test_brokers_replicate_beyond_the_life_of_their_tickets(brokers: Brokers) -> None:
    topic = NewTopic("replicated", num_partitions=4, replication_factor=2, config={"min.insync.replicas": "2"})
    create_topic(AdminClient({"bootstrap.servers": brokers.bootstrap}), topic)
    produce(brokers.bootstrap, 10)
    before, end = tickets(brokers.realm), time.monotonic() + 2 * TICKET_LIFE_S
    wait_until(
        lambda: time.monotonic() > end and tickets(brokers.realm) >= before + 4, PATIENCE_S, "the end of the tickets"
    )
    produce(brokers.bootstrap, 10)


@pytest.mark.parametrize("brokers", [3600], indirect=True)
def test_commands_log_in_with_a_ticket_cache(brokers: Brokers, tmp_path: Path) -> None:
    cache = brokers.realm.ticket_cache("alice")
    file = tmp_path / "client.properties"
    login = f'{MODULE} useTicketCache=true ticketCache="{cache}" serviceName="{SERVICE}";'
    lines = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=GSSAPI", f"sasl.jaas.config={login}"]
    file.write_text("\n".join(lines))
    command = [sys.executable, "-m", "kwire", "cluster", "status", brokers.secured, "--command-config", str(file)]
    environment = {**brokers.realm.environment, "KRB5CCNAME": "MEMORY:none"}
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment)
    assert "controller 1" in shown.stdout, shown
    cache.unlink()
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment)
    assert shown.returncode == 1
    assert shown.stderr.count("\n") == 1
    assert "Kerberos: No credentials cache found" in shown.stderr
