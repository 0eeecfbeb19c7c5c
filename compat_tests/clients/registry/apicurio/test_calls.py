"""kwire's registry answers as Apicurio Registry does, but for the differences listed here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.clients.registry.apicurio.calls import STEPS, answers
from compat_tests.clients.registry.apicurio.client import results
from compat_tests.clients.registry.apicurio.differences import CLIENT_DIFFERENCES, DIFFERENCES
from compat_tests.needs import need
from compat_tests.servers import running
from harness.kafka_jars import JarsUnavailable
from harness.processes.brokers import make_broker
from harness.registries.apicurio import Apicurio
from harness.registries.process import Registry

pytestmark = pytest.mark.java


@pytest.fixture
def registry(tmp_path: Path, topic: str) -> Iterator[Registry]:
    """A registry of kwire at a broker of its own: once is enough, whatever brokers the other tests are for."""
    broker = make_broker("kwire", tmp_path / "broker")
    with running(broker, broker.kill):
        made = Registry(broker.bootstrap, topic)
        yield made
        made.close()


@pytest.fixture(scope="module")
def apicurio() -> Iterator[Apicurio]:
    try:
        made = Apicurio()
    except JarsUnavailable as missing:
        need(str(missing))
        raise
    yield made
    made.close()


def test_rest_calls_have_the_same_answers(registry: Registry, apicurio: Apicurio) -> None:
    ours, theirs = answers(registry.call), answers(apicurio.call)
    assert list(ours) == [step.name for step in STEPS]
    different = {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}
    assert different == {name: (each.kwire, each.apicurio) for name, each in DIFFERENCES.items()}


def test_confluents_client_returns_the_same(registry: Registry, apicurio: Apicurio) -> None:
    ours, theirs = results(registry.url), results(apicurio.url)
    different = {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}
    assert different == {name: (each.kwire, each.apicurio) for name, each in CLIENT_DIFFERENCES.items()}
