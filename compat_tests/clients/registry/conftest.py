"""Fixtures: registries at kwire and at Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from compat_tests.names import Names
from harness.processes.brokers import Broker
from harness.registries.process import Registry

Start = Callable[..., Registry]


@pytest.fixture
def topic(new_name: Names) -> str:
    return new_name("schemas")


@pytest.fixture
def start(broker: Broker, topic: str) -> Iterator[Start]:
    """``start(*options)``: another instance on the same topic."""
    started: list[Registry] = []

    def one(*options: str) -> Registry:
        started.append(Registry(broker.bootstrap, topic, *options))
        return started[-1]

    yield one
    for each in started:
        each.close()


@pytest.fixture
def registry(start: Start) -> Registry:
    return start()
