"""Fixtures of the administration tests: a connection and fresh topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from compat_tests.comparisons.admin.requests import Wire, new_topic
from compat_tests.names import Names
from harness.processes.brokers import Broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    """A connection to the shared broker."""
    client = Wire(broker.bootstrap)
    yield client
    client.close()


@pytest.fixture
def made(wire: Wire, new_name: Names) -> Callable[..., str]:
    """``made(partitions=1, configs={...}) -> name`` of a topic that was just created."""

    def make(partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        name = new_name("made")
        assert wire.codes(new_topic(name, partitions, configs=list((configs or {}).items()))) == {name: 0}
        return name

    return make
