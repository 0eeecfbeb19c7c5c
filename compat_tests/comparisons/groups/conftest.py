"""The `script` fixture; its observations are compared when the test is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.comparisons.groups.script import Script
from harness.observations import Observations
from harness.processes.brokers import Broker


@pytest.fixture
def script(broker: Broker, observe: Observations) -> Iterator[Script]:
    """A conversation with the broker; its observations must be the same on both kinds."""
    with Script(broker) as conversation:
        yield conversation
        observe("conversation", conversation.seen)
