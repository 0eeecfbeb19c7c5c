"""``kwire cluster`` and ``kwire ping``: the same output on both brokers."""

from __future__ import annotations

from compat_tests.comparisons.cli.conftest import Kwire
from harness.observations import Observations
from harness.processes.brokers import Broker


def test_a_cluster_and_its_broker_are_shown(kwire: Kwire, broker: Broker, topic: str, observe: Observations) -> None:
    kwire("topic", "create", topic, "--partitions", "3")
    kwire.until('"partition": 2', "topic", "describe", topic, "-o", "jsonl")
    found = kwire("cluster", "status", "-o", "json").json()
    [row] = found["brokers"]
    assert f"{row.pop('host')}:{row.pop('port')}" == broker.bootstrap
    assert row.pop("leads") == row.pop("replicas") == found.pop("partitions") >= 3
    assert found.pop("topics") >= 1 and len(found.pop("cluster_id")) == 22
    observe("status", found)
    observe("no such broker", kwire("cluster", "unregister", "--id", "77", "-o", "json"))
    answered = kwire("ping", "-o", "json").json()
    assert answered.pop("apis") > 50 and answered.pop("broker") == broker.bootstrap and not answered
