"""Factories of pytest fixtures, for projects that need other brokers than the plugin's:

    strict_proc = factories.kwire_proc({"auto.create.topics.enable": "false"})
    strict = factories.kwire("strict_proc")

Shaped after pytest-postgresql and pytest-redis: ``*_proc`` starts a process for the session, ``*_noproc`` uses a
running one, and tests use the plain name. Importing this module imports nothing but pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kwire.testing.broker import Kwire, RunningBroker
    from kwire.testing.process import KwireProcess
    from kwire.testing.secured import SecuredKwire, SecuredProcess


def kwire_proc(
    properties: Mapping[str, str] | None = None, *, listen: str = "127.0.0.1:0", data_dir: str | Path | None = None
) -> Callable[..., Iterator[KwireProcess]]:
    """A session fixture: a broker process. ``properties`` override the command line, which overrides the ini file."""

    @pytest.fixture(scope="session")
    def kwire_proc_fixture(request: pytest.FixtureRequest) -> Iterator[KwireProcess]:
        """A kwire broker in a process of its own, for the whole session (each xdist worker has one)."""
        from kwire.testing.process import KwireProcess, KwireStartError

        broker = KwireProcess(
            {**given_properties(request.config), **(properties or {})}, listen=listen, data_dir=data_dir
        )
        try:
            broker.start()
        except KwireStartError as error:
            pytest.fail(str(error), pytrace=False)
        try:
            yield broker
        finally:
            if data_dir is None:
                broker.discard()
            else:
                broker.stop()

    return kwire_proc_fixture


def kwire_noproc(bootstrap_servers: str | None = None) -> Callable[..., RunningBroker]:
    """A session fixture: a broker that is already running, at an address given here, by ``--kwire-bootstrap`` or in
    the ini file. The fixture fails if the broker does not respond."""

    @pytest.fixture(scope="session")
    def kwire_noproc_fixture(request: pytest.FixtureRequest) -> RunningBroker:
        """The broker of --kwire-bootstrap."""
        from kwire.testing.broker import RunningBroker

        address = bootstrap_servers or given_bootstrap(request.config)
        if not address:
            pytest.fail("kwire_noproc: no address: give --kwire-bootstrap HOST:PORT", pytrace=False)
        _require_answer(address)
        return RunningBroker(address)

    return kwire_noproc_fixture


def kwire(broker_fixture: str | None = None) -> Callable[..., Iterator[Kwire]]:
    """A function fixture: one test's view of a session's broker. ``broker_fixture`` None: ``kwire_noproc`` if
    ``--kwire-bootstrap`` is given, otherwise ``kwire_proc``."""

    @pytest.fixture
    def kwire_fixture(request: pytest.FixtureRequest) -> Iterator[Kwire]:
        """A Kafka broker: kwire.bootstrap_servers, kwire.topic(), kwire.name(), kwire.fail_next(), kwire.pause()."""
        from kwire.testing.broker import Kwire

        name = broker_fixture or ("kwire_noproc" if given_bootstrap(request.config) else "kwire_proc")
        broker = Kwire(request.getfixturevalue(name))
        yield broker
        broker.reset()

    return kwire_fixture


def kwire_secure_proc(
    properties: Mapping[str, str] | None = None, users: Mapping[str, str] | None = None
) -> Callable[..., Iterator[SecuredProcess]]:
    """A session fixture: a broker process that clients reach over SASL_SSL only. ``users``: passwords by name."""

    @pytest.fixture(scope="session")
    def kwire_secure_proc_fixture(request: pytest.FixtureRequest) -> Iterator[SecuredProcess]:
        """A kwire broker with a certificate and users, for the whole session."""
        from kwire.testing.process import KwireStartError
        from kwire.testing.secured import SecuredProcess

        broker = SecuredProcess({**given_properties(request.config), **(properties or {})}, users)
        try:
            broker.start()
        except KwireStartError as error:
            broker.remove_certificates()
            pytest.fail(str(error), pytrace=False)
        try:
            yield broker
        finally:
            broker.discard()
            broker.remove_certificates()

    return kwire_secure_proc_fixture


def kwire_secure(broker_fixture: str = "kwire_secure_proc") -> Callable[..., Iterator[SecuredKwire]]:
    """A function fixture: one test's view of a session's secured broker."""

    @pytest.fixture
    def kwire_secure_fixture(request: pytest.FixtureRequest) -> Iterator[SecuredKwire]:
        """A secured broker: what the fixture kwire has, and kwire_secure.users, .ca_path, .kafka_python("alice")."""
        from kwire.testing.secured import SecuredKwire

        broker = SecuredKwire(request.getfixturevalue(broker_fixture))
        yield broker
        broker.reset()

    return kwire_secure_fixture


def given_properties(config: pytest.Config) -> dict[str, str]:
    """The properties of ``--kwire-set`` and of ``kwire_set`` in the ini file; the command line takes precedence."""
    properties: dict[str, str] = {}
    for text in (*config.getini("kwire_set"), *config.getoption("kwire_set")):
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(f"--kwire-set {text!r} is not NAME=VALUE")
        properties[name.strip()] = value.strip()
    return properties


def given_bootstrap(config: pytest.Config) -> str:
    """The value of ``--kwire-bootstrap`` or of ``kwire_bootstrap`` in the ini file; "" for neither."""
    address: Any = config.getoption("kwire_bootstrap") or config.getini("kwire_bootstrap")
    return str(address)


def _require_answer(address: str) -> None:
    from kwire.codec.messages.metadata_request import MetadataRequest
    from kwire.testing.blocking_client import BlockingClient

    try:
        with BlockingClient(address) as client:
            client.call(MetadataRequest(topics=[]), 9)
    except (OSError, ValueError) as error:
        pytest.fail(f"kwire_noproc: no Kafka broker answers at {address}: {error}", pytrace=False)
