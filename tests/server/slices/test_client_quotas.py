"""Quotas of very many entities are altered and described in slices: with the same responses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.raw_client import RawClient
from kwire.cluster.controller import client_quotas as decisions
from kwire.codec import protocol
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kwire.codec.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from kwire.codec.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from kwire.handlers import large_requests, slices
from kwire.handlers.audit import changes
from kwire.handlers.configs import alter_client_quotas, describe_client_quotas
from kwire.quotas.entities import CLIENT_ID, QuotaEntity
from kwire.quotas.limits import ClientLimits
from kwire.server.requests import routes
from tests.server.conftest import Brokers

EVERYTHING = DescribeClientQuotasRequest(components=[])


def alteration(*users: str, value: float = 1000.0, key: str = "producer_byte_rate") -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            EntryData(
                entity=[EntityData(entity_type="user", entity_name=user)],
                ops=[OpData(key=key, value=value, remove=not value)],
            )
            for user in users
        ]
    )


def in_small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_requests, "LARGE_BYTES", 1)
    monkeypatch.setattr(large_requests, "SLICE_ELEMENTS", 2)
    monkeypatch.setattr(slices, "SLICE_ELEMENTS", 2)
    monkeypatch.setattr(alter_client_quotas, "SLICE_ENTITIES", 2)
    monkeypatch.setattr(describe_client_quotas, "SLICE_ENTITIES", 2)
    monkeypatch.setattr(decisions, "ENTITIES_MAX", 2)
    monkeypatch.setattr(decisions, "COUNTED_MAX", 2)
    monkeypatch.setattr(decisions, "LINES_PER_TURN", 1)
    monkeypatch.setattr(changes, "SLICE_LINES", 1)


async def life(client: RawClient) -> list[Any]:
    """The responses to requests about quotas, from the first limit to the last."""
    return [
        await client.call(alteration("a", "b", "c", "d", "e", "a", ""), 1),
        await client.call(alteration("a", "c", key="no_such_key"), 0),
        await client.call(EVERYTHING, 0),
        await client.call(alteration("a", "c", "x", value=0.0), 1),
        await client.call(EVERYTHING, 1),
        await client.call(alteration("b", "d", "e", value=0.0), 1),
        await client.call(EVERYTHING, 1),
    ]


async def test_the_responses_are_those_to_small_requests(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await brokers.connect(await brokers.start())
    at_once = await life(client)
    in_small_slices(monkeypatch)
    assert await life(client) == at_once
    assert [each.error_code for each in at_once[0].entries] == [42, 0, 0, 0, 0, 42]
    assert [len(each.entries) for each in at_once[2::2]] == [5, 3, 0]


async def test_what_one_turn_does_is_bounded(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await brokers.start()
    client = await brokers.connect(broker)
    in_small_slices(monkeypatch)
    parts: list[tuple[str, int]] = []

    def noting(name: str) -> None:
        do = getattr(decisions, name)

        def noted(alterations: Any, image: Any, plan: Any) -> Any:
            parts.append((name, len(alterations)))
            return do(alterations, image, plan)

        monkeypatch.setattr(decisions, name, noted)

    noting("_count")
    noting("_alter")
    examined: list[int] = []
    sleep, examine = asyncio.sleep, alter_client_quotas._examine

    def noted_examine(*arguments: Any) -> None:
        examined[-1] += 1
        examine(*arguments)

    async def noted_sleep(delay: float) -> None:
        examined.append(0)
        await sleep(delay)

    monkeypatch.setattr(asyncio, "sleep", noted_sleep)
    monkeypatch.setattr(alter_client_quotas, "_examine", noted_examine)
    await client.call(alteration("a", "b", "c", "d", "e"), 1)
    assert parts == [("_count", 2), ("_count", 2), ("_count", 1), ("_alter", 2), ("_alter", 2), ("_alter", 1)]
    assert [each for each in examined if each] == [2, 2, 1]


@pytest.mark.parametrize("throttled", [False, True])
async def test_a_response_in_slices_is_encoded_anew_only_if_its_client_is_throttled(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, throttled: bool
) -> None:
    broker = await brokers.start()
    client = await brokers.connect(broker)
    await client.call(alteration("a", "b", "c"), 1)
    in_small_slices(monkeypatch)
    rates = {QuotaEntity.of({CLIENT_ID: "test" if throttled else "other"}): {"request_percentage": 1e-9}}
    broker.services.quotas.limit_by(ClientLimits(rates))
    encoded: list[object] = []

    def noted(message: Any, version: int, prefix: bytes = b"") -> list[Any]:
        encoded.append(type(message))
        return protocol.encode_parts(message, version, prefix)

    monkeypatch.setattr(routes, "encode_parts", noted)
    response = await client.call(EVERYTHING, 1)
    assert len(response.entries) == 3
    assert (response.throttle_time_ms > 0) is throttled
    assert encoded == [DescribeClientQuotasResponse] * throttled
