"""Fixtures of the comparisons of security: a connection to the shared broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.comparisons.admin.requests import Wire
from harness.processes.brokers import Broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    """A connection to the shared broker."""
    client = Wire(broker.bootstrap)
    yield client
    client.close()
