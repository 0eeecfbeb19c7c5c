"""Brokers that log in to each other with SCRAM: their user exists before the first of them starts (KIP-900)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.topics import create_topic
from harness.processes.brokers import KwireBroker, wait_until
from harness.processes.ports import free_port

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PASSWORDS = {"broker": "broker-secret", "alice": "alice-secret"}


def add_user(store: Path, name: str) -> None:
    command = [sys.executable, "-m", "kwire", "user", "add", name, "--set", f"kwire.metadata.dir={store}"]
    subprocess.run(command, input=f"{PASSWORDS[name]}\n", text=True, check=True, timeout=60, capture_output=True)


def settings(node_id: int, store: Path, port: int) -> dict[str, str]:
    """A broker whose only listener asks for a login with SCRAM."""
    return {
        "node.id": str(node_id),
        "kwire.metadata.dir": str(store),
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{MODULE};",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
            f'{MODULE} username="broker" password="{PASSWORDS["broker"]}";'
        ),
        "offsets.topic.replication.factor": "2",
    }


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """Two brokers with the users `PASSWORDS`."""
    store = tmp_path / "store"
    for name in PASSWORDS:
        add_user(store, name)
    brokers = []
    for node_id in (1, 2):
        port = free_port()
        broker = KwireBroker(tmp_path / f"broker-{node_id}", settings(node_id, store, port))
        broker.port = port
        brokers.append(broker)
    try:
        for broker in brokers:
            broker.start()
        yield ",".join(broker.bootstrap for broker in brokers)
    finally:
        for broker in brokers:
            broker.kill()


def client(bootstrap: str, name: str, password: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
        "log_level": 0,
    }


def test_brokers_replicate_with_a_user_that_existed_before_them(bootstrap: str) -> None:
    alice = client(bootstrap, "alice", PASSWORDS["alice"])
    topic = NewTopic("replicated", num_partitions=4, replication_factor=2, config={"min.insync.replicas": "2"})
    create_topic(AdminClient(alice), topic)
    producer = Producer({**alice, "acks": "all", "sasl.mechanism": "SCRAM-SHA-512"})
    for number in range(20):
        producer.produce("replicated", b"%d" % number)
    assert producer.flush(30) == 0
    consumer = Consumer({**alice, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["replicated"])
    seen: set[int] = set()
    while len(seen) < 20:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        seen.add(int(message.value() or b""))
    consumer.close()


def test_a_wrong_password_is_refused(bootstrap: str) -> None:
    failures: list[str] = []
    wrong = client(bootstrap, "alice", "wrong") | {"error_cb": lambda error: failures.append(error.name())}
    admin = AdminClient(wrong)
    wait_until(lambda: admin.poll(0.1) is not None and "_AUTHENTICATION" in failures, 20, "the refusal")
