"""All of franz-go's own tests on three kwire brokers, with fewer records than its default."""

from __future__ import annotations

import pytest

from compat_tests.needs import need_built
from compat_tests.suites.franz_go import suite
from compat_tests.suites.suite import Outcome, second_attempt

pytestmark = pytest.mark.timeout(2400)


def test_what_has_passed_passes() -> None:
    need_built(suite.program)

    def run(tests: list[str]) -> list[Outcome]:
        return suite.run("kwire", tests, records=20_000)

    its = suite.suite()
    outcomes = second_attempt(run([]), its.allowed(), run)
    assert its.compare("kwire", outcomes) == []
    assert set(its.allowed()) <= {one.test for one in outcomes if one.state == "passed"}


def test_logins_and_a_few_tests_pass_with_tls() -> None:
    need_built(suite.program)

    def run(tests: list[str]) -> list[Outcome]:
        return suite.run("kwire", tests, records=5_000, tls=True, scram=512)

    chosen = ["TestSCRAMAuth", "TestSCRAMAuthBadCredentials", "TestPing", "TestIssue648"]
    outcomes = second_attempt(run(chosen), chosen, run)
    assert suite.suite(tls=True).compare("kwire", outcomes) == []
    assert set(chosen) <= {one.test for one in outcomes if one.state == "passed"}
