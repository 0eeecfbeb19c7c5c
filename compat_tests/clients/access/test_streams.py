"""A Streams application that processes exactly once, with the ACLs that it needs and without its transactional ids.

The application is that of `campaigns.streams`: it reads "words", writes "counts" and "sessions", and has topics of its
own whose names begin with its id, as do its transactional ids.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from campaigns.streams import SOURCE
from compat_tests.clients.access.least import LISTENER, PRINCIPAL, fill, login
from compat_tests.comparisons.access.acls import ALL, GROUP, PREFIXED, READ, TRANSACTIONAL_ID, WRITE, Acl, Acls
from compat_tests.reading import partition_values
from harness.kafka_jars import compile_java, java_command, streams_classpath
from harness.processes.brokers import wait_until
from harness.processes.secured import SecuredBroker

pytestmark = pytest.mark.java

ID: Final = "words"
OWN: Final = f"{ID}-"
NEEDED: Final = {
    "source": Acl(name="words", principal=PRINCIPAL, operation=READ),
    "counts": Acl(name="counts", principal=PRINCIPAL, operation=WRITE),
    "sessions": Acl(name="sessions", principal=PRINCIPAL, operation=WRITE),
    "its own topics": Acl(name=OWN, pattern=PREFIXED, principal=PRINCIPAL, operation=ALL),
    "group": Acl(GROUP, ID, principal=PRINCIPAL, operation=READ),
    "transactional ids": Acl(TRANSACTIONAL_ID, OWN, PREFIXED, principal=PRINCIPAL, operation=WRITE),
}
PROPERTIES: Final = {
    "group.protocol": "classic",
    "main.consumer.session.timeout.ms": "10000",
    "main.consumer.heartbeat.interval.ms": "1000",
}

PATIENCE_S: Final = 300
"""An application starts within seconds; on a busy machine it takes minutes."""


@contextmanager
def running(bootstrap: str, folder: Path, properties: Mapping[str, str]) -> Iterator[Path]:
    """The application; its log."""
    classes = f"{streams_classpath()}:{compile_java([SOURCE], streams_classpath)}"
    settings = [f"{name}={value}" for name, value in properties.items()]
    command = java_command("-cp", classes, "WordsApplication", bootstrap, str(folder), "200", *settings, heap="256m")
    path = folder.with_suffix(".log")
    with open(path, "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield path
    finally:
        process.kill()
        process.wait()


def test_an_application_needs_its_transactional_ids(guarded: SecuredBroker, acls: Acls, tmp_path: Path) -> None:
    fill(guarded, "words", "counts", "sessions")
    before = len(partition_values(guarded.bootstrap, "counts"))
    address, properties = guarded.address(LISTENER), {**PROPERTIES, **login("java", guarded)}
    acls.create(*(entry for what, entry in NEEDED.items() if what != "transactional ids"))
    with running(address, tmp_path / "refused", properties) as log:
        wait_until(lambda: "TransactionalIdAuthorizationException" in log.read_text(), PATIENCE_S, "a refusal")
    acls.create(NEEDED["transactional ids"])
    with running(address, tmp_path / "allowed", properties) as log:
        wait_until(lambda: len(partition_values(guarded.bootstrap, "counts")) > before, PATIENCE_S, "a word counted")
        assert "AuthorizationException" not in log.read_text()
