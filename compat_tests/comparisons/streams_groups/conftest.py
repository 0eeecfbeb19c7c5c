"""The `script` fixture, on a broker whose target assignments follow at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.comparisons.streams_groups.script import SETTINGS, StreamsScript
from harness.observations import Observations
from harness.processes.brokers import Broker, make_broker


@pytest.fixture(scope="session")
def prompt_broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose target assignments follow at once."""
    broker = make_broker(broker_kind, tmp_path_factory.mktemp(f"streams-{broker_kind}"), SETTINGS)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def script(prompt_broker: Broker, observe: Observations) -> Iterator[StreamsScript]:
    """A conversation with the broker; its observations must be the same on both kinds."""
    with StreamsScript(prompt_broker) as conversation:
        yield conversation
        observe("conversation", conversation.seen)
