"""Fixtures of the cluster tests: a ZooKeeper server (shared, or one that the test may stop) and three brokers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cluster.three_brokers import ThreeBrokers
from compat_tests.needs import need
from compat_tests.servers import running
from harness.kafka_jars import why_no_java
from harness.processes.zookeeper import ZooKeeper


@pytest.fixture(scope="session")
def shared_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A running server that no test stops."""
    need(why_no_java())
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    with running(server, server.stop):
        yield server


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    """A running server of this test alone."""
    need(why_no_java())
    server = ZooKeeper(tmp_path / "zookeeper")
    with running(server, server.stop):
        yield server


@pytest.fixture
def chroot(request: pytest.FixtureRequest) -> str:
    """A path that no other test uses."""
    return "/" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]


@pytest.fixture
def connect(shared_zookeeper: ZooKeeper, chroot: str) -> str:
    """A `zookeeper.connect` on the shared server with nothing in it."""
    return shared_zookeeper.address + chroot


@pytest.fixture(scope="module")
def three(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    """Three brokers of the kind under test, shared by a module."""
    cluster = ThreeBrokers(broker_kind, tmp_path_factory.mktemp(f"three-{broker_kind}"))
    with running(cluster, cluster.stop):
        yield cluster
