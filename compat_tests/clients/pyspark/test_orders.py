"""The order pipeline, small: producer, Spark job killed and restarted, result equal to a plain loop."""

from __future__ import annotations

import pytest

from examples.spark_orders import demo
from harness.processes.brokers import Broker

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]


def test_killed_and_restarted_job_finds_every_order_exactly_once(broker: Broker) -> None:
    if broker.kind != "kwire":
        pytest.skip("the pipeline's own test; Apache Kafka is compared in test_dataframes")
    assert demo.main(["--bootstrap", broker.bootstrap, "--orders", "30000", "--rate", "4000"]) == 0
