"""``kwire group lag``: the same output on both brokers, for both group protocols."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.comparisons.cli.conftest import Kwire
from compat_tests.names import Names
from compat_tests.reading import member_that_has_read
from harness.observations import Observations
from harness.processes.brokers import Broker


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_lag_of_a_group_is_shown(
    protocol: str,
    kwire: Kwire,
    broker: Broker,
    make_topic: Callable[..., str],
    new_name: Names,
    observe: Observations,
) -> None:
    topic, group = make_topic(3), new_name("group")
    consumer = member_that_has_read(broker.bootstrap, topic, group, protocol)
    lag = kwire("group", "lag", group, "-o", "json").json()
    assert lag == [
        {"topic": topic, "partition": 0, "committed": 3, "end": 5, "lag": 2},
        {"topic": topic, "partition": 1, "committed": None, "end": 5, "lag": None},
        {"topic": topic, "partition": 2, "committed": None, "end": 0, "lag": None},
    ]
    observe("table", kwire("group", "lag", group))
    consumer.close()
    observe("without members", kwire("group", "lag", group))


def test_a_group_that_does_not_exist_is_told(kwire: Kwire, observe: Observations) -> None:
    unknown = kwire("group", "lag", "no-such-group")
    assert unknown == (1, "", "kwire: group no-such-group: there is no such group\n")
    observe("unknown", unknown)
