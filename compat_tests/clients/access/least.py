"""An application is tried with all the ACLs that it needs, then with each of them missing and with each denied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from compat_tests.clients.security.options import options_of
from compat_tests.clients.security.test_logins import security_for
from compat_tests.comparisons.access.acls import DENY, Acl, Acls
from harness.processes.secured import SecuredBroker
from harness.waiting import PATIENCE_S

USER: Final = "alice"
PRINCIPAL: Final = f"User:{USER}"
LISTENER: Final = "SASL_PLAINTEXT"
DONE: Final = "done"


def login(client: str, guarded: SecuredBroker) -> dict[str, Any]:
    """The options with which a client logs in as `USER` at `LISTENER`."""
    return options_of(client, security_for(guarded, LISTENER, "PLAIN", USER))


def fill(guarded: SecuredBroker, *topics: str) -> None:
    """Produce a record to each topic, as a super user; a topic that is not there is created."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": guarded.bootstrap, "broker.address.family": "v4"})
    for topic in topics:
        producer.produce(topic, b"value", partition=0)
    assert producer.flush(PATIENCE_S) == 0


def with_one_less(acls: Acls, needed: Mapping[str, Acl], attempt: Callable[[], str]) -> dict[str, str]:
    """What the attempt says with all ACLs (``"all"``), and without each."""
    acls.clear()
    acls.create(*needed.values())
    told = {"all": attempt()}
    for name, entry in needed.items():
        acls.delete(entry)
        told[name] = attempt()
        acls.create(entry)
    return told


def with_one_denied(acls: Acls, needed: Mapping[str, Acl], attempt: Callable[[], str]) -> dict[str, str]:
    """What the attempt says when one operation is denied that is allowed as well."""
    acls.clear()
    acls.create(*needed.values())
    told = {}
    for name, entry in needed.items():
        denied = entry._replace(permission=DENY)
        acls.create(denied)
        told[name] = attempt()
        acls.delete(denied)
    return told
