"""DescribeClientQuotas and AlterClientQuotas by their handlers. What Apache Kafka answers is compared in
compat_tests/comparisons/configs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode, KafkaError
from kwire.cluster.controller import client_quotas as decisions
from kwire.cluster.controller import plan
from kwire.cluster.metadata.client_quotas import quota_key, unpack_quotas
from kwire.cluster.metadata.image import NO_QUOTAS
from kwire.cluster.store.keys import CLIENT_QUOTAS
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kwire.codec.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from kwire.handlers.configs import alter_client_quotas, describe_client_quotas
from kwire.quotas.entities import QuotaEntity
from tests.handlers.admin_broker import AdminBroker, admin_broker

RATE = "producer_byte_rate"


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[AdminBroker]:
    made = await admin_broker(tmp_path)
    yield made
    await made.close()


def entry(name: str | None = "alice", kind: str = "user", **limits: float | None) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name)],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()],
    )


async def alter(broker: AdminBroker, *entries: EntryData, **fields: Any) -> list[str]:
    response = await broker.call(alter_client_quotas, AlterClientQuotasRequest(entries=list(entries), **fields))
    return [ErrorCode(each.error_code).name for each in response.entries]


async def users(broker: AdminBroker, match: int = 2, name: str | None = None) -> dict[str | None, dict[str, float]]:
    components = [ComponentData(entity_type="user", match_type=match, match=name)]
    response = await broker.call(describe_client_quotas, DescribeClientQuotasRequest(components=components))
    return {each.entity[0].entity_name: {one.key: one.value for one in each.values} for each in response.entries}


async def test_each_entity_has_a_key_until_its_last_limit_is_removed(broker: AdminBroker) -> None:
    assert await alter(broker, entry(producer_byte_rate=5.0, request_percentage=0.5), entry(None, request_percentage=7))
    assert await alter(broker, entry(producer_byte_rate=6.0)) == ["NONE"]
    assert await users(broker) == {"alice": {RATE: 6.0, "request_percentage": 0.5}, None: {"request_percentage": 7.0}}
    assert await users(broker, match=1) == {None: {"request_percentage": 7.0}}
    _, stored = await broker.node.store.read(CLIENT_QUOTAS)
    assert len(stored) == 2
    assert all(quota_key(unpack_quotas(key, each.value)[0]) == key for key, each in stored.items())
    assert await alter(broker, entry(producer_byte_rate=None, request_percentage=None)) == ["NONE"]
    assert list(await users(broker)) == [None]
    assert await alter(broker, entry(None, request_percentage=None)) == ["NONE"]
    assert broker.image.client_quotas is NO_QUOTAS


async def test_the_quotas_are_the_same_object_until_one_is_altered(broker: AdminBroker) -> None:
    await alter(broker, entry(producer_byte_rate=5.0))
    before, revision = broker.image.client_quotas, broker.image.revision
    assert before == {QuotaEntity.of({"user": "alice"}): {RATE: 5.0}}
    await alter(broker, entry(producer_byte_rate=5.0), entry("bob", producer_byte_rate=None))
    await alter(broker, entry(producer_byte_rate=9.0), validate_only=True)
    assert broker.image.revision == revision
    assert broker.image.client_quotas is before
    await alter(broker, entry(producer_byte_rate=6.0))
    assert broker.image.client_quotas is not before
    assert before == {QuotaEntity.of({"user": "alice"}): {RATE: 5.0}}


async def test_a_wrong_entity_leaves_the_others_alone(broker: AdminBroker) -> None:
    results = await alter(broker, entry("a", producer_byte_rate=-1.0), entry("b", producer_byte_rate=5.0))
    assert results == ["INVALID_REQUEST", "NONE"]
    assert await users(broker) == {"b": {RATE: 5.0}}


async def test_of_an_entity_that_is_named_twice_the_first_alteration_counts(broker: AdminBroker) -> None:
    results = await alter(broker, entry(producer_byte_rate=1.0), entry(producer_byte_rate=2.0))
    assert results == ["INVALID_REQUEST"]
    assert await users(broker) == {"alice": {RATE: 1.0}}


async def test_many_entities_take_several_commits(broker: AdminBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "ENTITIES_MAX", 7)
    before = broker.image.revision
    await alter(broker, *(entry(f"u{number:02d}", producer_byte_rate=1.0) for number in range(20)))
    assert len(await users(broker)) == 20
    assert broker.image.revision >= before + 3


async def test_long_names_take_several_commits(broker: AdminBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "BYTES_MAX", 1000)
    before = broker.image.revision
    await alter(broker, *(entry(f"u{number}".ljust(600), producer_byte_rate=1.0) for number in range(3)))
    assert len(await users(broker)) == 3
    assert broker.image.revision >= before + 3


async def test_too_many_limits_alter_nothing(broker: AdminBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "CHANGES_MAX", 3)
    entries = [entry(f"u{number}", producer_byte_rate=1.0, request_percentage=1.0) for number in range(2)]
    with pytest.raises(KafkaError) as raised:
        await alter(broker, *entries)
    assert raised.value.code is ErrorCode.POLICY_VIOLATION
    assert await users(broker) == {}
    refused = alter_client_quotas.API.error_response(
        AlterClientQuotasRequest(entries=entries), 1, raised.value.code, raised.value.message
    )
    assert [each.entity[0].entity_name for each in refused.entries] == ["u0", "u1"]
    await alter(broker, entries[0])
    await alter(broker, *entries)
    assert len(await users(broker)) == 2
