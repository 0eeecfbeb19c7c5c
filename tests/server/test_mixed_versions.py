"""Brokers of two versions in one cluster: what each tells of features, and who may not come in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from harness.raw_client import RawClient
from kwire.base.errors import ErrorCode
from kwire.cluster.metadata.features import ACCESS_VERSION
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.server.errors import StartError
from tests.server.cluster import Cluster

OLDER = "group.version=0-0"
WITHOUT_ACCESS = "kwire.access.version=0-0"
"""A broker of kwire 0.1.0, as far as access control is concerned."""


async def group_version(client: RawClient) -> tuple[tuple[int, int], int]:
    """What a broker supports of `group.version`, and what it says is finalised."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = await client.call(request, 4)
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    finalised = {each.name: each.max_version_level for each in answer.finalized_features}
    return supported["group.version"], finalised.get("group.version", 0)


async def upgrade(client: RawClient) -> tuple[int, str | None]:
    wanted = FeatureUpdateKey(feature="group.version", max_version_level=1)
    answer = await client.call(UpdateFeaturesRequest(feature_updates=[wanted]), 2)
    return answer.error_code, answer.error_message


async def test_a_broker_that_is_too_old_does_not_start_and_says_why(cluster: Cluster) -> None:
    await cluster.start(1)
    with pytest.raises(StartError) as caught:
        await cluster.broker(2, OLDER).start()
    assert str(caught.value) == (
        "The cluster has finalised level 1 of group.version, this broker does not know this feature."
    )


async def test_a_level_is_finalised_when_the_last_old_broker_is_replaced(cluster: Cluster) -> None:
    old = await cluster.start(1, OLDER)
    new = await cluster.start(2)
    assert await group_version(old) == ((0, 0), 0)
    assert await group_version(new) == ((0, 1), 0)
    code, message = await upgrade(new)  # carried to the controller, which is the old one
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert "Local controller 1 does not support this feature" in (message or "")


async def test_an_update_is_known_where_it_was_asked_for_when_it_is_answered(cluster: Cluster) -> None:
    first = await cluster.start(1, "test.version=0-3")
    second = await cluster.start(2, "test.version=0-3")
    wanted = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=2)
    assert (await second.call(UpdateFeaturesRequest(feature_updates=[wanted]), 2)).error_code == 0
    assert await group_version(second) == await group_version(first) == ((0, 1), 0)
    assert await upgrade(second) == (0, None)
    assert await group_version(second) == await group_version(first) == ((0, 1), 1)


async def test_limits_of_another_form_are_told_in_one_line(cluster: Cluster) -> None:
    with pytest.raises(StartError, match="not of the form"):
        await cluster.broker(1, "group.version").start()


async def add_user(client: RawClient) -> tuple[int, str | None]:
    user = ScramCredentialUpsertion(name="a", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"x" * 32)
    answer = await client.call(AlterUserScramCredentialsRequest(upsertions=[user]), 0)
    return answer.results[0].error_code, answer.results[0].error_message


async def add_quota(client: RawClient) -> tuple[int, str | None]:
    entry = EntryData(
        entity=[EntityData(entity_type="client-id", entity_name="a")], ops=[OpData(key="producer_byte_rate", value=1e6)]
    )
    answer = await client.call(AlterClientQuotasRequest(entries=[entry]), 1)
    return answer.entries[0].error_code, answer.entries[0].error_message


@pytest.mark.parametrize("write", [add_user, add_quota])
async def test_credentials_and_quotas_are_not_written_while_a_broker_is_too_old_for_them(
    cluster: Cluster, write: Callable[[RawClient], Awaitable[tuple[int, str | None]]]
) -> None:
    """It would let everybody do everything."""
    await cluster.start(1, WITHOUT_ACCESS)
    new = await cluster.start(2)
    assert await write(new) == (
        ErrorCode.UNSUPPORTED_VERSION,
        "Broker 1 runs a version of kwire without access control, and would let everybody do everything. Upgrade it,"
        " or unregister it (kwire cluster unregister --id 1).",
    )


async def test_clients_neither_see_nor_update_the_feature_of_access(cluster: Cluster) -> None:
    client = await cluster.start(1)
    assert cluster.brokers[1].metadata.image.features[ACCESS_VERSION] == 1
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = await client.call(request, 4)
    names = [each.name for each in (*answer.supported_features, *answer.finalized_features)]
    assert not [name for name in names if name.startswith("kwire")]
    update = FeatureUpdateKey(feature=ACCESS_VERSION, max_version_level=0, upgrade_type=2)
    answer = await client.call(UpdateFeaturesRequest(feature_updates=[update]), 2)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "does not support this feature" in answer.error_message
