"""Feature levels: joining, finalising, and the values that older kwire versions left in the store."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller import elections
from kwire.cluster.metadata.features import (
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SAFE_DOWNGRADE,
    SHARE_VERSION,
    STREAMS_VERSION,
    SUPPORTED,
    TRANSACTION_VERSION,
    FeatureUpdate,
    for_clients,
    supported,
)
from kwire.cluster.metadata.image import MetadataCache
from kwire.cluster.store import keys
from kwire.cluster.store.keys import PartitionState
from kwire.cluster.store.memory import MemoryStore
from kwire.cluster.store.store import ABSENT, Check, Write
from tests.cluster.helpers import Node, node

OLDER = supported([f"{GROUP_VERSION}=0-0", f"{TRANSACTION_VERSION}=0-1"])
NO_ELR = elections.ElectionRules(0, unclean=False)
ALL = {name: high for name, (_, high) in SUPPORTED.items() if name != KRAFT_VERSION}


async def older(store: MemoryStore, broker_id: int) -> Node:
    """A broker that does not support everything, and has not joined yet."""
    return await node(store, broker_id, join=False, features=OLDER)


async def refusal(made: Node, *updates: FeatureUpdate) -> str:
    with pytest.raises(KafkaError) as caught:
        await made.controller.update_features(updates)
    assert caught.value.code == ErrorCode.INVALID_UPDATE_VERSION
    return caught.value.message or ""


async def test_a_new_cluster_has_all_that_its_first_broker_supports() -> None:
    made = await node()
    assert made.image.features == ALL
    assert made.image.brokers[1].features == SUPPORTED


async def test_a_broker_that_does_not_support_what_is_finalised_does_not_join() -> None:
    made = await node()
    second = await older(made.store, 2)
    with pytest.raises(KafkaError) as caught:
        await second.membership.join()
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert f"level 1 of {GROUP_VERSION}" in (caught.value.message or "")
    assert set(made.image.brokers) == {1}
    await made.controller.update_features(
        [FeatureUpdate(GROUP_VERSION, 0, SAFE_DOWNGRADE), FeatureUpdate(TRANSACTION_VERSION, 1, SAFE_DOWNGRADE)]
    )
    await second.membership.join()
    assert set(made.image.brokers) == {1, 2}


async def test_a_level_is_finalised_only_when_every_registered_broker_supports_it() -> None:
    first = await older(MemoryStore(), 1)
    await first.membership.join()
    assert first.image.features[TRANSACTION_VERSION] == 1
    second = await node(first.store, 2)
    await first.membership.leave()
    await second.membership.claim_controllership()
    again = await older(first.store, 1)
    await again.membership.join()
    update = FeatureUpdate(TRANSACTION_VERSION, 2)
    assert "Broker 1 only supports versions 0-1" in await refusal(second, update)
    assert "Broker 1 does not support this feature" in await refusal(second, FeatureUpdate(GROUP_VERSION, 1))
    await again.membership.leave()
    assert "Broker 1 only supports versions 0-1" in await refusal(second, update)  # it is fenced, but registered
    await second.controller.unregister_broker(1)
    await second.controller.update_features([update, FeatureUpdate(GROUP_VERSION, 1)])
    assert second.image.features == ALL


@pytest.mark.parametrize(
    ("update", "said"),
    [
        (FeatureUpdate(GROUP_VERSION, 2), "Local controller 1 only supports versions 0-1"),
        (FeatureUpdate("unheard.of", 1), "Local controller 1 does not support this feature"),
        (FeatureUpdate(GROUP_VERSION, -1), "cannot be less than 0"),
        (FeatureUpdate(GROUP_VERSION, 1, 7), "does not support the given upgrade type"),
        (FeatureUpdate(GROUP_VERSION, 0), "without setting the upgrade type"),
        (FeatureUpdate(METADATA_VERSION, 29, SAFE_DOWNGRADE), "might delete metadata information"),
        (FeatureUpdate(KRAFT_VERSION, 1), "Not all of the voters support it"),
    ],
)
async def test_an_impossible_update_changes_no_level(update: FeatureUpdate, said: str) -> None:
    made = await node()
    assert said in await refusal(made, FeatureUpdate(TRANSACTION_VERSION, 1, SAFE_DOWNGRADE), update)
    assert made.image.features == ALL


async def test_validate_only_changes_nothing_and_a_downgrade_to_a_higher_level_is_refused() -> None:
    made = await node()
    down = FeatureUpdate(GROUP_VERSION, 0, SAFE_DOWNGRADE)
    await made.controller.update_features([down], validate_only=True)
    assert made.image.features == ALL
    await made.controller.update_features([down])
    assert "downgrade to a newer version" in await refusal(made, FeatureUpdate(GROUP_VERSION, 1, SAFE_DOWNGRADE))


async def test_an_update_that_has_not_seen_a_registration_is_decided_again() -> None:
    """The older broker registers between the decision and its commit."""
    made = await node()
    await made.controller.update_features(
        [FeatureUpdate(GROUP_VERSION, 0, SAFE_DOWNGRADE), FeatureUpdate(TRANSACTION_VERSION, 1, SAFE_DOWNGRADE)]
    )
    second = await older(made.store, 2)
    commit = made.store.commit
    entered: list[bool] = []

    async def overtaken(checks: Sequence[Check], writes: Sequence[Write]) -> int:
        if not entered:
            entered.append(True)
            made.store.commit = commit  # type: ignore[method-assign]
            await second.membership.join()
        return await commit(checks, writes)

    made.store.commit = overtaken  # type: ignore[method-assign]
    assert "Broker 2" in await refusal(made, FeatureUpdate(GROUP_VERSION, 1))
    assert made.image.features[GROUP_VERSION] == 0


async def test_values_of_the_first_kwire_versions_are_read() -> None:
    """They wrote one level of each feature, also in the registration, and eligible leader replicas were no feature."""
    store = MemoryStore()
    levels = {GROUP_VERSION: 1, METADATA_VERSION: 30, TRANSACTION_VERSION: 2}
    session = await store.open_session("first kwire", lease_ms=1000)
    await store.commit(
        [Check(keys.FEATURES, ABSENT)],
        [
            Write(keys.CLUSTER, keys.pack(id="abc")),
            Write(keys.FEATURES, keys.pack(levels=levels)),
            Write(keys.broker_key(1), keys.pack(endpoints=[], rack=None, features=levels), session.id),
        ],
    )
    made = await node(store, 2)
    written = {name: level for name, level in for_clients(ALL).items() if name not in (SHARE_VERSION, STREAMS_VERSION)}
    assert made.image.features == written, "no broker has written a level of what came later"
    assert made.image.brokers[1].features == {
        GROUP_VERSION: (0, 1),
        METADATA_VERSION: (0, 30),
        TRANSACTION_VERSION: (0, 2),
        ELR_VERSION: (1, 1),
    }
    assert "Broker 1 only supports versions 1" in await refusal(made, FeatureUpdate(ELR_VERSION, 0, SAFE_DOWNGRADE))


async def test_without_eligible_leader_replicas_the_last_one_in_sync_stays_in_the_isr() -> None:
    made = await node(MemoryStore(), min_insync_replicas="2")
    assert made.controller.leaders.election_rules(made.image, "t") == (2, False)
    await made.controller.update_features([FeatureUpdate(ELR_VERSION, 0, SAFE_DOWNGRADE)])
    rules = made.controller.leaders.election_rules(made.image, "t")
    state = elections.after(PartitionState((1, 2), (1, 2), 1, 0, 0), {2}, rules)
    assert (state.isr, state.elr, state.leader) == ((2,), (), 2)
    state = elections.after(state, {1}, rules)
    assert (state.isr, state.elr, state.leader, state.last_leader) == ((2,), (), -1, ())
    assert elections.after(state, {1}, rules) is state
    assert elections.after(state, {1, 2}, rules).leader == 2
    assert elections.after(state, {1, 2}, rules, unclean_shutdown={2}).leader == 2, "as in KRaft, with what it has"
    unclean = elections.after(state, {1}, rules._replace(unclean=True))
    assert (unclean.isr, unclean.leader) == ((1,), 1)


def test_a_downgrade_keeps_eligible_leader_replicas_while_there_is_no_leader() -> None:
    waiting = PartitionState((1, 2, 3), (), -1, 4, 9, elr=(2, 3))
    assert elections.after(waiting, {1}, NO_ELR) is waiting
    assert elections.after(waiting, {1, 3}, NO_ELR).leader == 3


@pytest.mark.parametrize("text", ["", "a", "a=1", "a=1-0", "a=-1-2", "=0-1", "a=x-y"])
def test_malformed_limits_are_refused(text: str) -> None:
    with pytest.raises(KafkaError):
        supported([text])


async def test_the_image_of_a_broker_that_has_not_joined_has_no_features() -> None:
    metadata = MetadataCache(MemoryStore())
    await metadata.start()
    assert metadata.image.features == {}
