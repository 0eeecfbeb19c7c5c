"""Fixtures: registries at kwire and at Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from compat_tests.names import Names
from harness.processes.brokers import Broker
from harness.processes.certificates import Certificates
from harness.registries.process import Registry, secured_options

Start = Callable[..., Registry]
Secured = Callable[..., Registry]
USER: Final = "alice:secret"
"""Name and password of the only user of `secured`."""


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


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secured(broker: Broker, topic: str, certificates: Certificates, tmp_path: Path) -> Iterator[Secured]:
    """``secured(ca=None)``: another instance with TLS and a user; ``ca``: by whom it knows others."""
    options = secured_options(certificates, USER, tmp_path / "users")
    started: list[Registry] = []

    def one(ca: Path | None = None) -> Registry:
        own = [*options, "--tls-ca", str(ca or certificates.ca)]
        started.append(Registry(broker.bootstrap, topic, *own, ca=certificates.ca))
        return started[-1]

    yield one
    for each in started:
        each.close()
