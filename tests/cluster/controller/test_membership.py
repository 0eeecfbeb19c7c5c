"""Joining the cluster while the store fails, or refuses commits that are too large."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kwire.base.doors import Doors
from kwire.cluster.controller.leaders import PREFERRED
from kwire.cluster.controller.plan import SHARDS_MAX, Plan, parts
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.metadata.image import MetadataCache
from kwire.cluster.store.memory import MemoryStore
from kwire.cluster.store.store import Check, CommitTooLarge, SessionLost, StoreUnavailable, Write
from tests.cluster.helpers import Node, membership_of, node


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


class Limited(MemoryStore):
    """Accepts few keys in one commit, as ZooKeeper does with long values."""

    keys_max = SHARDS_MAX + 10

    async def commit(self, checks: Sequence[Check], writes: Sequence[Write]) -> int:
        if len(writes) > self.keys_max:
            raise CommitTooLarge(f"{len(writes)} keys")
        return await super().commit(checks, writes)


async def test_a_broker_with_more_partitions_than_one_commit_can_change_joins_again() -> None:
    store = Limited()
    first, second = await node(store), await node(store, 2)
    topics = 3 * SHARDS_MAX
    await _create_topics(first, topics)
    await second.membership.leave()
    again = await node(store, 2)
    assert again.membership.broker_epoch
    states = [topic.partitions[0] for topic in again.image.topics.values()]
    assert len(states) == topics
    assert {(state.leader, state.leader_epoch) for state in states} == {(-1, 1)}
    assert await first.controller.leaders.settle_leaders(brokers=[2]) == topics
    assert {topic.partitions[0].leader for topic in first.image.topics.values()} == {2}


async def test_a_broker_that_becomes_controller_leaves_too_many_elections_to_failover() -> None:
    store = Limited()
    only = await node(store)
    await _create_topics(only, 3 * SHARDS_MAX, replicas=(1,))
    await only.membership.leave()
    again = await node(store)
    assert again.controller.active
    count = await again.controller.leaders.settle_leaders()
    assert count > 2 * SHARDS_MAX  # what one commit could not elect
    assert {topic.partitions[0].leader for topic in again.image.topics.values()} == {1}


async def test_all_preferred_leaders_are_elected_by_several_commits() -> None:
    store = Limited()
    first, second = await node(store), await node(store, 2)
    topics = SHARDS_MAX + 20
    await _create_topics(first, topics, replicas=(2, 1))
    await second.membership.leave()
    assert await first.controller.leaders.settle_leaders() == topics
    await node(store, 2)
    states = {topic.name: {0: topic.partitions[0]._replace(isr=(1, 2))} for topic in first.image.topics.values()}
    for part in parts((name, 0) for name in states):
        plan = Plan(first.metadata)
        plan.write_states({name: states[name] for name, _ in part})
        assert await plan.commit(store)
    elected = await first.controller.leaders.elect_leaders(PREFERRED, None)
    assert len(elected) == topics
    assert not any(elected.values())
    assert {topic.partitions[0].leader for topic in first.image.topics.values()} == {2}


async def _create_topics(made: Node, count: int, replicas: tuple[int, ...] = (2,)) -> None:
    for begun in range(0, count, 100):
        wanted = [
            NewTopic(f"t{number}", assignments=[(0, replicas)]) for number in range(begun, min(begun + 100, count))
        ]
        assert not any(isinstance(each, Exception) for each in (await made.controller.create_topics(wanted)).values())
