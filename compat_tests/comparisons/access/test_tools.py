"""Kafka's `AclCommand`: adding, listing and removing ACLs on both brokers."""

from __future__ import annotations

import re

from compat_tests.comparisons.access.acls import Acls
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.secured import SecuredBroker


def said(java: JavaRunner, guarded: SecuredBroker, *arguments: str) -> list[str]:
    """The lines of the command without their order, which neither broker promises."""
    result = java.tool("AclCommand", "--bootstrap-server", guarded.bootstrap, *arguments)
    lines = [line.strip() for line in (result.out + result.err).splitlines() if line.strip()]
    return sorted(re.sub(r"\s+", " ", line) for line in lines if "WARN" not in line)


def test_acls_are_added_listed_and_removed(
    java: JavaRunner, guarded: SecuredBroker, acls: Acls, observe: Observations
) -> None:
    alice, bob = ("--allow-principal", "User:alice"), ("--deny-principal", "User:bob")
    added = said(java, guarded, "--add", *alice, *bob, "--operation", "Read", "--topic", "orders", "--group", "billing")
    observe("added", added)
    acls.await_number(4)
    observe("a producer", said(java, guarded, "--add", *alice, "--producer", "--topic", "*", "--idempotent"))
    acls.await_number(8)
    prefixed = ("--resource-pattern-type", "prefixed")
    observe("prefixed", said(java, guarded, "--add", *alice, "--topic", "ord", *prefixed, "--allow-host", "10.0.0.1"))
    acls.await_number(9)
    observe("listed", said(java, guarded, "--list"))
    observe("of a topic", said(java, guarded, "--list", "--topic", "orders", "--resource-pattern-type", "match"))
    observe("of a principal", said(java, guarded, "--list", "--principal", "User:bob"))
    observe("removed", said(java, guarded, "--remove", "--force", "--topic", "orders"))
    acls.await_number(7)
    observe("listed again", said(java, guarded, "--list"))


def test_refused_entries(java: JavaRunner, guarded: SecuredBroker, acls: Acls, observe: Observations) -> None:
    refused = said(java, guarded, "--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "")
    observe("no name", [line for line in refused if "Exception" not in line and not line.startswith("at ")])
    observe("nothing", acls.describe())
