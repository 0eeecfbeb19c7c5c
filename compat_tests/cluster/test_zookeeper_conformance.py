"""What every metadata store must do, on a real ZooKeeper: the tests are those of tests/cluster."""

from __future__ import annotations

import pytest

from harness.store_conformance import *  # noqa: F403
from kwire.cluster.store.zookeeper.client import ZooKeeperSettings
from kwire.cluster.store.zookeeper.store import ZooKeeperStore

pytestmark = pytest.mark.java


@pytest.fixture
async def store(connect):
    store = ZooKeeperStore(ZooKeeperSettings(connect))
    await store.open()
    yield store
    await store.close()
