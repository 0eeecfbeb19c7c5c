"""All of kafka-python's own integration tests on kwire, in both modes, and a part of those for SASL and TLS."""

from __future__ import annotations

import pytest

from compat_tests.suites.kafka_python import suite
from compat_tests.suites.suite import Outcome, second_attempt

pytestmark = pytest.mark.timeout(1500)


def run_again(mode: str, tests: list[str]) -> list[Outcome]:
    """Run tests by their names without parameters."""
    return suite.run("kwire", mode, sorted({test.rpartition("::")[2].partition("[")[0] for test in tests}))


@pytest.mark.parametrize("mode", suite.MODES)
def test_what_has_passed_passes(mode: str) -> None:
    its = suite.suite(mode)
    allowed = set(its.allowed())
    outcomes = second_attempt(suite.run("kwire", mode, []), allowed, lambda tests: run_again(mode, tests))
    assert its.compare("kwire", outcomes) == []
    assert allowed <= {one.test for one in outcomes if one.state == "passed"}


@pytest.mark.java
def test_logins_that_have_passed_pass() -> None:
    its, chosen = suite.suite(suite.SECURED), ("test_produce_and_consume", "TestSSLConnection")
    allowed = {test for test in its.allowed() if any(each in test for each in chosen)}
    assert len(allowed) == 5
    outcomes = second_attempt(
        suite.run("kwire", suite.SECURED, list(chosen)), allowed, lambda tests: run_again(suite.SECURED, tests)
    )
    assert its.compare("kwire", outcomes) == []
    assert allowed <= {one.test for one in outcomes if one.state == "passed"}
