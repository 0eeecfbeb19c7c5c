"""Features: who may join, which levels may be finalised, and what older kwires left in the store."""

from __future__ import annotations

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller import elections
from kwire.cluster.controller.membership import Membership
from kwire.cluster.metadata.features import (
    ELR_VERSION,
    GROUP_VERSION,
    METADATA_VERSION,
    SAFE_DOWNGRADE,
    SUPPORTED,
    TRANSACTION_VERSION,
    FeatureUpdate,
    supported,
)
from kwire.cluster.metadata.image import MetadataCache
from kwire.cluster.store import keys
from kwire.cluster.store.keys import PartitionState
from kwire.cluster.store.memory import MemoryStore
from kwire.cluster.store.store import ABSENT, Check, Write
from tests.cluster.helpers import ENDPOINTS, Node, node

OLDER = supported([f"{GROUP_VERSION}=0-0", f"{TRANSACTION_VERSION}=0-1"])
ALL = {name: high for name, (_, high) in SUPPORTED.items()}


async def older(store: MemoryStore, broker_id: int) -> Node:
    """A broker that does not support everything, and has not joined yet."""
    made = await node(store, broker_id, join=False)
    made.membership = Membership(made.doors, store, made.metadata, broker_id, supported=OLDER)
    return made


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
        await second.membership.join(ENDPOINTS)
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert f"level 1 of {GROUP_VERSION}" in (caught.value.message or "")
    assert set(made.image.brokers) == {1}
    await made.controller.update_features(
        [FeatureUpdate(GROUP_VERSION, 0, SAFE_DOWNGRADE), FeatureUpdate(TRANSACTION_VERSION, 1, SAFE_DOWNGRADE)]
    )
    await second.membership.join(ENDPOINTS)
    assert set(made.image.brokers) == {1, 2}


async def test_a_level_is_finalised_only_when_every_registered_broker_supports_it() -> None:
    first = await older(MemoryStore(), 1)
    await first.membership.join(ENDPOINTS)
    assert first.image.features[TRANSACTION_VERSION] == 1
    second = await node(first.store, 2)
    await first.membership.leave()
    await second.membership.claim_office()
    again = await older(first.store, 1)
    await again.membership.join(ENDPOINTS)
    update = FeatureUpdate(TRANSACTION_VERSION, 2)
    assert "broker 1 supports only 0 to 1" in await refusal(second, update)
    assert "broker 1 does not know" in await refusal(second, FeatureUpdate(GROUP_VERSION, 1))
    await again.membership.leave()
    assert "broker 1 supports only 0 to 1" in await refusal(second, update)  # it is expected back
    await second.controller.unregister_broker(1)
    await second.controller.update_features([update, FeatureUpdate(GROUP_VERSION, 1)])
    assert second.image.features == ALL


@pytest.mark.parametrize(
    ("update", "said"),
    [
        (FeatureUpdate(GROUP_VERSION, 2), "broker 1 (the controller) supports only 0 to 1"),
        (FeatureUpdate("unheard.of", 1), "does not know this feature"),
        (FeatureUpdate(GROUP_VERSION, -1), "0 or more"),
        (FeatureUpdate(GROUP_VERSION, 1, 7), "no type of upgrade"),
        (FeatureUpdate(GROUP_VERSION, 0), "must be asked for as one"),
        (FeatureUpdate(METADATA_VERSION, 29, SAFE_DOWNGRADE), "may need that"),
    ],
)
async def test_an_update_that_cannot_be_is_refused_whole(update: FeatureUpdate, said: str) -> None:
    made = await node()
    assert said in await refusal(made, FeatureUpdate(TRANSACTION_VERSION, 1, SAFE_DOWNGRADE), update)
    assert made.image.features == ALL


async def test_what_is_only_validated_is_not_done_and_a_downgrade_upwards_is_none() -> None:
    made = await node()
    down = FeatureUpdate(GROUP_VERSION, 0, SAFE_DOWNGRADE)
    await made.controller.update_features([down], validate_only=True)
    assert made.image.features == ALL
    await made.controller.update_features([down])
    assert "no downgrade" in await refusal(made, FeatureUpdate(GROUP_VERSION, 1, SAFE_DOWNGRADE))


async def test_an_update_that_has_not_seen_a_registration_is_decided_anew() -> None:
    """The older broker registers between the decision and its commit."""
    made = await node()
    await made.controller.update_features(
        [FeatureUpdate(GROUP_VERSION, 0, SAFE_DOWNGRADE), FeatureUpdate(TRANSACTION_VERSION, 1, SAFE_DOWNGRADE)]
    )
    second = await older(made.store, 2)
    commit, entered = made.store.commit, []

    async def overtaken(checks: list[Check], writes: list[Write]) -> int:
        if not entered:
            entered.append(True)
            made.store.commit = commit
            await second.membership.join(ENDPOINTS)
        return await commit(checks, writes)

    made.store.commit = overtaken  # type: ignore[method-assign]
    assert "broker 2" in await refusal(made, FeatureUpdate(GROUP_VERSION, 1))
    assert made.image.features[GROUP_VERSION] == 0


async def test_what_the_first_kwires_wrote_is_understood() -> None:
    """They told one level of each feature, in the registration too, and had eligible leader replicas without a name."""
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
    assert made.image.features == ALL
    assert made.image.brokers[1].features == {
        GROUP_VERSION: (0, 1),
        METADATA_VERSION: (0, 30),
        TRANSACTION_VERSION: (0, 2),
        ELR_VERSION: (1, 1),
    }
    assert "broker 1 supports only 1 to 1" in await refusal(made, FeatureUpdate(ELR_VERSION, 0, SAFE_DOWNGRADE))


async def test_without_eligible_leader_replicas_the_last_leader_alone_is_waited_for() -> None:
    made = await node(MemoryStore(), min_insync_replicas="2")
    assert made.controller.election_rules(made.image, "t") == (2, False)
    await made.controller.update_features([FeatureUpdate(ELR_VERSION, 0, SAFE_DOWNGRADE)])
    min_isr, _ = made.controller.election_rules(made.image, "t")
    state = elections.after(PartitionState((1, 2), (1, 2), 1, 0, 0), {2}, min_isr)
    assert (state.isr, state.elr, state.leader) == ((2,), (), 2)
    state = elections.after(state, {1}, min_isr)
    assert (state.isr, state.elr, state.leader, state.last_leader) == ((), (), -1, (2,))


def test_an_eligible_replica_is_not_forgotten_by_a_downgrade_while_nobody_leads() -> None:
    waiting = PartitionState((1, 2, 3), (), -1, 4, 9, elr=(2, 3))
    assert elections.after(waiting, {1}, 0) is waiting
    assert elections.after(waiting, {1, 3}, 0).leader == 3


@pytest.mark.parametrize("text", ["", "a", "a=1", "a=1-0", "a=-1-2", "=0-1", "a=x-y"])
def test_limits_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(KafkaError):
        supported([text])


async def test_the_image_of_a_broker_that_has_not_joined_has_no_features() -> None:
    metadata = MetadataCache(MemoryStore())
    await metadata.start()
    assert metadata.image.features == {}
