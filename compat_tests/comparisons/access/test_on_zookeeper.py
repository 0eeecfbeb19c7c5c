"""Access control on three brokers of kwire on ZooKeeper: the answers are those of brokers on an embedded store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from compat_tests.comparisons.access.acls import Acls
from compat_tests.comparisons.access.answers import PLACES, VARIABLE, answers_with_every_set, log_in_as_alice
from compat_tests.comparisons.access.requests import CASES, Case
from compat_tests.comparisons.access.three import CONTROLLER, GuardedThree
from compat_tests.comparisons.admin.requests import Wire
from compat_tests.needs import need
from compat_tests.servers import running
from harness.kafka_jars import why_no_java
from harness.processes.zookeeper import ZooKeeper

TITLES = (
    "create_topics-v7",
    "delete_topics-v6-cluster",
    "metadata-v13-automatic",
    "alter_configs-v2",
    "incremental_alter_configs-v1",
    "create_acls-v3",
    "delete_acls-v3",
    "alter_user_scram_credentials-v0",
    "elect_leaders-v2",
    "unregister_broker-v0",
    "produce-v9",
    "fetch-v12-replica",
)
SELECTED = [case for case in CASES if case.title in TITLES]

pytestmark = pytest.mark.java

Prepared = tuple[GuardedThree, dict[str, bytes]]


@pytest.fixture(scope="module")
def on_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """Brokers on ZooKeeper, and the ids of their topics."""
    need(why_no_java())
    home = tmp_path_factory.mktemp("guarded-on-zookeeper")
    server = ZooKeeper(home / "zookeeper")
    with running(server, server.stop):
        three = GuardedThree("kwire", home, {"zookeeper.connect": f"{server.address}/guarded"})
        with running(three, three.stop):
            yield three, three.prepare()


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """Brokers on a store of their own, and the ids of their topics."""
    three = GuardedThree("kwire", tmp_path_factory.mktemp("guarded-embedded"))
    with running(three, three.stop):
        yield three, three.prepare()


def answers(prepared: Prepared, case: Case) -> dict[str, object]:
    three, ids = prepared
    with (
        closing(Wire(three.bootstrap)) as wire,
        closing(Wire(three.address("PLAINTEXT", CONTROLLER))) as controller,
        log_in_as_alice(three.address("SASL_PLAINTEXT")) as alice,
    ):
        acls = Acls(wire, controller)
        return dict(answers_with_every_set(case, ids, wire, acls, alice, VARIABLE | PLACES))


def test_there_is_a_case_of_each_title() -> None:
    assert {case.title for case in SELECTED} == set(TITLES)


@pytest.mark.parametrize("case", SELECTED, ids=lambda case: case.title)
def test_answers_on_zookeeper(on_zookeeper: Prepared, embedded: Prepared, case: Case) -> None:
    assert answers(on_zookeeper, case) == answers(embedded, case)
