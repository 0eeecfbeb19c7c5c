"""CreateAcls, DescribeAcls and DeleteAcls by their handlers. What Apache Kafka answers is compared in
compat_tests/comparisons/access."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller import acls as decisions
from kwire.cluster.controller import plan
from kwire.cluster.metadata.acls import acl_key, pack_acl, unpack_acl
from kwire.cluster.store.keys import ACLS
from kwire.cluster.store.store import StoreFormatError
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.codec.messages.describe_acls_request import DescribeAclsRequest
from kwire.handlers.acl_authorizer import AclAuthorizer
from kwire.handlers.api import CloseConnection
from kwire.handlers.security import create_acls, delete_acls, describe_acls
from kwire.handlers.security.create_acls import ENTRY_BYTES_MAX, read_entry
from tests.handlers.admin_broker import AdminBroker, admin_broker

ANY: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[AdminBroker]:
    made = await admin_broker(tmp_path)
    made.replace_services(authorizer=AclAuthorizer())
    yield made
    await made.close()


def entry(name: str = "orders", **fields: Any) -> AclCreation:
    values = {"resource_type": 2, "principal": "User:alice", "host": "*", "operation": 3, "permission_type": 3}
    return AclCreation(resource_name=name, **{**values, **fields})


async def create(broker: AdminBroker, *entries: AclCreation) -> list[str]:
    response = await broker.call(create_acls, CreateAclsRequest(creations=list(entries)))
    return [ErrorCode(each.error_code).name for each in response.results]


async def names(broker: AdminBroker, **fields: Any) -> list[str]:
    response = await broker.call(describe_acls, DescribeAclsRequest(**{**ANY, **fields}))
    return [each.resource_name for each in response.resources]


async def test_entries_are_kept_in_the_store_once_each(broker: AdminBroker) -> None:
    assert await create(broker, entry("b"), entry("a"), entry("b")) == ["NONE", "NONE", "NONE"]
    assert await create(broker, entry("a"), entry("c")) == ["NONE", "NONE"]
    assert await names(broker) == ["a", "b", "c"]
    _, stored = await broker.node.store.read(ACLS)
    assert len(stored) == 3
    assert all(acl_key(unpack_acl(key, each.value)) == key for key, each in stored.items())


async def test_a_filter_deletes_what_it_selects(broker: AdminBroker) -> None:
    await create(broker, entry("a"), entry("b"), entry("b", operation=4))
    filters = [DeleteAclsFilter(**{**ANY, "resource_name_filter": name}) for name in ("b", "nothing")]
    response = await broker.call(delete_acls, DeleteAclsRequest(filters=filters))
    assert [[acl.operation for acl in each.matching_acls] for each in response.filter_results] == [[3, 4], []]
    assert await names(broker) == ["a"]


async def test_many_entries_take_several_commits(broker: AdminBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "WRITES_MAX", 7)
    before = broker.image.revision
    await create(broker, *(entry(f"t{number:02d}") for number in range(20)))
    assert broker.image.revision == before + 3
    response = await broker.call(delete_acls, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)]))
    assert len(response.filter_results[0].matching_acls) == 20
    assert await names(broker) == []


async def test_a_request_changes_a_limited_number_of_entries(
    broker: AdminBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "CHANGES_MAX", 3)
    await create(broker, entry("a"), entry("b"))
    assert await create(broker, *map(entry, "abcde")) == ["NONE"] * 5
    with pytest.raises(KafkaError) as caught:
        await create(broker, *map(entry, "fghi"))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    with pytest.raises(KafkaError, match="Cannot remove more than 3 acls") as caught:
        await broker.call(delete_acls, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)]))
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert await names(broker) == list("abcde")


async def test_large_entries_take_several_commits(broker: AdminBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "BYTES_MAX", 1000)
    before = broker.image.revision
    await create(broker, *(entry(str(number) * 600) for number in range(3)))
    assert broker.image.revision == before + 3


async def test_an_entry_that_is_too_long_for_the_store_is_refused(broker: AdminBroker) -> None:
    longest = "x" * (ENTRY_BYTES_MAX - len("User:alice*"))
    assert await create(broker, entry(longest), entry(longest + "x"), entry("é" * (ENTRY_BYTES_MAX // 2))) == [
        "NONE",
        "INVALID_REQUEST",
        "INVALID_REQUEST",
    ]


async def test_what_is_sent_as_unknown_closes_the_connection(broker: AdminBroker) -> None:
    with pytest.raises(CloseConnection):
        await create(broker, entry(), entry(operation=0))
    with pytest.raises(CloseConnection):
        await names(broker, operation=0)
    assert not broker.image.acls


async def test_there_is_no_access_control_without_an_authorizer(tmp_path: Path) -> None:
    open_broker = await admin_broker(tmp_path)
    with pytest.raises(KafkaError) as caught:
        await create(open_broker, entry())
    assert caught.value.code is ErrorCode.SECURITY_DISABLED
    await open_broker.close()


def test_a_value_of_a_newer_kwire_is_refused() -> None:
    binding = read_entry(entry())
    value = pack_acl(binding).replace(b'"v":1', b'"v":2')
    with pytest.raises(StoreFormatError, match="newer kwire"):
        unpack_acl(acl_key(binding), value)
