"""A Connect worker with the ACLs that it needs: for its group, its topics and its transactions. The sink's task fails
without its own group and runs once it may read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.clients.access.least import LISTENER, PRINCIPAL, login
from compat_tests.clients.languages.test_connect import PATIENCE_S, Worker, append, lines
from compat_tests.comparisons.access.acls import (
    CREATE,
    GROUP,
    PREFIXED,
    READ,
    TRANSACTIONAL_ID,
    WRITE,
    Acl,
    Acls,
)
from compat_tests.names import Names
from harness.processes.brokers import wait_until
from harness.processes.secured import SecuredBroker

pytestmark = pytest.mark.java

SINK, SOURCE = "lines-out", "lines-in"


def test_a_worker_and_its_connectors(guarded: SecuredBroker, acls: Acls, new_name: Names, tmp_path: Path) -> None:
    topic, group = new_name("lines"), new_name("connect")[-40:]
    acls.create(*worker_needs(group), *connectors_need(group, topic))
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    append(source, 0, 10)
    worker = Worker(guarded.address(LISTENER), group, tmp_path, login("java", guarded))
    try:
        worker.start()
        worker.configure(SOURCE, {"connector.class": "FileStreamSource", "file": str(source), "topic": topic})
        config = {"connector.class": "FileStreamSink", "file": str(sink), "topics": topic}
        path = f"/connectors/{SINK}"
        wait_until(lambda: worker.ask("PUT", f"{path}/config", config) is not None, PATIENCE_S, "the sink", 0.2)

        def failed() -> bool:
            tasks = (worker.ask("GET", f"{path}/status") or {"tasks": []})["tasks"]
            return any("GroupAuthorizationException" in task.get("trace", "") for task in tasks)

        wait_until(failed, PATIENCE_S, "the sink's refusal", interval_s=0.2)
        acls.create(reads(GROUP, f"connect-{SINK}"))
        worker.ask("POST", f"{path}/tasks/0/restart")
        wait_until(lambda: len(lines(sink)) == 10, PATIENCE_S, "the lines in the sink")
    finally:
        worker.kill()


def worker_needs(group: str) -> list[Acl]:
    """For the worker itself: its group, its three topics and the leader's transactions."""
    own = Acl(name=f"{group}-", pattern=PREFIXED, principal=PRINCIPAL)
    topics = [own._replace(operation=each) for each in (READ, WRITE, CREATE)]
    return [reads(GROUP, group), *topics, *transactions(group)]


def transactions(group: str) -> list[Acl]:
    """For the leader, and for the source's tasks."""
    leader = Acl(TRANSACTIONAL_ID, f"connect-cluster-{group}", principal=PRINCIPAL, operation=WRITE)
    return [leader, leader._replace(name=f"{group}-{SOURCE}-", pattern=PREFIXED)]


def connectors_need(group: str, topic: str) -> list[Acl]:
    """For the topic between source and sink."""
    between = Acl(name=topic, principal=PRINCIPAL)
    return [between._replace(operation=each) for each in (READ, WRITE, CREATE)]


def reads(resource_type: int, name: str) -> Acl:
    return Acl(resource_type, name, principal=PRINCIPAL, operation=READ)
