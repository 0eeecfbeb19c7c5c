"""Kafka's `ConfigCommand` with the quotas of users, client ids and addresses: the same output on both brokers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from compat_tests.comparisons.configs.quotas import Quotas
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until

pytestmark = pytest.mark.java

Run = Callable[..., list[object]]


@pytest.fixture
def configs(java: JavaRunner, broker: Broker) -> Run:
    """``configs("--describe", ...)``: status and lines of kafka-configs. The lines are in alphabetical order, and so
    are the limits in a line: the tool has both in the order of hashes."""

    def run(*arguments: str) -> list[object]:
        done = java.tool("ConfigCommand", "--bootstrap-server", broker.bootstrap, *arguments)
        errors = [line for line in done.err.splitlines() if not re.match(r"\s+at |\s*\.\.\. \d+ more", line)]
        lines = sorted(_ordered(line) for line in done.out.splitlines())
        return [done.status, lines, [line.replace(broker.bootstrap, "ADDRESS") for line in errors]]

    return run


def _ordered(line: str) -> str:
    head, separator, limits = line.partition(" are ")
    return head + separator + ", ".join(sorted(limits.split(", ")))


USERS, CLIENTS, IPS = (("--entity-type", kind) for kind in ("users", "clients", "ips"))
ALICE, APP = ("--entity-name", "alice"), ("--entity-name", "app")
DEFAULT = ("--entity-default",)


def test_quotas_are_added_described_and_removed(configs: Run, quotas: Quotas, observe: Observations) -> None:
    def alter(name: str, *arguments: str, number: int) -> None:
        observe(name, configs("--alter", *arguments))
        wait_until(lambda: len(quotas.describe()[2]) == number, 20, f"{number} entities")

    both = "producer_byte_rate=1000000000,consumer_byte_rate=2000000000"
    alter("a user", *USERS, *ALICE, "--add-config", both, number=1)
    alter("a client id", "--client", "app", "--add-config", "request_percentage=12345.5", number=2)
    alter("both", *USERS, *ALICE, *CLIENTS, *APP, "--add-config", "controller_mutation_rate=1e6", number=3)
    alter("users", "--user-defaults", "--add-config", "producer_byte_rate=3000000000", number=4)
    alter("client ids", *CLIENTS, *DEFAULT, "--add-config", "consumer_byte_rate=3000000000", number=5)
    alter("both by default", *USERS, *DEFAULT, *CLIENTS, *DEFAULT, "--add-config", both, number=6)
    alter("an address", *IPS, "--entity-name", "127.0.0.1", "--add-config", "connection_creation_rate=100000", number=7)
    alter("addresses", "--ip-defaults", "--add-config", "connection_creation_rate=200000", number=8)
    for name, arguments in {
        "users": USERS,
        "client ids": CLIENTS,
        "addresses": IPS,
        "alice": (*USERS, *ALICE),
        "default users": (*USERS, *DEFAULT),
        "default client ids": ("--client-defaults",),
        "one address": ("--ip", "127.0.0.1"),
        "default address": ("--ip-defaults",),
        "users' client ids": (*USERS, *CLIENTS),
        "alice's client ids": (*USERS, *ALICE, *CLIENTS),
        "alice's app": ("--user", "alice", "--client", "app"),
        "bob": ("--user", "bob"),
    }.items():
        observe(f"describe {name}", configs("--describe", *arguments))
    alter("remove one", *USERS, *ALICE, "--delete-config", "consumer_byte_rate", number=8)
    alter("remove both", *USERS, *ALICE, *CLIENTS, *APP, "--delete-config", "controller_mutation_rate", number=7)
    observe("describe alice again", configs("--describe", *USERS, *ALICE))


def test_wrong_commands(configs: Run, quotas: Quotas, observe: Observations) -> None:
    for limit in ("producer_byte_rate=-1", "producer_byte_rate=1.5", "producer_byte_rate=x", "no_such_rate=1"):
        observe(limit, configs("--alter", *USERS, *ALICE, "--add-config", limit))
    too_many = "connection_creation_rate=3000000000"
    observe("of an address", configs("--alter", *IPS, *DEFAULT, "--add-config", too_many))
    observe("nothing", quotas.describe())
