"""The order pipeline of the example with little data: its Spark job is killed and restarted, the result is exact."""

from __future__ import annotations

import pytest

from examples.spark_orders import demo
from harness.processes.brokers import Broker

pytestmark = [pytest.mark.java, pytest.mark.timeout(1500)]


def test_killed_and_restarted_job_finds_every_order_exactly_once(broker: Broker) -> None:
    if broker.kind != "kwire":
        pytest.skip("the pipeline's own test; test_batch and test_streaming compare Spark on both brokers")
    assert demo.main(["--bootstrap", broker.bootstrap, "--orders", "30000", "--rate", "4000"]) == 0
