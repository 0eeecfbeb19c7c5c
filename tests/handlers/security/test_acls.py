"""CreateAcls, DescribeAcls and DeleteAcls by their handlers. What Apache Kafka answers is compared in
compat_tests/comparisons/access."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.cluster.controller import acls as decisions
from kwire.cluster.controller import plan
from kwire.cluster.metadata.acls import acl_key, pack_acl, unpack_acl
from kwire.cluster.store.keys import ACLS
from kwire.cluster.store.store import StoreFormatError
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.codec.messages.describe_acls_request import DescribeAclsRequest
from kwire.codec.protocol import encode
from kwire.handlers.acl_authorizer import AclAuthorizer
from kwire.handlers.api import CloseConnection
from kwire.handlers.security import create_acls, delete_acls, describe_acls
from kwire.handlers.security.create_acls import ENTRY_BYTES_MAX, read_entry
from tests.handlers.admin_broker import AdminBroker, admin_broker
from tests.server.slices.counted_turns import CountedTurns

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
    monkeypatch.setattr(decisions, "ENTRIES_MAX", 7)
    before = broker.image.revision
    await create(broker, *(entry(f"t{number:02d}") for number in range(20)))
    assert broker.image.revision == before + 3
    response = await broker.call(delete_acls, DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)]))
    assert len(response.filter_results[0].matching_acls) == 20
    assert await names(broker) == []


@pytest.fixture
def slices_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two entries in a turn of the event loop, and in a commit."""
    for module in (create_acls, delete_acls, describe_acls):
        monkeypatch.setattr(module, "SLICE_ENTRIES", 2)
    for name in ("ENTRIES_MAX", "PREPARED_PER_TURN", "COUNTED_PER_TURN", "MATCHED_PER_TURN", "LINES_PER_TURN"):
        monkeypatch.setattr(decisions, name, 2)


@pytest.mark.usefixtures("slices_of_two")
async def test_very_many_entries_are_changed_and_described_in_slices(broker: AdminBroker) -> None:
    entries = [entry("c"), entry("a", principal="alice"), entry("b"), entry("c"), entry("d"), entry("e"), entry("")]
    expected = ["NONE", "INVALID_REQUEST", *["NONE"] * 4, "INVALID_REQUEST"]
    assert await create(broker, *entries) == expected
    assert await names(broker) == list("bcde")
    with pytest.raises(CloseConnection):
        await create(broker, *entries, entry(permission_type=0))
    assert await create(broker, *entries, entry("f", permission_type=1)) == ["UNKNOWN_SERVER_ERROR"] * 8
    filters = [DeleteAclsFilter(**ANY | chosen) for chosen in ({}, {"operation": 99}, {"resource_name_filter": "d"})]
    response = await broker.call(delete_acls, DeleteAclsRequest(filters=filters))
    assert [each.error_code for each in response.filter_results] == [0, ErrorCode.INVALID_REQUEST, 0]
    deleted = [[acl.resource_name for acl in each.matching_acls] for each in response.filter_results]
    assert deleted == [["b", "c", "d", "e"], [], ["d"]]
    assert await names(broker) == []


async def test_very_many_entries_are_described_in_the_order_of_few(
    broker: AdminBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(broker, *[entry(name, principal=f"User:{who}") for name in ("b", "c", "a") for who in ("x", "z", "y")])

    async def described() -> tuple[int, bytes]:
        context, counted = broker.context(3), CountedTurns()
        response = await resolved(describe_acls.API.handle(DescribeAclsRequest(**ANY), context))
        counted.stop()
        body = bytes(encode(response, 3))
        assert context.charged is None or context.charged == [body]
        return counted.count, body

    at_once = await described()
    assert at_once[0] == 1
    monkeypatch.setattr(describe_acls, "SLICE_ENTRIES", 2)
    turns, body = await described()
    assert body == at_once[1]
    assert turns >= 4 + 2 * 5 + 4 + 1  # selected, sorted and merged, arranged, described


@pytest.mark.usefixtures("slices_of_two")
@pytest.mark.parametrize("turns", range(0, 24, 2))
async def test_entries_that_others_change_meanwhile(
    broker: AdminBroker, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[tuple[str, str]] = []
    logger = SimpleNamespace(info=lambda event, **what: lines.append((event, what["resource"][-1])))
    monkeypatch.setattr(decisions, "_logger", logger)
    creation = asyncio.ensure_future(create(broker, *map(entry, "abcdef")))
    for _ in range(turns):
        await asyncio.sleep(0)
    assert await create(broker, entry("e")) == ["NONE"]
    assert await creation == ["NONE"] * 6
    assert await names(broker) == list("abcdef")
    assert sorted(lines) == [("ACL created", name) for name in "abcdef"]  # whoever was the first

    lines.clear()
    filters = [DeleteAclsFilter(**ANY)]
    deletion = asyncio.ensure_future(broker.call(delete_acls, DeleteAclsRequest(filters=filters)))
    for _ in range(turns):
        await asyncio.sleep(0)
    chosen = DeleteAclsFilter(**{**ANY, "resource_name_filter": "e"})
    await broker.call(delete_acls, DeleteAclsRequest(filters=[chosen]))
    await create(broker, entry("g"))
    await deletion
    assert await names(broker) in (["g"], [])
    assert sorted(each for each in lines if each[1] in "abcdef") == [("ACL deleted", name) for name in "abcdef"]


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
