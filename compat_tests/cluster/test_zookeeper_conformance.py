"""What every metadata store must do, on a real ZooKeeper: the tests are those of tests/cluster."""

from __future__ import annotations

import pytest

from harness.store_conformance import *  # noqa: F403
from kwire.cluster.zookeeper import ZooKeeperStore
from kwire.cluster.zookeeper_client import ZooKeeperSettings

pytestmark = pytest.mark.java


@pytest.fixture
async def store(connect):
    store = ZooKeeperStore(ZooKeeperSettings(connect))
    await store.open()
    yield store
    await store.close()
