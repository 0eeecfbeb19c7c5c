"""Fixtures of the data tests: a connection and fresh topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.comparisons.data.requests import Topic
from harness.processes.brokers import Broker
from harness.wire_client import WireClient


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    """A connection to the shared broker."""
    with WireClient(broker.bootstrap) as client:
        yield client


@pytest.fixture
def wire_topic(client: WireClient, make_topic: Callable[..., str]) -> Callable[..., Topic]:
    """``wire_topic(partitions=1, configs={...})``: a new topic and the requests for it."""

    def make(partitions: int = 1, configs: dict[str, str] | None = None) -> Topic:
        return Topic(client, make_topic(partitions, configs))

    return make


@pytest.fixture
def reconnect(broker: Broker) -> Callable[[Topic], Topic]:
    """The same topic over a new connection, after the broker has closed the old one."""

    def again(topic: Topic) -> Topic:
        topic.client.close()
        topic.client = WireClient(broker.bootstrap)
        return topic

    return again
