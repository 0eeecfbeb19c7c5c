"""Fixtures of the comparisons of access control: a broker with an authorizer, and its administrator's connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.comparisons.access.acls import Acls
from compat_tests.comparisons.admin.requests import Wire
from compat_tests.servers import running
from harness.processes.secured import SecuredBroker, make_secured

AUTHORIZER = {
    "delegation.token.secret.key": "the secret of the tests",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}


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
