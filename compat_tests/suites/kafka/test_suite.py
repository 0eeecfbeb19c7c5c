"""Some of Kafka's own tests on kwire, chosen to cover every kind of group within a CI run; ``python -m
compat_tests.suites.kafka`` runs all."""

from __future__ import annotations

import pytest

from compat_tests.suites.kafka.suite import SUITE, run
from compat_tests.suites.suite import second_attempt

pytestmark = [pytest.mark.java, pytest.mark.timeout(1500)]

CHOSEN: dict[str, tuple[str, ...]] = {
    "ConsumerGroupDescribeRequestTest": (),
    "ConsumerGroupHeartbeatRequestTest": (),
    "ConsumerProtocolMigrationTest": (  # others take it that their requests fit into an assignment interval of 1 s
        "testDowngradeFromEmptyConsumerToClassicGroupWithBidirectionalPolicy",
        "testDowngradeMigrationPolicy",
        "testOnlineMigrationWithNonEmptyUserDataInAssignment",
        "testUpgradeFromEmptyClassicToConsumerGroupWithBidirectionalPolicy",
        "testUpgradeFromSimpleGroupToConsumerGroupWithUpgradePolicy",
        "testUpgradeMigrationPolicy",
        "testUpgradeWithDisabledMigrationPolicy",
    ),
    "DescribeGroupsRequestTest": (),
    "DescribeProducersWithBrokerIdTest": (),
    "OffsetCommitRequestTest": (),
    "OffsetDeleteRequestTest": (),
    "PlaintextConsumerFetchTest": (),
    "ShareConsumerTest": ("testExplicitAcknowledgeReleaseAccept",),
    "ShareFetchAcknowledgeRequestTest": (
        "testShareAcknowledgeRequestMaxDeliveryAttemptExhausted",
        "testShareFetchRequestPiggybackedRelease",
        "testShareFetchRequestSuccessMultiplePartitionsMultipleBrokers",
    ),
    "StreamsGroupDescribeRequestTest": (),
    "StreamsGroupHeartbeatRequestTest": (),
}
"""The classes, and their methods where not all of them run."""


@pytest.mark.parametrize("name", CHOSEN)
def test_what_has_passed_passes(name: str) -> None:
    tests = [f"{name}.{method}" for method in CHOSEN[name]] or [name]
    expected = {test for test in SUITE.allowed() if test.partition("[" if CHOSEN[name] else ".")[0] in tests}
    outcomes = second_attempt(run("kwire", tests), expected, lambda _: run("kwire", tests))
    assert SUITE.compare("kwire", outcomes) == []
    assert expected <= {one.test for one in outcomes if one.state == "passed"}
