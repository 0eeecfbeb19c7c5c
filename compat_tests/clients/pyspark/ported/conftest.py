"""Fixtures of the ported cases: the broker under test as `Kafka`, and the streams of a case as `Streams`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.clients.pyspark.ported.support.kafka import Kafka
from compat_tests.clients.pyspark.ported.support.streams import Source, Stream
from harness.processes.brokers import Broker, make_broker

_HERE = str(Path(__file__).parent)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.addinivalue_line("markers", "original(suite, *names): the tests of Spark that a case was ported from")
    config.addinivalue_line("markers", "quick: runs with the compatibility tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without ``--every-case`` only the cases marked `quick` are left."""
    if config.getoption("--every-case"):
        return
    left = [item for item in items if str(item.path).startswith(_HERE) and item.get_closest_marker("quick") is None]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]


@pytest.fixture
def kafka(broker: Broker) -> Kafka:
    """The broker of the session, as the cases use it."""
    return Kafka(broker.bootstrap)


@pytest.fixture(scope="session")
def strict_broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker where a topic that was deleted stays deleted, whoever asks for it."""
    settings = {"auto.create.topics.enable": "false"}
    own = make_broker(broker_kind, tmp_path_factory.mktemp(f"strict-{broker_kind}"), settings)
    own.start()
    yield own
    own.kill()


@pytest.fixture
def strict(strict_broker: Broker) -> Kafka:
    """The broker of the cases that delete topics."""
    return Kafka(strict_broker.bootstrap)


@pytest.fixture
def source(spark: Any, kafka: Kafka) -> Source:
    """``format("kwire")`` on the broker of the session."""
    return Source(spark, kafka.bootstrap)


@pytest.fixture
def strict_source(spark: Any, strict: Kafka) -> Source:
    """``format("kwire")`` on the broker of the cases that delete topics."""
    return Source(spark, strict.bootstrap)


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Callable[..., Stream]]:
    """``stream(frame) -> Stream``: a streaming query with a checkpoint of its own, stopped at the end."""
    made: list[Stream] = []

    def make(frame: Any, **options: Any) -> Stream:
        made.append(Stream(frame, tmp_path / f"checkpoint-{len(made)}", **options))
        return made[-1]

    yield make
    for each in made:
        each.stop()
