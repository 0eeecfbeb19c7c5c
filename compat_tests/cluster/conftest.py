"""Fixtures of the tests with a real ZooKeeper: one server for all that do it no harm, one of its own for the others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.conftest import need
from harness.kafka_jars import why_no_java
from harness.processes.zookeeper import ZooKeeper


@pytest.fixture(scope="session")
def shared_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A running server that no test stops."""
    need(why_no_java())
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    """A running server of this test alone."""
    need(why_no_java())
    server = ZooKeeper(tmp_path / "zookeeper")
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def chroot(request: pytest.FixtureRequest) -> str:
    """A path that no other test uses."""
    return "/" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]


@pytest.fixture
def connect(shared_zookeeper: ZooKeeper, chroot: str) -> str:
    """A `zookeeper.connect` on the shared server with nothing in it."""
    return shared_zookeeper.address + chroot
