"""The `script` fixture, on a broker whose target assignments follow at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.comparisons.access.acls import LASTING_SESSIONS
from compat_tests.comparisons.consumer_groups.script import ConsumerScript
from harness.observations import Observations
from harness.processes.brokers import Broker, make_broker


@pytest.fixture(scope="session")
def prompt_broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker whose target assignments follow at once and whose sessions last: no test depends on the clock."""
    broker = make_broker(broker_kind, tmp_path_factory.mktemp(f"prompt-{broker_kind}"), LASTING_SESSIONS)
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def script(prompt_broker: Broker, observe: Observations) -> Iterator[ConsumerScript]:
    """A conversation with the broker; its observations must be the same on both kinds."""
    with ConsumerScript(prompt_broker) as conversation:
        yield conversation
        observe("conversation", conversation.seen)
