"""UpdateFeatures, ApiVersions after it, and what a cluster without `group.version` refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.comparisons.admin.requests import Wire
from compat_tests.names import Names
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until
from kwire.cluster.metadata.features import SUPPORTED
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kwire.codec.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE, UNSAFE = 1, 2, 3
GROUPS, TRANSACTIONS, METADATA = "group.version", "transaction.version", "metadata.version"
ELIGIBLE, VOTERS = "eligible.leader.replicas.version", "kraft.version"

Update = tuple[str, int, int]


def update(wire: Wire, *updates: Update, version: int = 2, validate_only: bool = False) -> list[Any]:
    """The error of the request, and of each feature in the response."""
    wanted = [
        FeatureUpdateKey(feature=name, max_version_level=level, allow_downgrade=kind != UPGRADE)
        if version == 0
        else FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in updates
    ]
    options: dict[str, Any] = {"validate_only": True} if validate_only else {}
    request = UpdateFeaturesRequest(feature_updates=wanted, **options)
    response = wire.call(request, version)
    return [response.error_code, [(each.feature, each.error_code) for each in response.results]]


def finalised(wire: Wire) -> dict[str, int]:
    """The finalised levels of the features that both brokers support."""
    response = wire.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    return {each.name: each.max_version_level for each in response.finalized_features if each.name in SUPPORTED}


@pytest.fixture
def levels(wire: Wire) -> Iterator[dict[str, int]]:
    """The finalised levels, restored after the test."""
    before = finalised(wire)
    yield before
    for name, level in before.items():
        update(wire, (name, level, UPGRADE))
    wait_until(lambda: finalised(wire) == before, 10, "the levels that were")


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(
    "updates",
    [
        [],
        [(GROUPS, 1, UPGRADE)],
        [(GROUPS, 2, UPGRADE)],
        [(GROUPS, 0, UPGRADE)],
        [(GROUPS, 0, SAFE)],
        [(GROUPS, 1, UNSAFE)],
        [(GROUPS, -1, UPGRADE)],
        [("unheard.of", 1, UPGRADE)],
        [("", 1, UPGRADE)],
        [(GROUPS, 0, SAFE), (GROUPS, 1, UPGRADE)],
        [(TRANSACTIONS, 1, SAFE), ("unheard.of", 1, UPGRADE)],
        [(METADATA, 31, UPGRADE)],
        [(METADATA, 6, SAFE)],
        [(METADATA, 29, SAFE)],
        [(METADATA, 29, UNSAFE)],
        [(METADATA, 30, SAFE)],
        [(VOTERS, 0, UPGRADE)],
        [(VOTERS, 0, UNSAFE)],
        [(VOTERS, -1, UPGRADE)],
        [(VOTERS, 2, UPGRADE)],
    ],
)
def test_updates_are_taken_or_refused(
    wire: Wire, levels: dict[str, int], observe: Observations, version: int, updates: list[Update]
) -> None:
    observe("response", update(wire, *updates, version=version, validate_only=version > 0))


@pytest.mark.parametrize("kind", [0, 7])
def test_an_unknown_type_of_update(wire: Wire, observe: Observations, kind: int) -> None:
    observe("response", update(wire, (GROUPS, 1, kind)))


def test_levels_go_down_and_up_again(wire: Wire, levels: dict[str, int], observe: Observations) -> None:
    observe("at first", dict(sorted(levels.items())))
    for name, level in ((GROUPS, 0), (TRANSACTIONS, 0), (ELIGIBLE, 0)):
        observe(f"{name} down", update(wire, (name, level, SAFE)))
    observe("up as a downgrade", update(wire, (GROUPS, 1, SAFE)))
    wait_until(lambda: ELIGIBLE not in finalised(wire), 10, "the last of the lower levels")
    observe("lower", dict(sorted(finalised(wire).items())))
    observe("up", update(wire, (GROUPS, 1, UPGRADE), (TRANSACTIONS, 2, UPGRADE), (ELIGIBLE, 1, UPGRADE)))


def test_a_cluster_without_the_new_group_protocol(
    wire: Wire, levels: dict[str, int], new_name: Names, observe: Observations
) -> None:
    group = new_name("group")
    assert update(wire, (GROUPS, 0, SAFE)) == [0, []]
    wait_until(lambda: GROUPS not in finalised(wire), 10, "the lower level")
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m" * 22,
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    response = wire.call(request, 1)
    observe("heartbeat", [response.error_code, response.error_message])
    described = wire.call(ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
    observe("described", [(each.group_id, each.error_code, each.error_message) for each in described])


@pytest.mark.java
def test_kafkas_own_tool_shows_and_changes_levels(
    java: JavaRunner, broker: Broker, wire: Wire, levels: dict[str, int], observe: Observations
) -> None:
    def features(*arguments: str) -> Any:
        result = java.tool("FeatureCommand", "--bootstrap-server", broker.bootstrap, *arguments)
        return result.status, [line for line in result.out.splitlines() if any(name in line for name in SUPPORTED)]

    def described() -> dict[str, list[str]]:
        status, lines = features("describe")
        assert status == 0
        words = [line.partition("Epoch:")[0].split() for line in lines]
        return {line[1]: line[2:] for line in sorted(words)}

    observe("describe", described())
    observe("downgrade", features("downgrade", "--feature", f"{GROUPS}=0"))
    wait_until(lambda: described()[GROUPS][-1] == "0", 10, "the lower level")
    observe("lower", described())
    observe("upgrade", features("upgrade", "--feature", f"{GROUPS}=1"))
