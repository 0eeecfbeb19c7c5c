"""Quotas that are altered through a broker that is not the controller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.raw_client import RawClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from tests.server.access.guarded_cluster import GuardedCluster

CLUSTER, DESCRIBE_CONFIGS, ALTER_CONFIGS, ALLOW = 4, 10, 11, 3


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[GuardedCluster]:
    """Broker 1 is the controller, broker 2 is not."""
    async with AsyncExitStack() as stack:
        cluster = GuardedCluster(tmp_path, stack)
        await cluster.start(1)
        await cluster.start(2)
        yield cluster


async def altered(client: RawClient, limit: float, version: int = 1) -> list[tuple[int, str | None]]:
    entry = EntryData(
        entity=[EntityData(entity_type="user", entity_name="carol")],
        ops=[OpData(key="request_percentage", value=limit)],
    )
    answer = await client.call(AlterClientQuotasRequest(entries=[entry]), version)
    return [(each.error_code, each.entity[0].entity_name) for each in answer.entries]


async def described(client: RawClient) -> Any:
    answer = await client.call(DescribeClientQuotasRequest(), 1)
    return answer.error_code or [each.value for entry in answer.entries for each in entry.values]


async def allow(guarded: GuardedCluster, *operations: int) -> None:
    root = await guarded.log_in(2, "root")
    creations = [
        AclCreation(
            resource_type=CLUSTER,
            resource_name="kafka-cluster",
            principal="User:alice",
            host="*",
            operation=operation,
            permission_type=ALLOW,
        )
        for operation in operations
    ]
    answer = await root.call(CreateAclsRequest(creations=creations), 3)
    assert not any(each.error_code for each in answer.results)


async def test_quotas_hold_on_all_brokers(guarded: GuardedCluster) -> None:
    through, other = await guarded.log_in(2, "root"), await guarded.log_in(1, "root")
    for version, limit in ((0, 50.0), (1, 75.5)):
        assert await altered(through, limit, version) == [(0, "carol")]
        assert await described(through) == [limit]
        assert await described(other) == [limit]
    assert await altered(through, -1.0) == [(ErrorCode.INVALID_REQUEST, "carol")]


async def test_the_client_needs_operations_on_the_cluster(guarded: GuardedCluster) -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    alice = await guarded.log_in(2, "alice")
    assert await altered(alice, 50.0) == [(refused, "carol")]
    assert await described(alice) == refused
    await allow(guarded, DESCRIBE_CONFIGS)
    assert await altered(alice, 50.0) == [(refused, "carol")]
    assert await described(alice) == []
    await allow(guarded, ALTER_CONFIGS)
    assert await altered(alice, 50.0) == [(0, "carol")]
    assert await described(alice) == [50.0]
