"""Kafka's command-line tools for users: their output is the same on both brokers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.comparisons.security.secured import started
from compat_tests.names import Names
from harness.java_runner import JavaRunner
from harness.observations import Observations
from harness.processes.brokers import wait_until
from harness.processes.secured import USERS, SecuredBroker

pytestmark = pytest.mark.java

Run = Callable[..., list[object]]


@pytest.fixture(scope="module")
def secured(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    yield from started(broker_kind, tmp_path_factory.mktemp("tools"), {"delegation.token.secret.key": "secret"})


@pytest.fixture(params=["SASL_SSL", "SASL_PLAINTEXT"])
def login(request: pytest.FixtureRequest, secured: SecuredBroker, tmp_path: Path) -> tuple[str, ...]:
    """The arguments with which a tool logs in as alice."""
    listener = request.param
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    lines = [
        f"security.protocol={listener}",
        "sasl.mechanism=PLAIN",
        f'sasl.jaas.config={module} username="alice" password="{USERS["alice"]}";',
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={secured.certificates.ca}",
    ]
    properties = tmp_path / "client.properties"
    properties.write_text("".join(f"{line}\n" for line in lines))
    return ("--bootstrap-server", secured.address(listener), "--command-config", str(properties))


@pytest.fixture
def configs(java: JavaRunner, login: tuple[str, ...]) -> Run:
    """``configs("--describe", ...)``: status and output of kafka-configs."""

    def run(*arguments: str) -> list[object]:
        done = java.tool("ConfigCommand", *login, *arguments)
        errors = [line for line in done.err.splitlines() if not re.match(r"\s+at |\s*\.\.\. \d+ more", line)]
        return [done.status, done.out, [line.replace(login[1], "ADDRESS") for line in errors]]

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


def test_tokens_are_created_described_renewed_and_expired(
    java: JavaRunner, login: tuple[str, ...], observe: Observations
) -> None:
    def run(*arguments: str) -> str:
        return java.tool("DelegationTokenCommand", *login, *arguments).check().out

    def masked(text: str) -> str:
        text = re.sub(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}", "TIME", text)
        text = re.sub(r"[A-Za-z0-9+/]{86}==", "HMAC", text)
        return re.sub(r"[ \t]+", " ", re.sub(r"\b[A-Za-z0-9_-]{22}\b", "ID", text))

    created = run("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    observe("create", masked(created))
    hmac = re.findall(r"[A-Za-z0-9+/]{86}==", created)[0]

    def listed() -> str:
        return run("--describe", "--owner-principal", "User:alice")

    wait_until(lambda: hmac in listed(), 20, "the token")
    observe("describe", masked(listed()))
    observe("renew", masked(run("--renew", "--renew-time-period", "-1", "--hmac", hmac)))
    observe("expire", masked(run("--expire", "--expiry-time-period", "-1", "--hmac", hmac)))
    wait_until(lambda: hmac not in listed(), 20, "no token")
