"""`kwire acl`, `kwire user` and `kwire quota` with ``--bootstrap-server``, on both brokers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.comparisons.access.acls import Acls
from compat_tests.comparisons.admin.requests import Wire
from compat_tests.comparisons.configs.quotas import Quotas
from harness.observations import Observations
from harness.processes.brokers import wait_until
from harness.processes.secured import SecuredBroker

LIMIT_S = 60
USER = "command-user"


class Command:
    """The ``kwire`` command for one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *arguments: str) -> list[object]:
        """Exit status, standard output and standard error; the address is taken out, since it is the broker's own."""
        words = [sys.executable, "-m", "kwire", *arguments, "--bootstrap-server", self.bootstrap]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return [done.returncode, done.stdout, done.stderr.replace(self.bootstrap, "ADDRESS")]


@pytest.fixture
def kwire(guarded: SecuredBroker) -> Command:
    return Command(guarded.bootstrap)


@pytest.fixture
def quotas(guarded: SecuredBroker) -> Iterator[Quotas]:
    """The administrator's requests for quotas. There are none at the beginning and at the end."""
    wire = Wire(guarded.bootstrap)
    made = Quotas(wire)
    made.clear()
    yield made
    made.clear()
    wire.close()


@pytest.fixture
def users(kwire: Command) -> Iterator[Command]:
    yield kwire
    kwire("user", "delete", USER)


def test_acls_are_added_listed_and_removed(kwire: Command, acls: Acls, observe: Observations) -> None:
    read = ("--operation", "read", "--topic", "orders")
    added = kwire("acl", "add", "User:alice", *read, "--group", "billing")
    assert added[1].splitlines()[0] == (  # type: ignore[attr-defined]
        "kwire added principal=User:alice host=* permission=allow operation=read resource=topic pattern=literal"
        " name=orders"
    )
    observe("added", added)
    acls.await_number(2)
    observe("added again", kwire("acl", "add", "User:alice", *read))
    observe("prefixed", kwire("acl", "add", "User:bob", *read, "--prefixed", "--deny", "--host", "10.0.0.1"))
    acls.await_number(3)
    for arguments in ((), ("--json",), ("User:bob",), ("--topic", "orders"), ("--deny",), ("--group", "nothing")):
        observe(f"listed {arguments}", kwire("acl", "list", *arguments))
    observe("removed", kwire("acl", "remove", "User:alice", "--topic", "orders"))
    acls.await_number(2)
    observe("nothing to remove", kwire("acl", "remove", "User:nobody"))
    observe("for programs", kwire("acl", "add", "User:carol", *read, "-o", "json"))
    acls.await_number(3)
    observe("removed for programs", kwire("acl", "remove", "User:carol", "-o", "yaml"))
    acls.await_number(2)
    observe("all", kwire("acl", "remove", "--all"))
    acls.await_number(0)
    observe("listed at last", kwire("acl", "list"))


def listed(users: Command) -> list[str]:
    """The lines of ``kwire user list``."""
    return str(users("user", "list")[1]).splitlines()


def test_users_are_added_listed_and_deleted(users: Command, observe: Observations) -> None:
    lines = [f"kwire added user={USER} mechanism=SCRAM-SHA-{size}\n" for size in (256, 512)]
    assert users("user", "add", USER, "--password", "secret") == [0, "".join(lines), ""]
    there = [f"{USER} SCRAM-SHA-{size} iterations=4096" for size in (256, 512)]
    wait_until(lambda: [line for line in listed(users) if line.startswith(USER)] == there, 20, "the user is listed")
    observe("one deleted", users("user", "delete", USER, "--mechanism", "SCRAM-SHA-256"))
    observe("the other deleted", users("user", "delete", USER))
    observe("for programs", users("user", "add", USER, "--password", "x", "--mechanism", "SCRAM-SHA-256", "-o", "json"))
    wait_until(lambda: len([line for line in listed(users) if line.startswith(USER)]) == 1, 20, "it is listed")
    observe("deleted for programs", users("user", "delete", USER, "-o", "jsonl"))
    observe("none left", users("user", "delete", USER)[:2])
    observe("too few iterations", users("user", "add", USER, "--password", "x", "--iterations", "5"))
    observe("no password", users("user", "add", USER, "--password", ""))


def test_quotas_are_added_listed_and_removed(kwire: Command, quotas: Quotas, observe: Observations) -> None:
    def alter(name: str, number: int, *arguments: str) -> None:
        observe(name, kwire("quota", *arguments))
        wait_until(lambda: len(quotas.describe()[2]) == number, 20, f"{number} entities")

    limits = ("producer_byte_rate=1e9", "request_percentage=12345.5")
    alter("added", 1, "add", "--user", "alice", *limits)
    alter("both", 2, "add", "--user", "alice", "--default-client-id", "consumer_byte_rate=2e9")
    alter("an address", 3, "add", "--default-ip", "connection_creation_rate=100000")
    for chosen in ((), ("--json",), ("--user", "alice"), ("--default-client-id",), ("--user", "nobody")):
        observe(f"listed {chosen}", kwire("quota", "list", *chosen))
    for wrong in (("--user", "", "producer_byte_rate=1"), ("--ip", "x/y", "connection_creation_rate=1")):
        observe(f"refused {wrong}", kwire("quota", "add", *wrong))
    observe("one removed", kwire("quota", "remove", "--user", "alice", "producer_byte_rate"))
    wait_until(lambda: "producer_byte_rate" not in str(quotas.describe()), 20, "one limit less")
    alter("all of alice's removed", 2, "remove", "--user", "alice")
    alter("for programs", 3, "add", "--user", "alice", "producer_byte_rate=1e9", "-o", "json")
    alter("removed for programs", 2, "remove", "--user", "alice", "-o", "jsonl")
    observe("nothing to remove", kwire("quota", "remove", "--user", "alice"))


def test_a_login_that_is_not_allowed_to_alter_is_told_so(
    guarded: SecuredBroker, tmp_path: Path, observe: Observations
) -> None:
    client = tmp_path / "client.properties"
    client.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="alice" password="alice-secret";\n'
    )
    kwire = Command(guarded.address("SASL_PLAINTEXT"))
    with_login = ("--command-config", str(client))
    observe("acl", kwire("acl", "list", *with_login))
    observe("user", kwire("user", "add", USER, "--password", "x", *with_login))
    observe("deleted user", kwire("user", "delete", USER, *with_login))
    observe("quotas", kwire("quota", "list", *with_login))
    observe("quota", kwire("quota", "add", "--default-user", "request_percentage=10000", *with_login))
    client.write_text(client.read_text().replace("alice-secret", "wrong"))
    observe("wrong password", kwire("acl", "list", *with_login))
