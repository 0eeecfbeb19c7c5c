"""The `script` fixture; its observations are compared when the test is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.comparisons.transactions.script import TransactionScript
from compat_tests.names import Names
from harness.observations import Observations
from harness.processes.brokers import Broker


@pytest.fixture
def script(broker: Broker, observe: Observations, new_name: Names) -> Iterator[TransactionScript]:
    """A conversation with the broker; its observations must be the same on both kinds."""
    with TransactionScript(broker, new_name) as conversation:
        yield conversation
        observe("conversation", conversation.seen)
