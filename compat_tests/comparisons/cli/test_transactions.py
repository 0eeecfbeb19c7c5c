"""``kwire txn``: the same output on both brokers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException, Producer

from compat_tests.comparisons.cli.conftest import Kwire
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker


def test_an_open_transaction_is_listed_described_and_aborted(
    kwire: Kwire, broker: Broker, make_topic: Callable[..., str], new_name: Names, observe: Observations
) -> None:
    topic, name = make_topic(2), new_name("id")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for index in range(2):
        producer.produce(topic, b"v", partition=index)
    assert producer.flush(20) == 0
    kwire.until(name, "txn", "list", "--state", "ongoing")
    [listed] = [row for row in kwire("txn", "list", "-o", "json").json() if row["transactional_id"] == name]
    assert listed.pop("producer_id") >= 0
    observe("listed", listed)
    [described] = kwire("txn", "describe", name, "-o", "json").json()
    assert described.pop("producer_id") >= 0 and described.pop("started") > 0
    observe("described", described)
    observe("aborted", kwire("txn", "abort", name))
    kwire.until(name, "txn", "list", "--state", "complete-abort", "--state", "empty")
    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    observe("unknown", kwire("txn", "describe", "no-such-id"))
    observe("abort unknown", kwire("txn", "abort", "no-such-id"))
