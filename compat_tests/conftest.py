"""Fixtures of the compatibility tests: a started broker of each kind, fresh topics, and the comparison of both kinds.

A test that takes `broker` runs once on each kind that ``--broker`` selects (default: both), Apache Kafka first. Tests
share the broker of their kind; a test that needs other settings starts its own broker with `broker_factory`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from compat_tests.comparisons.access.acls import LASTING_SESSIONS, Acls
from compat_tests.comparisons.admin.requests import Wire
from compat_tests.names import Names
from compat_tests.needs import need
from compat_tests.servers import running
from harness.java_runner import JavaRunner
from harness.kafka_jars import why_no_java
from harness.observations import Observations, folder, started_ms
from harness.processes.brokers import KINDS, Broker, make_broker, wait_until
from harness.processes.secured import SecuredBroker, make_secured

AUTHORIZER = {
    "delegation.token.secret.key": "the secret of the tests",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    **LASTING_SESSIONS,
}
TIMEOUT_S = 600  # what hangs must end; a test on a busy machine may take ten times as long as on an idle one

started_ms()  # before this process starts the workers
_KIND = re.compile(rf"\[({'|'.join(KINDS)})(?:-|(?=\]))")  # the first parameter of a test that takes a broker


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--broker``."""
    parser.addoption(
        "--broker", choices=("kwire", "kafka", "both"), default="both", help="which broker to test against"
    )
    parser.addoption(
        "--every-case",
        action="store_true",
        help="all ported cases of Spark's suites, what is marked `long`, and on Apache Kafka what is `long_on_kafka`",
    )
    parser.addoption(
        "--every-set",
        action="store_true",
        help="test_through_another_broker.py: every set of ACLs also for what each broker handles by itself",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.addinivalue_line("markers", "java: needs Java; skips by name where there is none, fails on CI")
    config.addinivalue_line("markers", "long: only with --every-case")
    config.addinivalue_line("markers", "long_on_kafka: on Apache Kafka only with --every-case")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that takes a broker once per kind."""
    if "broker_kind" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--broker")
        kinds = [kind for kind in KINDS if chosen in (kind, "both")]
        marks = {"kafka": [pytest.mark.java], "kwire": []}
        parameters = [pytest.param(kind, marks=marks[kind]) for kind in kinds]
        metafunc.parametrize("broker_kind", parameters, scope="session")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``-n 3``, one worker runs all tests on kwire and another all on Apache Kafka; so each starts one broker.
    The remaining tests are distributed by file."""
    from xdist.scheduler import LoadScopeScheduling

    class ByKind(LoadScopeScheduling):  # type: ignore[misc] # pytest-xdist has no type annotations
        def _split_scope(self, nodeid: str) -> str:
            kind = _KIND.search(nodeid)
            return kind[1] if kind else nodeid.partition("::")[0]

    return ByKind(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long; run the comparisons first; ignore warnings of client libraries; set
    the default timeout."""
    if not config.getoption("--every-case"):
        left_out = [
            item
            for item in items
            if item.get_closest_marker("long")
            or (item.get_closest_marker("long_on_kafka") and _kind_of(item) == "kafka")
        ]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    # On a broker that no test has restarted yet: what is compared includes leader epochs, which count restarts.
    items.sort(key=lambda item: "/comparisons/" not in item.nodeid)
    for item in items:
        # Warnings and unclosed resources of client libraries are no failures of kwire.
        for warning in ("ResourceWarning", "DeprecationWarning", "pytest.PytestUnraisableExceptionWarning"):
            item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


def _kind_of(item: pytest.Item) -> object:
    return (
        item.callspec.params.get("broker_kind")
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else None
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of the marker `java` without Java."""
    if item.get_closest_marker("java"):
        need(why_no_java())


@pytest.fixture(scope="session")
def broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The started broker of the kind under test, shared by the session. Tests may restart it but not leave it down."""
    shared = make_broker(broker_kind, tmp_path_factory.mktemp(f"broker-{broker_kind}"))
    with running(shared, shared.kill):
        yield shared


@pytest.fixture(scope="session")
def secured(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The started broker with secured listeners, certificates and users, shared by the session."""
    tokens = {"delegation.token.secret.key": "the secret of the tests"}
    shared = make_secured(broker_kind, tmp_path_factory.mktemp(f"secured-{broker_kind}"), tokens)
    with running(shared, shared.kill):
        yield shared


@pytest.fixture(scope="session")
def guarded(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The started broker with an authorizer and all listeners, shared by the session. Who connects to PLAINTEXT is a
    super user."""
    shared = make_secured(broker_kind, tmp_path_factory.mktemp(f"guarded-{broker_kind}"), AUTHORIZER)
    with running(shared, shared.kill):
        yield shared


@pytest.fixture
def acls(guarded: SecuredBroker) -> Iterator[Acls]:
    """The administrator's requests for ACLs. There are none at the beginning."""
    wire = Wire(guarded.bootstrap)
    both = Acls(wire)
    both.clear()
    yield both
    wire.close()


@pytest.fixture(autouse=True)
def _broker_is_up(request: pytest.FixtureRequest) -> None:
    """Start the shared broker again if the previous test left it down."""
    if "broker" in request.fixturenames:
        shared: Broker = request.getfixturevalue("broker")
        if not shared.is_running():
            shared.start()


@pytest.fixture
def broker_factory(broker_kind: str, tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """``broker_factory(settings={...}, data_dir=None) -> Broker``: a started broker for this test only."""
    started: list[Broker] = []

    def start(settings: Mapping[str, str] | None = None, data_dir: Path | None = None) -> Broker:
        own = make_broker(broker_kind, tmp_path / f"own-{len(started)}", settings, data_dir)
        started.append(own)
        own.start()
        return own

    yield start
    for own in started:
        own.kill()


@pytest.fixture
def new_name(request: pytest.FixtureRequest) -> Names:
    """``new_name("group")``: an unused name, the same on both kinds, so that observations may contain it."""
    node = _without_kind(request.node.nodeid)
    plain = node.partition("::")[2]
    digest = hashlib.sha256(node.encode()).hexdigest()[:6]  # two files may have a test of one name; [-1] and [1] differ
    return Names(re.sub(r"[^A-Za-z0-9]+", "-", plain).strip("-")[:110] + f"-{digest}")


@pytest.fixture
def topic(new_name: Names) -> str:
    """An unused topic name; the topic does not exist yet."""
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
    """Whether the broker's metadata has the topic, and it leads all partitions."""
    from confluent_kafka import KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    found = admin.list_topics(topic, timeout=20).topics[topic]
    if found.error is not None or len(found.partitions) != partitions:
        return False
    wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
    try:
        for future in admin.list_offsets(wanted, request_timeout=20).values():
            future.result(20)
    except KafkaException:
        return False
    return True


@pytest.fixture
def observe(request: pytest.FixtureRequest, broker_kind: str) -> Observations:
    """``observe(name, value)``: record plain data; the second broker kind must see the same."""
    return Observations(folder(), _without_kind(request.node.nodeid), broker_kind)


def _without_kind(nodeid: str) -> str:
    """The test's id without the broker kind, which is the first parameter in the brackets."""
    return _KIND.sub("[", nodeid)


@pytest.fixture(scope="session")
def java() -> Iterator[JavaRunner]:
    """Kafka's tools and Java clients in one JVM; skips by name without Java."""
    need(why_no_java())
    runner = JavaRunner()
    yield runner
    runner.close()
