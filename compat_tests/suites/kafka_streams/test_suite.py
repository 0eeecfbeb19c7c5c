"""Some of Kafka Streams' own integration tests on kwire; ``python -m compat_tests.suites.kafka_streams`` runs all."""

from __future__ import annotations

import pytest

from compat_tests.suites.kafka_streams import suite
from compat_tests.suites.suite import Outcome, second_attempt

pytestmark = [pytest.mark.java, pytest.mark.timeout(1500)]

CHOSEN = ("InternalTopicIntegrationTest", "StandbyTaskCreationIntegrationTest")
"""Short classes, whose tests use the classic protocol and that of streams groups."""


def test_what_has_passed_passes() -> None:
    def run_classes(tests: list[str]) -> list[Outcome]:
        return suite.run("kwire", {test.partition(".")[0] for test in tests})

    allowed = {test for test in suite.SUITE.allowed() if test.partition(".")[0] in CHOSEN}
    outcomes = second_attempt(suite.run("kwire", CHOSEN), allowed, run_classes)
    assert suite.SUITE.compare("kwire", outcomes) == []
    assert allowed <= {one.test for one in outcomes if one.state == "passed"}
