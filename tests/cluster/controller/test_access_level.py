"""The feature level of access control: finalised with the first entry that needs it, once all brokers know it."""

from __future__ import annotations

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller.credentials import CredentialUpsertion
from kwire.cluster.metadata.features import ACCESS_VERSION, SUPPORTED
from kwire.cluster.store.memory import MemoryStore
from kwire.security.acls.bindings import AclBinding, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType
from kwire.security.scram_credentials import ScramMechanism
from tests.cluster.helpers import Node, node

OLD = {**SUPPORTED, ACCESS_VERSION: (0, 0)}
"""What a broker of kwire 0.1.0 supports, as far as access control is concerned."""
ACL = AclBinding(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.READ, PermissionType.ALLOW)


async def upgraded_cluster() -> tuple[MemoryStore, Node]:
    """The new controller of a cluster whose only other broker was an old one, which is away."""
    store = MemoryStore()
    old = await node(store, 1, features=OLD)
    new = await node(store, 2)
    await old.membership.leave()
    assert await new.membership.claim_controllership()
    return store, new


async def test_the_first_entry_finalises_the_level_when_no_old_broker_may_come_back() -> None:
    store, new = await upgraded_cluster()
    assert not new.image.features.get(ACCESS_VERSION)
    with pytest.raises(KafkaError, match="Broker 1 runs a version of kwire without access control") as caught:
        await new.controller.acls.create([ACL])
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert not new.image.acls
    await new.controller.unregister_broker(1)
    await new.controller.acls.create([ACL])
    assert new.image.features[ACCESS_VERSION] == 1
    with pytest.raises(KafkaError, match=r"finalised level 1 of kwire\.access\.version, this broker does not know"):
        await node(store, 1, features=OLD)


async def test_other_decisions_do_not_need_the_level() -> None:
    _, new = await upgraded_cluster()
    await new.controller.ensure_scram_secret()
    assert not new.image.features.get(ACCESS_VERSION)
    with pytest.raises(KafkaError, match="without access control"):
        await new.controller.alter_scram_credentials(
            [CredentialUpsertion("a", ScramMechanism.SHA_256, b"x" * 32, b"salt", 4096)]
        )


async def test_an_old_broker_that_comes_at_the_same_time_stops_the_entry() -> None:
    """Its registration writes the levels again, so that only one of both commits is made."""
    store, new = await upgraded_cluster()
    await new.controller.unregister_broker(1)
    levels = new.metadata.version("features")
    old = await node(store, 3, features=OLD)
    assert new.metadata.version("features") != levels
    with pytest.raises(KafkaError, match="Broker 3 runs a version"):
        await new.controller.acls.create([ACL])
    assert old.membership.alive
