"""Fixtures of the compatibility tests: one started broker per kind, fresh topics, and the comparison of both kinds.

A test that takes `broker` runs once on each kind that ``--broker`` names (default: both), Apache Kafka first. Tests
share the broker of their kind; one that needs other settings starts its own with `broker_factory`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from compat_tests.suites.suite import CannotBuild
from harness.java_runner import JavaRunner
from harness.kafka_jars import why_no_java
from harness.observations import Observations, folder, started_ms
from harness.processes.brokers import KINDS, Broker, make_broker, wait_until

ON_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")
started_ms()  # before this process starts others
_KIND = re.compile(rf"\[({'|'.join(KINDS)})(?:-|(?=\]))")  # the first parameter of a test that takes a broker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker", choices=("kwire", "kafka", "both"), default="both", help="which broker to test against"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "java: needs Java; skips by name where there is none, fails on CI")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "broker_kind" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--broker")
        kinds = [kind for kind in KINDS if chosen in (kind, "both")]
        marks = {"kafka": [pytest.mark.java], "kwire": []}
        parameters = [pytest.param(kind, marks=marks[kind]) for kind in kinds]
        metafunc.parametrize("broker_kind", parameters, scope="session")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``-n 2``, one process has all tests on kwire and one all on Apache Kafka, so that each starts one broker;
    other tests go by file to whoever has time."""
    from xdist.scheduler import LoadScopeScheduling

    class ByKind(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            kind = _KIND.search(nodeid)
            return kind[1] if kind else nodeid.partition("::")[0]

    return ByKind(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # What a client library warns of, or forgets to close, is its own affair.
        for warning in ("ResourceWarning", "DeprecationWarning", "pytest.PytestUnraisableExceptionWarning"):
            item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(150))


def need(reason: str | None) -> None:
    """Skip by name for what this machine lacks; on CI everything must be there, so fail."""
    if reason is None:
        return
    if ON_CI:
        pytest.fail(f"{reason}; on CI this may not be skipped", pytrace=False)
    pytest.skip(reason)


def need_built(build: Callable[[], object]) -> None:
    """Build another project's suite (once); `need` what its building lacks."""
    try:
        build()
    except CannotBuild as reason:
        need(str(reason))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("java"):
        need(why_no_java())


@pytest.fixture(scope="session")
def broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The started broker of the kind under test, shared by the session. A test may restart it, never leave it down."""
    shared = make_broker(broker_kind, tmp_path_factory.mktemp(f"broker-{broker_kind}"))
    try:
        shared.start()
        yield shared
    finally:
        shared.kill()


@pytest.fixture(autouse=True)
def _broker_is_up(request: pytest.FixtureRequest) -> None:
    """A test that left the shared broker down must not fail the next one."""
    if "broker" in request.fixturenames:
        shared: Broker = request.getfixturevalue("broker")
        if not shared.is_running():
            shared.start()


@pytest.fixture
def broker_factory(broker_kind: str, tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """``broker_factory(settings={...}, data_dir=None) -> Broker``: a started broker of this test alone."""
    started: list[Broker] = []

    def start(settings: Mapping[str, str] | None = None, data_dir: Path | None = None) -> Broker:
        own = make_broker(broker_kind, tmp_path / f"own-{len(started)}", settings, data_dir)
        started.append(own)
        own.start()
        return own

    yield start
    for own in started:
        own.kill()


class Names:
    """Fresh names, the same for both kinds: made of the test's name and a count."""

    def __init__(self, test: str) -> None:
        self._test = test
        self._count = 0

    def __call__(self, prefix: str = "t") -> str:
        self._count += 1
        return f"{prefix}-{self._test}-{self._count}"


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Names:
    """``new_name("group")``: a name nobody has used, equal on both kinds, so that observations can hold it."""
    plain = _without_kind(request.node.nodeid.partition("::")[2])
    digest = hashlib.sha256(plain.encode()).hexdigest()[:6]  # [-1] and [1] are two tests
    return Names(re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:110] + f"-{digest}")


@pytest.fixture
def topic(new_name: Names) -> str:
    """A topic name nobody has used; the topic does not exist yet."""
    return new_name("topic")


@pytest.fixture
def admin(broker: Broker) -> Iterator[Any]:
    """confluent-kafka's AdminClient on the broker under test."""
    from confluent_kafka.admin import AdminClient

    yield AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


@pytest.fixture
def make_topic(admin: Any, new_name: Names) -> Callable[..., str]:
    """``make_topic(partitions=1, configs={...}, name=None) -> name``: create a topic and wait until it is there."""

    def make(partitions: int = 1, configs: Mapping[str, str] | None = None, name: str | None = None) -> str:
        from confluent_kafka.admin import NewTopic

        chosen = name or new_name("topic")
        new = NewTopic(chosen, num_partitions=partitions, replication_factor=1, config=dict(configs or {}))
        admin.create_topics([new], operation_timeout=30)[chosen].result(30)
        wait_until(lambda: _is_there(admin, chosen, partitions), 30, f"topic {chosen}")
        return chosen

    return make


def _is_there(admin: Any, topic: str, partitions: int) -> bool:
    """Has the broker heard of the topic that its controller created, and does it lead all partitions?"""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    found = admin.list_topics(topic, timeout=20).topics[topic]
    if found.error is not None or len(found.partitions) != partitions:
        return False
    wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
    try:
        for answer in admin.list_offsets(wanted, request_timeout=20).values():
            answer.result(20)
    except KafkaException:
        return False
    return True


@pytest.fixture
def observe(request: pytest.FixtureRequest, broker_kind: str) -> Observations:
    """``observe(name, value)``: record plain data; the second broker kind must see the same."""
    return Observations(folder(), _without_kind(request.node.nodeid), broker_kind)


def _without_kind(nodeid: str) -> str:
    """The test's id with the broker kind, the first parameter, taken out of the brackets."""
    return _KIND.sub("[", nodeid)


@pytest.fixture(scope="session")
def java() -> Iterator[JavaRunner]:
    """Kafka's tools and Java clients in one JVM; skips by name where there is no Java."""
    need(why_no_java())
    runner = JavaRunner()
    yield runner
    runner.close()
