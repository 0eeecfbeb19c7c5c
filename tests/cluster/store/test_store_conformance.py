"""The conformance tests of metadata stores, on the stores that need no service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.store_conformance import *  # noqa: F403
from kwire.base.doors import Doors
from kwire.cluster.store.embedded import EmbeddedStore
from kwire.cluster.store.memory import MemoryStore
from kwire.cluster.store.shared import SharedStore
from kwire.cluster.store.store import MetadataStore


@pytest.fixture(params=["memory", "embedded", "shared"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetadataStore]:
    stores: dict[str, MetadataStore] = {
        "memory": MemoryStore(),
        "embedded": EmbeddedStore(str(tmp_path), Doors(), on_failure=lambda _directory, _error: None),
        "shared": SharedStore(str(tmp_path), Doors()),
    }
    store = stores[request.param]
    await store.open()
    yield store
    await store.close()
