"""Joining the cluster while the store fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kwire.base.doors import Doors
from kwire.cluster.metadata.image import MetadataCache
from kwire.cluster.store.memory import MemoryStore
from kwire.cluster.store.store import Check, SessionLost, StoreUnavailable, Write
from tests.cluster.helpers import membership_of


class FailingOnce(MemoryStore):
    """The first commit is made, but its outcome does not reach the broker."""

    failed = False

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        revision = await super().commit(checks, writes)
        if not self.failed:
            self.failed = True
            raise StoreUnavailable("no answer")
        return revision


async def test_a_failed_join_leaves_no_session_behind() -> None:
    store = FailingOnce()
    metadata = MetadataCache(store)
    await metadata.start()
    attempt = 1
    lost: list[int] = []
    membership = membership_of(Doors(), store, metadata, on_loss=lambda: lost.append(attempt))
    with pytest.raises(StoreUnavailable):
        await membership.join()
    assert not store.sessions
    assert not membership.alive
    assert not metadata.image.brokers
    attempt = 2
    await membership.join()
    (session,) = store.sessions
    store.expire(session)
    assert lost == [2]
    metadata.close()


class EndingSessions(MemoryStore):
    """Its sessions end at once."""

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        raise SessionLost


async def test_a_lost_session_has_a_clear_message() -> None:
    store = EndingSessions()
    metadata = MetadataCache(store)
    await metadata.start()
    with pytest.raises(SessionLost, match="session with the metadata store is over"):
        await membership_of(Doors(), store, metadata).join()
