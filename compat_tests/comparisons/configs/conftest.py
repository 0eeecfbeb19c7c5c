"""Connections for the configuration tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.comparisons.admin.requests import Wire
from compat_tests.comparisons.configs.quotas import Quotas
from compat_tests.comparisons.configs.requests import Configs
from harness.processes.brokers import Broker
from harness.wire_client import WireClient


@pytest.fixture
def configs(broker: Broker) -> Iterator[Configs]:
    """A connection to the shared broker, for the test's own topics, groups and client metrics subscriptions."""
    with WireClient(broker.bootstrap) as client:
        yield Configs(client)


@pytest.fixture
def quotas(broker: Broker) -> Iterator[Quotas]:
    """Requests for the shared broker's quotas. There are none at the beginning and at the end."""
    client = Wire(broker.bootstrap)
    made = Quotas(client)
    made.clear()
    yield made
    made.clear()
    client.close()


@pytest.fixture
def own_configs(broker_factory: Callable[..., Broker]) -> Iterator[Configs]:
    """A connection to a broker for this test only, whose properties the test may change."""
    with WireClient(broker_factory().bootstrap) as client:
        yield Configs(client)
