"""kafka-python's own integration tests on kwire, whole, in both modes, as `run` does it."""

from __future__ import annotations

import pytest

from compat_tests.kafka_python import suite


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", suite.MODES)
def test_what_has_passed_passes(mode: str) -> None:
    its = suite.suite(mode)
    outcomes = suite.run("kwire", mode, [])
    assert its.judge("kwire", outcomes) == []
    passed = {one.test for one in outcomes if one.state == "passed"}
    assert set(its.allowed()) <= passed
