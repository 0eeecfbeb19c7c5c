"""An application that copies exactly once needs four ACLs; each client is told the same by both brokers without one."""

from __future__ import annotations

import pytest

from compat_tests.clients.access.copies import Work, copy_once
from compat_tests.clients.access.least import DONE, LISTENER, PRINCIPAL, fill, login, with_one_denied, with_one_less
from compat_tests.comparisons.access.acls import GROUP, READ, TRANSACTIONAL_ID, WRITE, Acl, Acls
from compat_tests.names import Names
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.secured import SecuredBroker

pytestmark = pytest.mark.java

CLIENTS = ("kafka-python", "aiokafka", "confluent", "java")


def prepared(guarded: SecuredBroker, new_name: Names, client: str) -> tuple[Work, dict[str, Acl]]:
    """Both topics, and the ACLs that a copy needs, by the names of what they are for."""
    source, target, group, transactional_id = (new_name(part) for part in ("source", "target", "group", "copier"))
    fill(guarded, source, target)
    needed = {
        "source": Acl(name=source, principal=PRINCIPAL, operation=READ),
        "group": Acl(GROUP, group, principal=PRINCIPAL, operation=READ),
        "target": Acl(name=target, principal=PRINCIPAL, operation=WRITE),
        "transactional id": Acl(TRANSACTIONAL_ID, transactional_id, principal=PRINCIPAL, operation=WRITE),
    }
    return Work(guarded.address(LISTENER), source, target, group, transactional_id, login(client, guarded)), needed


@pytest.mark.parametrize("client", CLIENTS)
def test_exactly_once_copies_fail_with_one_acl_less(
    guarded: SecuredBroker, acls: Acls, java: JavaRunner, observe: Observations, new_name: Names, client: str
) -> None:
    work, needed = prepared(guarded, new_name, client)

    def attempt() -> str:
        fill(guarded, work.source)
        return copy_once(client, work, java)

    told = with_one_less(acls, needed, attempt)
    assert told.pop("all") == DONE
    assert DONE not in told.values()
    observe("one less", told)
    observe("one denied", with_one_denied(acls, needed, attempt))
