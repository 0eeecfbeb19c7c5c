"""Kafka's `AclCommand` and `ConfigCommand` with access control: their output is the same on both brokers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from compat_tests.clients.access.least import LISTENER, PRINCIPAL, login
from compat_tests.comparisons.access.acls import CLUSTER, DESCRIBE, TOPIC, Acl, Acls
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.secured import SecuredBroker

pytestmark = pytest.mark.java

_REFUSED: Final = re.compile(r"(ClusterAuthorizationException): \S.*")
"""Apache Kafka says "Cluster authorization failed.", or which permission is needed by a request, with its fields."""

ALICE: Final = ("--allow-principal", "User:alice")
BOB: Final = ("--deny-principal", "User:bob")
PREFIXED: Final = ("--resource-pattern-type", "prefixed")
TOPIC_T: Final = ("--topic", "t")
FORMS: Final = {
    "all operations": (*ALICE, *TOPIC_T),
    "operations": (*ALICE, "--operation", "Read", "--operation", "Write", *TOPIC_T),
    "principals": (*ALICE, "--allow-principal", "User:carol", *BOB, "--operation", "DescribeConfigs", *TOPIC_T),
    "hosts": (*ALICE, "--allow-host", "10.0.0.1", "--allow-host", "10.0.0.2", "--operation", "Read", *TOPIC_T),
    "denied hosts": (*ALICE, *BOB, "--deny-host", "10.0.0.3", "--operation", "Delete", *TOPIC_T),
    "everybody": ("--allow-principal", "User:*", "--operation", "Describe", "--topic", "*"),
    "resources": (*ALICE, "--operation", "Describe", *TOPIC_T, "--topic", "u", "--group", "g"),
    "prefix": (*ALICE, "--operation", "Read", *TOPIC_T, "--group", "*", *PREFIXED),
    "producer": (*ALICE, "--producer", *TOPIC_T),
    "transactional producer": (*ALICE, "--producer", *TOPIC_T, "--transactional-id", "x", "--idempotent"),
    "prefixed producer": (*ALICE, "--producer", *TOPIC_T, "--transactional-id", "x", *PREFIXED),
    "consumer": (*ALICE, "--consumer", *TOPIC_T, "--group", "g"),
    "both": (*ALICE, "--producer", "--consumer", *TOPIC_T, "--group", "g"),
    "cluster": (*ALICE, "--cluster", "--operation", "ClusterAction", "--operation", "IdempotentWrite"),
    "transactional id": (*ALICE, "--transactional-id", "x", "--operation", "Describe"),
    "delegation token": (*ALICE, "--delegation-token", "d", "--operation", "Describe"),
    "user": (*ALICE, "--user-principal", "User:bob", "--operation", "CreateTokens"),
    "a name of many kinds": ("--allow-principal", "User:CN=a,O=b", "--operation", "Read", "--topic", "a-b_c.d"),
}
WRONG: Final = {
    "no action": TOPIC_T,
    "two actions": ("--add", "--list", *ALICE, *TOPIC_T),
    "no principal": ("--add", *TOPIC_T),
    "no resource": ("--add", *ALICE),
    "a principal without a type": ("--add", "--allow-principal", "alice", *TOPIC_T),
    "a host without a principal": ("--add", *ALICE, "--deny-host", "10.0.0.1", *TOPIC_T),
    "a consumer without a group": ("--add", *ALICE, "--consumer", *TOPIC_T),
    "a producer with an operation": ("--add", *ALICE, "--producer", "--operation", "Read", *TOPIC_T),
    "added to any pattern": ("--add", *ALICE, *TOPIC_T, "--resource-pattern-type", "any"),
    "unknown pattern": ("--list", *TOPIC_T, "--resource-pattern-type", "suffixed"),
    "unknown option": ("--list", "--everything"),
    "no name": ("--add", *ALICE, "--operation", "Read", "--topic", ""),
}


class Tools:
    """The tools as a super user, or with ``login`` (their arguments for it) as somebody else."""

    def __init__(self, java: JavaRunner, bootstrap: str, login: tuple[str, ...] = ()) -> None:
        self._java = java
        self._bootstrap = bootstrap
        self._arguments = ("--bootstrap-server", bootstrap, *login)

    def acls(self, *arguments: str) -> list[str]:
        """The lines of AclCommand, without those of Java's stack and of ACLs that are there afterwards: Apache Kafka
        may still be without what was just added. Neither broker promises their order."""
        result = self._java.tool("AclCommand", *self._arguments, *arguments)
        out = result.out.partition("Current ACLs")[0] if "--add" in arguments else result.out
        return [*sorted(self._lines(out)), *self._lines(result.err), f"status {result.status}"]

    def configs(self, *arguments: str) -> list[str]:
        """The lines of ConfigCommand."""
        result = self._java.tool("ConfigCommand", *self._arguments, *arguments)
        return [*self._lines(result.out), *self._lines(result.err), f"status {result.status}"]

    def _lines(self, text: str) -> list[str]:
        lines = [re.sub(r"\s+", " ", line.strip()) for line in text.splitlines()]
        shown = [line for line in lines if line and "WARN" not in line and not re.match(r"at |\.\.\. \d+ more", line)]
        for argument in self._arguments:
            shown = [line.replace(argument, "ARGUMENT") for line in shown]
        return [_REFUSED.sub(r"\1", line) for line in shown]


@pytest.fixture
def tools(java: JavaRunner, guarded: SecuredBroker) -> Tools:
    """The tools as a super user."""
    return Tools(java, guarded.bootstrap)


@pytest.fixture
def alices(java: JavaRunner, guarded: SecuredBroker, tmp_path: Path) -> Tools:
    """The tools as alice, who may do what ACLs allow."""
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in login("java", guarded).items()))
    return Tools(java, guarded.address(LISTENER), ("--command-config", str(properties)))


@pytest.mark.parametrize("form", FORMS)
def test_acls_are_added_and_removed(tools: Tools, acls: Acls, observe: Observations, form: str) -> None:
    added = tools.acls("--add", *FORMS[form])
    observe("add", added)
    acls.await_number(len([line for line in added if line.startswith("(principal=")]))
    observe("there", acls.describe())
    observe("remove", tools.acls("--remove", "--force", *FORMS[form]))
    acls.await_number(0)


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_commands(tools: Tools, acls: Acls, observe: Observations, wrong: str) -> None:
    observe("refused", tools.acls(*WRONG[wrong]))
    observe("nothing", acls.describe())


def test_acls_are_listed_and_removed_by_filters(tools: Tools, acls: Acls, observe: Observations) -> None:
    for form in ("principals", "prefix", "consumer", "everybody"):
        tools.acls("--add", *FORMS[form])
    acls.await_number(9)
    for arguments in (
        (),
        TOPIC_T,
        ("--topic", "tea", "--resource-pattern-type", "match"),
        ("--topic", "tea", "--resource-pattern-type", "any"),
        (*TOPIC_T, *PREFIXED),
        ("--topic", "*"),
        ("--group", "g", "--resource-pattern-type", "any"),
        ("--principal", "User:bob"),
        ("--principal", "User:bob", "--principal", "User:carol", *TOPIC_T),
        ("--cluster",),
    ):
        observe(" ".join(("list", *arguments)), tools.acls("--list", *arguments))
    observe("remove nothing", tools.acls("--remove", "--force", "--topic", "absent"))
    observe("remove a principal", tools.acls("--remove", "--force", *BOB, "--operation", "DescribeConfigs", *TOPIC_T))
    acls.await_number(8)
    observe("remove what matches", tools.acls("--remove", "--force", *TOPIC_T, "--resource-pattern-type", "match"))
    acls.await_number(2)
    observe("remove groups", tools.acls("--remove", "--force", "--group", "g"))
    acls.await_number(1)
    observe("left", tools.acls("--list"))


def test_who_may_not_is_refused(tools: Tools, alices: Tools, acls: Acls, observe: Observations) -> None:
    observe("list", alices.acls("--list"))
    observe("add", alices.acls("--add", *FORMS["producer"]))
    observe("remove", alices.acls("--remove", "--force", *TOPIC_T))
    acls.create(Acl(CLUSTER, "kafka-cluster", principal=PRINCIPAL, operation=DESCRIBE))
    observe("may list", alices.acls("--list"))
    observe("may not add", alices.acls("--add", *FORMS["producer"]))


def test_who_may_not_change_configurations_is_refused(
    tools: Tools, alices: Tools, acls: Acls, observe: Observations
) -> None:
    scram, name = "SCRAM-SHA-256=[iterations=4096,password=x]", "refused-user"
    user = ("--entity-type", "users", "--entity-name", name)
    observe("a user", alices.configs("--alter", *user, "--add-config", scram))
    observe("a user's credentials", alices.configs("--describe", *user))
    observe("no credentials", alices.configs("--alter", *user, "--delete-config", "SCRAM-SHA-256"))
    observe(
        "default user", tools.configs("--alter", "--entity-type", "users", "--entity-default", "--add-config", scram)
    )
    topic = ("--entity-type", "topics", "--entity-name", "__consumer_offsets")
    observe("a topic", alices.configs("--alter", *topic, "--add-config", "retention.ms=1000"))
    observe("a topic's configuration", alices.configs("--describe", *topic))
    acls.create(Acl(TOPIC, "__consumer_offsets", principal=PRINCIPAL, operation=DESCRIBE))
    observe("a topic that it knows", alices.configs("--alter", *topic, "--add-config", "retention.ms=1000"))
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    observe("a broker", alices.configs("--alter", *broker, "--add-config", "log.cleaner.threads=2"))
    observe("a broker's configuration", alices.configs("--describe", *broker))
    observe("a group", alices.configs("--describe", "--entity-type", "groups", "--entity-name", "g"))
