"""Some of librdkafka's own tests on kwire, in the suite's quick mode: short ones that together cover producing,
fetching, groups, offsets, administration, transactions and access control, and a few over SASL_SSL. ``python -m
compat_tests.suites.librdkafka`` runs all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from compat_tests.needs import need_built
from compat_tests.suites.librdkafka import suite
from compat_tests.suites.librdkafka.build import WITH_SHARE_CONSUMERS, folder_of_tests
from compat_tests.suites.librdkafka.security import Security
from compat_tests.suites.suite import Outcome, second_attempt

SECURED = ("0001", "0012", "0031", "0065", "0081", "0090", "0097", "0112", "0135", "0140")
PARTS = {"0081": "Acls"}
SECURED_PARTS = {"0081": "DescribeConsumerGroups_with_authorized_ops"}
SHARE_PARTS = {"0172": "ack_after_commit", "0175": "five_groups_same_topic"}
QUICK = (
    "0001",
    "0005",
    "0007",
    "0012",
    "0013",
    "0015",
    "0017",
    "0029",
    "0031",
    "0034",
    "0036",
    "0040",
    "0044",
    "0048",
    "0054",
    "0056",
    "0059",
    "0060",
    "0063",
    "0065",
    "0070",
    "0073",
    "0081",
    "0085",
    "0090",
    "0099",
    "0112",
    "0115",
    "0118",
    "0119",
    "0130",
    "0140",
)


def run_twice(numbers: Iterable[str], **how: Any) -> list[Outcome]:
    """Run tests four at a time and those that fail once more, one after the other, on a new broker."""

    def run(tests: list[str], jobs: int) -> list[Outcome]:
        return suite.run("kwire", tests, jobs=jobs, limit_s=120, **how)

    outcomes = run(list(numbers), 4)
    failed = [one.test for one in outcomes if one.state == "failed"]
    return second_attempt(outcomes, failed, lambda tests: run(tests, 1))


@pytest.mark.timeout(1500)  # the first run builds librdkafka and its tests
def test_what_has_passed_passes() -> None:
    need_built(folder_of_tests)
    outcomes = run_twice(QUICK, quick=True, parts=PARTS)
    assert suite.suite().compare("kwire", outcomes) == []
    assert {one.test[:4] for one in outcomes if one.state == "passed"} == set(QUICK)


@pytest.mark.timeout(1500)
def test_what_passes_on_kafka_over_tls_with_a_login_passes() -> None:
    need_built(folder_of_tests)
    security = Security("SASL_SSL", "SCRAM-SHA-512")
    outcomes = run_twice(SECURED, quick=True, security=security, parts=SECURED_PARTS)
    assert suite.suite(security=security).compare("kwire", outcomes) == []
    assert {one.test[:4] for one in outcomes if one.state == "passed"} == set(SECURED)


@pytest.mark.timeout(1500)
def test_some_share_consumers_pass() -> None:
    need_built(lambda: folder_of_tests(WITH_SHARE_CONSUMERS))
    outcomes = run_twice(SHARE_PARTS, quick=False, parts=SHARE_PARTS, version=WITH_SHARE_CONSUMERS)
    assert suite.share_suite().compare("kwire", outcomes) == []
    assert {one.test[:4] for one in outcomes if one.state == "passed"} == set(SHARE_PARTS)
