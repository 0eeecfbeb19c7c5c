"""A script for each test, whose observations are compared when the test is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.comparisons.transactions.script import TransactionScript
from compat_tests.conftest import Names
from harness.observations import Observations
from harness.processes.brokers import Broker


@pytest.fixture
def script(broker: Broker, observe: Observations, new_name: Names) -> Iterator[TransactionScript]:
    """A conversation with the broker; what it saw must be the same on both."""
    with TransactionScript(broker, new_name) as conversation:
        yield conversation
        observe("conversation", conversation.seen)
