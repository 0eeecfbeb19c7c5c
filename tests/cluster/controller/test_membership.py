"""Joining the cluster when the store fails in the middle of it."""

from __future__ import annotations

import pytest

from kwire.base.doors import Doors
from kwire.cluster.controller.membership import Membership
from kwire.cluster.metadata.image import MetadataCache
from kwire.cluster.store.memory import MemoryStore
from kwire.cluster.store.store import SessionLost, StoreUnavailable
from tests.cluster.helpers import ENDPOINTS


class FailingOnce(MemoryStore):
    """The first commit is made, and nobody learns of it."""

    failed = False

    async def commit(self, checks, writes):
        revision = await super().commit(checks, writes)
        if not self.failed:
            self.failed = True
            raise StoreUnavailable("no answer")
        return revision


async def test_a_join_that_fails_leaves_no_session_behind_whose_loss_would_be_heard_of() -> None:
    store = FailingOnce()
    metadata = MetadataCache(store)
    await metadata.start()
    membership = Membership(Doors(), store, metadata, 1)
    lost: list[int] = []
    with pytest.raises(StoreUnavailable):
        await membership.join(ENDPOINTS, on_loss=lambda: lost.append(1))
    assert not store.sessions
    assert not membership.alive
    assert not metadata.image.brokers
    await membership.join(ENDPOINTS, on_loss=lambda: lost.append(2))
    (session,) = store.sessions
    store.expire(session)
    assert lost == [2]
    metadata.close()


class Forgetful(MemoryStore):
    """Its sessions end at once."""

    async def commit(self, checks, writes):
        raise SessionLost


async def test_a_session_that_is_over_is_told_in_words():
    store = Forgetful()
    metadata = MetadataCache(store)
    await metadata.start()
    with pytest.raises(SessionLost, match="session with the metadata store is over"):
        await Membership(Doors(), store, metadata, 1, lease_ms=9000).join(ENDPOINTS)
