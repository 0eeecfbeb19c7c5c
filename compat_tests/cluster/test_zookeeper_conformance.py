"""The conformance tests of metadata stores (`harness.store_conformance`) on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from harness.store_conformance import *  # noqa: F403
from kwire.cluster.store.zookeeper.client import ZooKeeperSettings
from kwire.cluster.store.zookeeper.store import ZooKeeperStore

pytestmark = pytest.mark.java


@pytest.fixture
async def store(connect: str) -> AsyncIterator[ZooKeeperStore]:
    """A store in ZooKeeper under an empty chroot."""
    store = ZooKeeperStore(ZooKeeperSettings(connect))
    await store.open()
    yield store
    await store.close()
