"""All of franz-go's own tests on three kwire brokers, with fewer records than its default."""

from __future__ import annotations

import pytest

from compat_tests.needs import need_built
from compat_tests.suites.franz_go import suite


@pytest.mark.timeout(1500)
def test_what_has_passed_passes() -> None:
    need_built(suite.program)
    its = suite.suite()
    outcomes = suite.run("kwire", [], records=20_000)
    assert its.compare("kwire", outcomes) == []
    assert set(its.allowed()) <= {one.test for one in outcomes if one.state == "passed"}


def test_logins_and_a_few_tests_pass_with_tls() -> None:
    need_built(suite.program)
    tests = ["TestSCRAMAuth", "TestSCRAMAuthBadCredentials", "TestPing", "TestIssue648"]
    outcomes = suite.run("kwire", tests, records=5_000, tls=True, scram=512)
    assert suite.suite(tls=True).compare("kwire", outcomes) == []
