"""A change of access control entries is acknowledged when every broker decides by it, or is not registered any more."""

from __future__ import annotations

import asyncio

import pytest

from harness.waiting import PATIENCE_S
from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller import acl_confirmations
from kwire.cluster.controller.acl_confirmations import AclConfirmer
from kwire.cluster.store.memory import MemoryStore
from kwire.security.acls.bindings import AclBinding, AclFilter, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType
from tests.cluster.helpers import Node, node

DENIAL = AclBinding(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.READ, PermissionType.DENY)


def confirmer_of(made: Node) -> AclConfirmer:
    confirmer = AclConfirmer(made.store, made.metadata, made.membership, made.broker_id)
    made.metadata.add_listener(confirmer.follow)
    return confirmer


async def denied(made: Node) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await made.controller.acls.create([DENIAL])


async def test_a_change_waits_for_every_broker_that_was_registered_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_confirmations, "WAIT_S", 0.05)
    store = MemoryStore()
    controller, silent, follower = [await node(store, number) for number in (1, 2, 3)]
    confirmer_of(follower)
    with pytest.raises(KafkaError, match=r"may not decide by them yet: 2$") as caught:
        await denied(controller)
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert len(controller.image.acls) == 1, "the change stays"
    confirmer_of(silent)
    await asyncio.sleep(0)
    monkeypatch.setattr(acl_confirmations, "WAIT_S", PATIENCE_S)
    await denied(controller)


async def test_a_repeated_request_waits_for_the_change_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first may have timed out: its change is there, but not confirmed."""
    monkeypatch.setattr(acl_confirmations, "WAIT_S", 0.05)
    store = MemoryStore()
    controller, _ = [await node(store, number) for number in (1, 2)]
    for _ in range(2):
        with pytest.raises(KafkaError, match=r"brokers may not decide by them yet: 2$"):
            await denied(controller)


async def test_nobody_waits_for_a_broker_whose_session_has_ended() -> None:
    store = MemoryStore()
    controller, gone = [await node(store, number) for number in (1, 2)]
    waiting = asyncio.ensure_future(denied(controller))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await gone.membership.leave()
    await waiting


async def test_nobody_waits_for_a_broker_that_has_come_after_the_change() -> None:
    store = MemoryStore()
    controller = await node(store, 1)
    await denied(controller)
    newcomer = await node(store, 2)
    confirmer_of(newcomer)
    async with asyncio.timeout(PATIENCE_S):
        await controller.controller.acls.create([DENIAL])
        await controller.controller.acls.delete([AclFilter(*DENIAL)])
    assert not newcomer.image.acls


async def test_a_confirmation_is_for_the_newest_change_only() -> None:
    """A broker whose commit crosses another change has not decided by that one yet: it confirms once more."""
    store = MemoryStore()
    controller, follower = [await node(store, number) for number in (1, 2)]
    confirmer_of(follower)
    async with asyncio.timeout(PATIENCE_S):
        changes = [DENIAL._replace(resource_name=f"t{number}") for number in range(20)]
        await asyncio.gather(*(controller.controller.acls.create([each]) for each in changes))
    assert len(follower.image.acls) == len(changes)


async def test_a_single_broker_confirms_nothing() -> None:
    alone = await node()
    confirmer_of(alone)
    await denied(alone)
    assert not [key for key in (await alone.store.read(""))[1] if key.startswith("acl-confirmations/")]
