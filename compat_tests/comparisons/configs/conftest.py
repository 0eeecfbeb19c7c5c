"""Connections for the configuration tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.comparisons.configs.requests import Configs
from harness.processes.brokers import Broker
from harness.wire_client import WireClient


@pytest.fixture
def configs(broker: Broker) -> Iterator[Configs]:
    """A connection to the shared broker: for topics, groups and subscriptions of the test's own."""
    with WireClient(broker.bootstrap) as client:
        yield Configs(client)


@pytest.fixture
def own_configs(broker_factory: Callable[..., Broker]) -> Iterator[Configs]:
    """A connection to a broker of this test alone, whose properties may be changed."""
    with WireClient(broker_factory().bootstrap) as client:
        yield Configs(client)
