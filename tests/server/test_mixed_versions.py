"""Brokers of two versions in one cluster: what each tells of features, and who may not come in."""

from __future__ import annotations

import pytest

from harness.raw_client import RawClient
from kwire.base.errors import ErrorCode
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.server.errors import StartError
from tests.server.cluster import Cluster

OLDER = "group.version=0-0"


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
    assert "broker 1 (the controller) does not know" in (message or "")


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
