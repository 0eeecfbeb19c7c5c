"""Kafka's command-line tools for users: their output is the same on both brokers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from compat_tests.names import Names
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import Broker, wait_until

pytestmark = pytest.mark.java

Run = Callable[..., list[object]]


@pytest.fixture
def configs(java: JavaRunner, broker: Broker) -> Run:
    """``configs("--describe", ...)``: status and output of kafka-configs."""

    def run(*arguments: str) -> list[object]:
        done = java.tool("ConfigCommand", "--bootstrap-server", broker.bootstrap, *arguments)
        errors = [line for line in done.err.splitlines() if not re.match(r"\s+at |\s*\.\.\. \d+ more", line)]
        return [done.status, done.out, [line.replace(broker.bootstrap, "ADDRESS") for line in errors]]

    return run


def user(name: str) -> tuple[str, ...]:
    """The arguments that name a user."""
    return ("--entity-type", "users", "--entity-name", name)


def test_credentials_are_added_described_and_deleted(configs: Run, new_name: Names, observe: Observations) -> None:
    name = new_name("alice")

    def await_text(text: str) -> None:
        wait_until(lambda: text in str(configs("--describe", *user(name))[1]), 20, f"{text} of {name}")

    first, second = "SCRAM-SHA-256=[iterations=8192,password=alice-secret]", "SCRAM-SHA-512=[password=alice-secret]"
    observe("both at once", configs("--alter", *user(name), "--add-config", f"{first},{second}"))
    observe("one", configs("--alter", *user(name), "--add-config", first))
    observe("the other", configs("--alter", *user(name), "--add-config", second))
    await_text("SCRAM-SHA-512")
    described = str(configs("--describe", *user(name))[1])
    observe("described", sorted(re.findall(r"SCRAM-SHA-\d+=iterations=\d+", described)))
    observe("delete", configs("--alter", *user(name), "--delete-config", "SCRAM-SHA-512"))
    wait_until(lambda: "SHA-512" not in str(configs("--describe", *user(name))[1]), 20, f"one credential of {name}")
    observe("described again", configs("--describe", *user(name)))
    observe("absent", configs("--alter", *user(name), "--delete-config", "SCRAM-SHA-512"))
    observe("delete the other", configs("--alter", *user(name), "--delete-config", "SCRAM-SHA-256"))
    wait_until(lambda: not configs("--describe", *user(name))[1], 20, f"no credential of {name}")


def test_wrong_commands(configs: Run, new_name: Names, observe: Observations) -> None:
    name = new_name("bob")
    observe("described", configs("--describe", *user(name)))
    for text in (
        "SCRAM-SHA-256=[iterations=1,password=x]",
        "SCRAM-SHA-256=[iterations=16385,password=x]",
        "SCRAM-SHA-256=[password=]",
        "SCRAM-SHA-256=[iterations=4096]",
        "SCRAM-SHA-1=[password=x]",
    ):
        observe(text, configs("--alter", *user(name), "--add-config", text))
